// Package integration holds the built program against the programs that do
// the same job: cryptsetup for headers and payloads, OpenSSL's libcrypto for
// single sectors, the filesystem checkers for what lies inside. It has tests
// only.
package integration
