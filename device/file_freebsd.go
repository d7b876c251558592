package device

import (
	"errors"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	directFlag    = unix.O_DIRECT
	exclusiveFlag = 0
	largeFlag     = 0
)

// isBlockDevice is true of character devices: FreeBSD has no other disks. One
// that is no disk fails in blockDevice.
func isBlockDevice(info fs.FileInfo) bool { return info.Mode()&fs.ModeDevice != 0 }

// blockDevice returns size and sector size of a disk. Its requests must be
// whole sectors.
func blockDevice(f *os.File) (size int64, sector, align int, err error) {
	var bytes uint32
	err = control(f, func(fd int) error {
		if err := ioctl(fd, unix.DIOCGSECTORSIZE, unsafe.Pointer(&bytes)); err != nil {
			return err
		}
		return ioctl(fd, unix.DIOCGMEDIASIZE, unsafe.Pointer(&size))
	})
	return size, int(bytes), int(bytes), err
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}

func setDirect(*os.File) error { return errors.ErrUnsupported }

func directUnit(*os.File) (int, error) { return max(bufferAlign, os.Getpagesize()), nil }

func flushFile(f *os.File, disk bool) error {
	if !disk {
		return f.Sync()
	}
	err := control(f, func(fd int) error { return ioctl(fd, unix.DIOCGFLUSH, nil) })
	if unsupported(err) { // no cache
		return nil
	}
	return err
}

// preallocate makes the file size bytes long; space is taken when written.
func preallocate(f *os.File, size int64) error { return f.Truncate(size) }

func reserveRange(*os.File, int64, int64) error { return errors.ErrUnsupported }

func punchHole(*os.File, int64, int64) error { return errors.ErrUnsupported }

func zeroRange(*os.File, int64, int64) error { return errors.ErrUnsupported }

func discardSectors(*os.File, int64, int64) error { return errors.ErrUnsupported }

// renameNew does not exist here; Rename makes do with a hard link.
func renameNew(*os.File, string, string) error { return errors.ErrUnsupported }
