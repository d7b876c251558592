//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly && !windows

package secret

// allocate returns plain memory: these systems offer no locking.
func allocate(n int) ([]byte, bool) { return make([]byte, n), false }

func release([]byte) {}

func disableCoreDumps() error { return nil }
