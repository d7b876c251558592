package luks

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"hash"
	"strconv"

	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/blake2s"
)

// hashes are the hash functions by cryptsetup's names, for PBKDF2, digests,
// the anti-forensic split and header checksums.
var hashes = map[string]func() hash.Hash{
	"sha1":        sha1.New,
	"sha224":      sha256.New224,
	"sha256":      sha256.New,
	"sha384":      sha512.New384,
	"sha512":      sha512.New,
	"sha3-224":    func() hash.Hash { return sha3.New224() },
	"sha3-256":    func() hash.Hash { return sha3.New256() },
	"sha3-384":    func() hash.Hash { return sha3.New384() },
	"sha3-512":    func() hash.Hash { return sha3.New512() },
	"blake2b-512": func() hash.Hash { return unkeyed(blake2b.New512(nil)) },
	"blake2s-256": func() hash.Hash { return unkeyed(blake2s.New256(nil)) },
}

// unkeyed drops the error of BLAKE2 constructors, which only a key can cause.
func unkeyed(h hash.Hash, _ error) hash.Hash { return h }

func hashByName(name string) (func() hash.Hash, error) {
	if h := hashes[name]; h != nil {
		return h, nil
	}
	return nil, unsupported("hash %s", quote(name))
}

// quote makes text from a header fit for a message: escaped, and cut.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
