//go:build !linux && !darwin && !freebsd

package lock

import "os"

func sameInfo(a, b os.FileInfo) bool { return os.SameFile(a, b) }

// hold does nothing. On Windows locks are mandatory, and would stand in the way
// of our own other handles; other systems have no common way.
func hold(*os.File, bool) (func(), error) { return func() {}, nil }

func tryHeader(*os.File, bool) (release func(), busy bool, err error) { return func() {}, false, nil }
