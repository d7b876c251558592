package lock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The bytes that qemu locks (its docs/system, "image locking", and
// block/file-posix.c for the numbers): one read lock on 100+p for each
// permission p that it uses, one on 200+p for each that it does not share.
// Nobody writes those locks' bytes; they may lie beyond the end of the file.
const (
	qemuUses     = 100
	qemuUnshares = 200

	permRead      = 0 // consistent read
	permWrite     = 1
	permUnchanged = 2 // write without changing what is read
	permResize    = 3

	permCount = 64 // width of either range
)

// checkRanges looks for POSIX and open-file-description locks: any lock at all
// if we want to write; if we want to read, write locks, and qemu's signs of a
// writer.
func checkRanges(fd int, path string, write bool) error {
	kind := int16(unix.F_RDLCK)
	if write {
		kind = unix.F_WRLCK
	}
	if l, ok := query(fd, kind, 0, 0); ok {
		return inUse(path, "%s", describe(l))
	}
	if write {
		return nil
	}
	return checkSpans(fd, path, sharedFears, true)
}

// checkSpans looks for any lock on the spans. With narrow set, read locks
// that reach far beyond are not meant as qemu's and do not count: a program
// that locks the whole file against writers.
func checkSpans(fd int, path string, spans []span, narrow bool) error {
	for _, s := range spans {
		l, ok := query(fd, unix.F_WRLCK, s.start, s.n)
		if !ok || narrow && l.Type == unix.F_RDLCK && (l.Len == 0 || l.Len > permCount) {
			continue
		}
		return inUse(path, "%s", describe(l))
	}
	return nil
}

// query asks for a lock that stands in the way of one of the given kind on
// [start, start+n) (n == 0: to the end of all files). It takes none.
func query(fd int, kind int16, start, n int64) (l unix.Flock_t, ok bool) {
	l = unix.Flock_t{Type: kind, Start: start, Len: n}
	for {
		err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &l)
		if err != unix.EINTR {
			// An error means a filesystem without such locks.
			return l, err == nil && l.Type != unix.F_UNLCK
		}
	}
}

func describe(l unix.Flock_t) string {
	if b := l.Start; l.Len > 0 && l.Len <= permCount {
		switch {
		case b == qemuUses+permWrite || b == qemuUses+permResize:
			return fmt.Sprintf("open for writing by a program that locks as qemu does (byte %d)", b)
		case b >= qemuUses && b < qemuUses+permCount, b >= qemuUnshares && b < qemuUnshares+permCount:
			return fmt.Sprintf("locked by a program that locks as qemu does (byte %d)", b)
		}
	}
	if l.Pid > 0 {
		return fmt.Sprintf("locked (POSIX lock) by %s", host.process(fmt.Sprint(l.Pid)))
	}
	return "locked (OFD lock)"
}

// span is a run of lock bytes.
type span struct{ start, n int64 }

// What each kind of use locks, and where a lock of others stands against it.
var (
	sharedHolds   = []span{{qemuUses + permRead, 1}, {qemuUnshares + permWrite, 1}, {qemuUnshares + permResize, 1}}
	sharedFears   = []span{{qemuUnshares + permRead, 1}, {qemuUses + permWrite, 1}, {qemuUses + permResize, 1}}
	exclusiveAll  = []span{{qemuUses, permResize + 1}, {qemuUnshares, permResize + 1}}
	exclusiveFear = []span{{qemuUnshares, permCount}, {qemuUses, permCount}}
)

// hold locks first and looks afterwards, as qemu does: of two that come at the
// same moment at least one sees the other.
func hold(f *os.File, exclusive bool) (func(), error) {
	holds, fears := sharedHolds, sharedFears
	if exclusive {
		holds, fears = exclusiveAll, exclusiveFear
	}
	release := func() {
		for _, s := range holds {
			setRange(f, unix.F_UNLCK, s)
		}
	}
	for _, s := range holds {
		err := setRange(f, unix.F_RDLCK, s)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			release()
			return nil, inUse(f.Name(), "locked (write lock on byte %d or near it)", s.start)
		}
		if err != nil {
			release()
			if noLocks(err) {
				return func() {}, nil
			}
			return nil, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
	if err := checkSpans(int(f.Fd()), f.Name(), fears, !exclusive); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func noLocks(err error) bool {
	return errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.EINVAL) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}

func setRange(f *os.File, kind int16, s span) error {
	for {
		l := unix.Flock_t{Type: kind, Start: s.start, Len: s.n}
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l)
		if err != unix.EINTR {
			return err
		}
	}
}

// openHeld opens for reading: that suffices for the read locks. O_EXCL without
// O_CREAT claims a block device.
func openHeld(path string, claim bool) (*os.File, error) {
	flags := unix.O_RDONLY | unix.O_CLOEXEC
	if claim {
		flags |= unix.O_EXCL
	}
	fd, err := openRetry(path, flags)
	if err == unix.EBUSY && claim {
		return nil, inUse(path, "claimed exclusively by a mount or the kernel")
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
