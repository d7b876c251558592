//go:build !linux && !darwin && !freebsd && !windows

package device

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const (
	directFlag    = -1
	exclusiveFlag = 0
	largeFlag     = 0
)

// isBlockDevice: disks are not supported on these systems, only files.
func isBlockDevice(fs.FileInfo) bool { return false }

func blockDevice(*os.File) (size int64, sector, align int, err error) {
	return 0, 0, 0, errors.ErrUnsupported
}

func setDirect(*os.File) error { return errors.ErrUnsupported }

func directUnit(*os.File) (int, error) { return 0, errors.ErrUnsupported }

func isInvalid(err error) bool { return errors.Is(err, syscall.EINVAL) }

func isNoSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) }

func flushFile(f *os.File, _ bool) error { return f.Sync() }

func preallocate(f *os.File, size int64) error { return f.Truncate(size) }

func reserveRange(*os.File, int64, int64) error { return errors.ErrUnsupported }

func punchHole(*os.File, int64, int64) error { return errors.ErrUnsupported }

func zeroRange(*os.File, int64, int64) error { return errors.ErrUnsupported }

func discardSectors(*os.File, int64, int64) error { return errors.ErrUnsupported }

// nextFileExtent takes everything for data.
func nextFileExtent(_ *os.File, off, size int64) (Extent, error) {
	return Extent{Off: off, Len: size - off}, nil
}

func prepareSparse(*os.File) error { return nil }

func syncFolder(f *os.File) error {
	err := f.Sync()
	if isInvalid(err) {
		return nil
	}
	return err
}

// renameNew does not exist here; Rename makes do with a hard link.
func renameNew(*os.File, string, string) error { return errors.ErrUnsupported }
