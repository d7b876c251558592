package secret

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock is mlock(2) and mmap mmap(2); a test puts refusals in their places.
var (
	lock = unix.Mlock
	mmap = unix.Mmap
)

// allocate returns whole pages of at least n bytes outside Go's heap, and
// whether they are locked; ok is false where even mmap is refused.
func allocate(n int) (p []byte, locked, ok bool) {
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	p, err := mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, false, false
	}
	// Both are best effort: a kernel or an emulator without them changes
	// nothing about the buffer's use.
	_ = unix.Madvise(p, unix.MADV_DONTDUMP)
	_ = unix.Madvise(p, unix.MADV_DONTFORK)
	return p, lock(p) == nil, true
}

// release unmaps what allocate mapped.
func release(p []byte) { _ = unix.Munmap(p) }

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
