//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package secret

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// allocate returns whole pages of at least n bytes outside Go's heap, and
// whether they are locked; ok is false where even mmap is refused.
func allocate(n int) (p []byte, locked, ok bool) {
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	p, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, false, false
	}
	return p, unix.Mlock(p) == nil, true
}

// release unmaps what allocate mapped.
func release(p []byte) { _ = unix.Munmap(p) }

func disableCoreDumps() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 0}); err != nil {
		return fmt.Errorf("disable core dumps: %w", err)
	}
	return nil
}
