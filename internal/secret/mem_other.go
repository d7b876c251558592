//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly && !windows

package secret

// allocate has nothing to give: these systems offer no locking.
func allocate(n int) (p []byte, locked, ok bool) { return nil, false, false }

func release([]byte) {}

func disableCoreDumps() error { return nil }
