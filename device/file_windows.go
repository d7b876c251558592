package device

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

const (
	directFlag    = -1 // FILE_FLAG_NO_BUFFERING is no flag of package os
	exclusiveFlag = 0
	largeFlag     = 0
)

// isBlockDevice: disks are not supported, only files.
func isBlockDevice(fs.FileInfo) bool { return false }

func blockDevice(*os.File) (size int64, sector, align int, err error) {
	return 0, 0, 0, errors.ErrUnsupported
}

func setDirect(*os.File) error { return errors.ErrUnsupported }

func directUnit(*os.File) (int, error) { return 0, errors.ErrUnsupported }

func isInvalid(err error) bool { return errors.Is(err, windows.ERROR_INVALID_PARAMETER) }

func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

func flushFile(f *os.File, _ bool) error { return f.Sync() }

// preallocate makes the file size bytes long, for which NTFS takes the space
// unless the file is sparse.
func preallocate(f *os.File, size int64) error { return f.Truncate(size) }

func reserveRange(*os.File, int64, int64) error { return errors.ErrUnsupported }

func punchHole(*os.File, int64, int64) error { return errors.ErrUnsupported }

func zeroRange(*os.File, int64, int64) error { return errors.ErrUnsupported }

func discardSectors(*os.File, int64, int64) error { return errors.ErrUnsupported }

// nextFileExtent takes everything for data.
func nextFileExtent(_ *os.File, off, size int64) (Extent, error) {
	return Extent{Off: off, Len: size - off}, nil
}

// prepareSparse lets NTFS leave holes. Other file systems refuse, and then the
// file has none.
func prepareSparse(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Control(func(h uintptr) {
		var n uint32
		_ = windows.DeviceIoControl(windows.Handle(h), windows.FSCTL_SET_SPARSE, nil, 0, nil, 0, &n, nil)
	})
}

// syncFolder: NTFS writes its journal of names by itself; there is no call.
func syncFolder(*os.File) error { return nil }

// renameNew does not exist for open folders; Rename makes do with a hard link.
func renameNew(*os.File, string, string) error { return errors.ErrUnsupported }
