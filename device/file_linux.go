package device

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	directFlag    = unix.O_DIRECT
	exclusiveFlag = unix.O_EXCL      // open(2): of a block device, fails while the system uses it
	largeFlag     = unix.O_LARGEFILE // os.OpenFile sets it, os.Root.OpenFile does not: 2 GiB would be the most on 32 bits
)

func isBlockDevice(info fs.FileInfo) bool {
	return info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0
}

// blockDevice returns size and logical sector size of a block device, and the
// alignment that requests must have.
func blockDevice(f *os.File) (size int64, sector, align int, err error) {
	if size, err = f.Seek(0, io.SeekEnd); err != nil {
		return 0, 0, 0, err
	}
	err = control(f, func(fd int) (err error) {
		sector, err = unix.IoctlGetInt(fd, unix.BLKSSZGET)
		return err
	})
	return size, sector, 1, err
}

func setDirect(*os.File) error { return errors.ErrUnsupported }

// directUnit returns the unit in which f is read and written directly: at
// least a page, so that no page is in use by both ways at once, and at least
// what statx reports (since Linux 6.1).
func directUnit(f *os.File) (int, error) {
	unit := max(bufferAlign, os.Getpagesize())
	var st unix.Statx_t
	err := control(f, func(fd int) error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	})
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return unit, nil // an older kernel cannot tell
	}
	if st.Dio_offset_align == 0 || st.Dio_mem_align > bufferAlign {
		return 0, errors.ErrUnsupported
	}
	return max(unit, int(st.Dio_offset_align)), nil
}

// flushFile does not wait for times and the like, which fdatasync(2) leaves
// out; a changed size it writes.
func flushFile(f *os.File, _ bool) error { return control(f, unix.Fdatasync) }

// allocateStep is how much, in bytes, one call reserves. A signal makes some
// file systems undo the whole call, so that it should not be long.
const allocateStep = 1 << 30

// preallocate reserves space for size bytes and makes the file as long.
//
// On tmpfs, reserving means allocating and later finding every page, which
// costs half as much as writing them. So it is only made sure that there is
// room now.
func preallocate(f *os.File, size int64) error {
	if st, ok := onTmpfs(f); ok {
		if st.Blocks > 0 && uint64(size) > st.Bavail*uint64(st.Bsize) { // no blocks: no limit
			return unix.ENOSPC
		}
		return f.Truncate(size)
	}
	for off := int64(0); off < size; off += allocateStep {
		err := control(f, func(fd int) error {
			return unix.Fallocate(fd, 0, off, min(allocateStep, size-off))
		})
		if unsupported(err) {
			return f.Truncate(size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onTmpfs tells whether f lies in memory, and what the file system has.
func onTmpfs(f *os.File) (st unix.Statfs_t, ok bool) {
	err := control(f, func(fd int) error { return unix.Fstatfs(fd, &st) })
	return st, err == nil && st.Type == unix.TMPFS_MAGIC
}

// reserveRange gives a range its blocks. On tmpfs it would cost (see
// preallocate) and gain nothing.
func reserveRange(f *os.File, off, n int64) error {
	if _, ok := onTmpfs(f); ok {
		return errors.ErrUnsupported
	}
	return fallocate(f, unix.FALLOC_FL_KEEP_SIZE, off, n)
}

func punchHole(f *os.File, off, n int64) error {
	return fallocate(f, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}

func zeroRange(f *os.File, off, n int64) error {
	return fallocate(f, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}

func fallocate(f *os.File, mode uint32, off, n int64) error {
	err := control(f, func(fd int) error { return unix.Fallocate(fd, mode, off, n) })
	if unsupported(err) {
		return errors.ErrUnsupported
	}
	return err
}

// discardSectors is TRIM. (fallocate's hole would have to read as zeros.)
func discardSectors(f *os.File, off, n int64) error {
	span := [2]uint64{uint64(off), uint64(n)}
	err := control(f, func(fd int) error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.BLKDISCARD, uintptr(unsafe.Pointer(&span)))
		if errno != 0 {
			return errno
		}
		return nil
	})
	if unsupported(err) {
		return errors.ErrUnsupported
	}
	return err
}

// renameNew gives oldName the name newName in one step unless it is taken.
func renameNew(folder *os.File, oldName, newName string) error {
	err := control(folder, func(fd int) error {
		return unix.Renameat2(fd, oldName, fd, newName, unix.RENAME_NOREPLACE)
	})
	if isInvalid(err) || unsupported(err) {
		return errors.ErrUnsupported
	}
	return err
}
