package secret

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock is mlock(2); a test puts a refusal in its place.
var lock = unix.Mlock

// allocate returns whole pages of at least n bytes outside Go's heap, and
// whether they are locked. Where even mmap is refused, it takes plain memory.
func allocate(n int) ([]byte, bool) {
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	p, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return make([]byte, n), false
	}
	// Both are best effort: a kernel or an emulator without them changes
	// nothing about the buffer's use.
	_ = unix.Madvise(p, unix.MADV_DONTDUMP)
	_ = unix.Madvise(p, unix.MADV_DONTFORK)
	return p, lock(p) == nil
}

// release unmaps what allocate mapped; for plain memory munmap fails, which is
// right, since the collector takes it.
func release(p []byte) {
	if len(p) > 0 {
		_ = unix.Munmap(p)
	}
}

func disableCoreDumps() error {
	// A limit of zero stops files, but not handlers that core_pattern pipes
	// to; a process that is not dumpable stops both (core(5), prctl(2)).
	limit := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 0})
	dumpable := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err := errors.Join(limit, dumpable); err != nil {
		return fmt.Errorf("disable core dumps: %w", err)
	}
	return nil
}
