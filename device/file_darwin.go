package device

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	directFlag    = 0 // fcntl(2) F_NOCACHE instead
	exclusiveFlag = 0
	largeFlag     = 0

	// <sys/disk.h>: _IOR('d', 24, uint32_t), _IOR('d', 25, uint64_t)
	dkiocGetBlockSize  = 0x40046418
	dkiocGetBlockCount = 0x40086419
)

// isBlockDevice takes /dev/rdisk too, the unbuffered twin of /dev/disk.
func isBlockDevice(info fs.FileInfo) bool { return info.Mode()&fs.ModeDevice != 0 }

// blockDevice returns size and sector size of a disk, and the alignment that
// requests must have. A character device that is no disk fails here.
func blockDevice(f *os.File) (size int64, sector, align int, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, 0, err
	}
	err = control(f, func(fd int) (err error) {
		if sector, err = unix.IoctlGetInt(fd, dkiocGetBlockSize); err != nil {
			return err
		}
		count, err := unix.IoctlGetInt(fd, dkiocGetBlockCount)
		size = int64(count) * int64(sector)
		return err
	})
	align = 1
	if info.Mode()&fs.ModeCharDevice != 0 {
		align = sector
	}
	return size, sector, align, err
}

func setDirect(f *os.File) error {
	return control(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_NOCACHE, 1)
		return err
	})
}

func directUnit(*os.File) (int, error) { return 0, errors.ErrUnsupported }

// flushFile is F_FULLFSYNC, by package os: fsync(2) alone leaves data in the
// disk's cache.
func flushFile(f *os.File, _ bool) error { return f.Sync() }

// preallocate reserves space for size bytes and makes the file as long.
func preallocate(f *os.File, size int64) error {
	if size > 0 {
		store := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: size}
		err := control(f, func(fd int) error {
			return unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &store)
		})
		if err != nil && !unsupported(err) && !isInvalid(err) {
			return err
		}
	}
	return f.Truncate(size)
}

func reserveRange(*os.File, int64, int64) error { return errors.ErrUnsupported }

func punchHole(*os.File, int64, int64) error { return errors.ErrUnsupported }

func zeroRange(*os.File, int64, int64) error { return errors.ErrUnsupported }

func discardSectors(*os.File, int64, int64) error { return errors.ErrUnsupported }

// renameNew gives oldName the name newName in one step unless it is taken.
func renameNew(folder *os.File, oldName, newName string) error {
	err := control(folder, func(fd int) error {
		return unix.RenameatxNp(fd, oldName, fd, newName, unix.RENAME_EXCL)
	})
	if unsupported(err) || isInvalid(err) {
		return errors.ErrUnsupported
	}
	return err
}
