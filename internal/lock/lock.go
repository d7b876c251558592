// Package lock tells whether a file or block device is in use by somebody
// else, whether two paths lead to the same bytes, and tells others that we use
// one.
//
// What it looks at on Linux: mounts, swap, loop devices, device-mapper and md
// holders, processes that have the file open for writing, flock, POSIX and
// open-file-description locks, among them the bytes that qemu locks. Elsewhere
// it looks at less; each system's file says at what. A check is a snapshot:
// the Hold functions close the gap towards programs that look at locks, and
// nothing closes it towards programs that do not.
//
// Processes of other users are only visible to root, and so are mounts of
// other mount namespaces (those show through an exclusive open).
package lock

import (
	"errors"
	"fmt"
	"os"
)

// ErrInUse is what every InUseError is.
var ErrInUse = errors.New("in use")

// InUseError says what is in use and by whom.
type InUseError struct {
	Path string
	How  string // "mounted on /mnt", "swap", "open for writing by PID 12 (qemu)", ...
}

// Error names the path and the use.
func (e *InUseError) Error() string { return fmt.Sprintf("%s is in use: %s", e.Path, e.How) }

// Is makes every InUseError an ErrInUse.
func (e *InUseError) Is(target error) bool { return target == ErrInUse }

func inUse(path, format string, args ...any) error {
	return &InUseError{Path: path, How: fmt.Sprintf(format, args...)}
}

// CheckWrite returns nil if path may be written: it is not mounted, not the
// backing file of a loop device, not swap, not held by device-mapper or md,
// not locked in any way, and neither it nor what it lies on (a partition's
// disk, a loop device's backing file) is open for writing in another process.
// Else it returns an InUseError, or the error that kept it from looking at
// path; for a block device that is set to be read-only that is EROFS.
// Anything but a regular file or block device passes.
func CheckWrite(path string) error { return check(path, true) }

// CheckHeld is CheckWrite for who has the header lock of path (see HoldHeader)
// to itself: flocks are not looked at, since that lock is one.
func CheckHeld(path string) error { return checkHeld(path) }

// CheckRead returns nil if nobody is known to write to path: it is not mounted
// for writing, not behind a writable loop device, not swap, not held by
// device-mapper or md, not locked for writing, and not open for writing in
// another process. What it returns else is a reason for doubt, since the copy
// may mix states of different moments, and not a danger for path itself.
func CheckRead(path string) error { return check(path, false) }

// Same tells whether writing to b would write to a: the same file by any name
// (hard and symbolic links), the same block device under two nodes, and on
// Linux also a loop device and its backing file, a partition and its disk, a
// device-mapper or md device and what it lies on. A path that does not exist
// is the same as nothing.
func Same(a, b string) (bool, error) {
	for _, path := range []string{a, b} {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return same(a, b)
}

// SameOpen is Same for a file that is open already, such as standard input. A
// pipe or a terminal is the same as nothing.
func SameOpen(f *os.File, path string) (bool, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() && !isBlock(info) {
		return false, nil
	}
	return sameOpen(f, info, path)
}

func isBlock(info os.FileInfo) bool {
	return info.Mode()&os.ModeDevice != 0 && info.Mode()&os.ModeCharDevice == 0
}

// HoldShared marks the open file f as being read: programs that look at the
// same locks (qemu, its tools and this one) then refuse to write to it. It
// returns an InUseError if one of them is writing already. f must be open for
// reading; the mark lasts until release or until f is closed. A filesystem
// without such locks gives a release that does nothing.
func HoldShared(f *os.File) (release func(), err error) { return hold(f, false) }

// HoldExclusive marks the open file f as being written: programs that look at
// the same locks then neither read nor write it. As HoldShared otherwise.
func HoldExclusive(f *os.File) (release func(), err error) { return hold(f, true) }

// HoldPath opens the regular file or block device at path, marks it as
// HoldExclusive does if exclusive, else as HoldShared, and keeps it open until
// release. A block device is claimed too (O_EXCL on Linux), so that nobody
// mounts it meanwhile. Other kinds of file are left alone.
func HoldPath(path string, exclusive bool) (release func(), err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	block := isBlock(info)
	if !info.Mode().IsRegular() && !block {
		return func() {}, nil
	}
	f, err := openHeld(path, block && exclusive)
	if err != nil {
		return nil, err
	}
	unmark, err := hold(f, exclusive)
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { unmark(); f.Close() }, nil
}
