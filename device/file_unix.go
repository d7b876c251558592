//go:build linux || darwin || freebsd

package device

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// control calls op with f's descriptor until it is not interrupted.
func control(f *os.File, op func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if opErr = op(int(fd)); opErr != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return opErr
}

func isInvalid(err error) bool { return errors.Is(err, unix.EINVAL) }

func isNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// unsupported tells that a file system or disk lacks an operation.
func unsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTSUP) ||
		errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTTY)
}

// nextFileExtent tells data from holes by lseek(2), in a file of size bytes.
func nextFileExtent(f *os.File, off, size int64) (Extent, error) {
	data, err := f.Seek(off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO): // no data from here on: a hole, or the file was truncated
		info, err := f.Stat()
		if err != nil {
			return Extent{}, err
		}
		return Extent{Off: off, Len: size - off, Hole: info.Size() >= size}, nil
	case err != nil && !isInvalid(err) && !unsupported(err):
		return Extent{}, err
	case err != nil || data < off: // a file system that cannot tell
		return Extent{Off: off, Len: size - off}, nil
	case data > off:
		return Extent{Off: off, Len: data - off, Hole: true}, nil
	}
	hole, err := f.Seek(off, unix.SEEK_HOLE)
	if err != nil && !errors.Is(err, unix.ENXIO) { // ENXIO: truncated meanwhile
		return Extent{}, err
	}
	if err != nil || hole <= off { // never an empty extent: the caller would not get on
		hole = size
	}
	return Extent{Off: off, Len: hole - off}, nil
}

func prepareSparse(*os.File) error { return nil } // every file may have holes

// syncFolder makes the names in an open folder durable.
func syncFolder(f *os.File) error {
	err := f.Sync()
	if isInvalid(err) || unsupported(err) { // a file system whose folders need no sync
		return nil
	}
	return err
}
