//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package secret

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// allocate returns whole pages of at least n bytes outside Go's heap, and
// whether they are locked. Where even mmap is refused, it takes plain memory.
func allocate(n int) ([]byte, bool) {
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	p, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return make([]byte, n), false
	}
	return p, unix.Mlock(p) == nil
}

// release unmaps what allocate mapped; for plain memory munmap fails, which is
// right, since the collector takes it.
func release(p []byte) {
	if len(p) > 0 {
		_ = unix.Munmap(p)
	}
}

func disableCoreDumps() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 0}); err != nil {
		return fmt.Errorf("disable core dumps: %w", err)
	}
	return nil
}
