package lock

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// cryptsetupLocks is where cryptsetup keeps one lock file for each block device
// whose LUKS2 header it is at. (For a regular file it locks the file itself.)
const cryptsetupLocks = "/run/cryptsetup"

func cryptsetupLock(rdev devNum) string {
	return filepath.Join(cryptsetupLocks, fmt.Sprintf("L_%d:%d", rdev.major, rdev.minor))
}

func tryHeader(f *os.File, exclusive bool) (release func(), busy bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, false, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		return tryLockFile(cryptsetupLock(splitDev(uint64(st.Rdev))), exclusive)
	}
	fd := int(f.Fd())
	ok, err := tryFlock(fd, exclusive)
	if err != nil {
		return func() {}, false, nil
	}
	return func() { unflock(fd) }, !ok, nil
}

// tryLockFile locks a file that is made for the purpose and removed by whoever
// is alone with it at the end. A lock on a file that was removed meanwhile is
// worth nothing, so the name is looked at again once the lock is there.
func tryLockFile(path string, exclusive bool) (release func(), busy bool, err error) {
	os.Mkdir(filepath.Dir(path), 0o700)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() {}, false, nil
	}
	fd := int(f.Fd())
	ok, err := tryFlock(fd, exclusive)
	if err != nil {
		f.Close()
		return func() {}, false, nil
	}
	if !ok || !isAt(f, path) {
		f.Close()
		return nil, true, nil
	}
	return func() {
		if alone, _ := tryFlock(fd, true); alone && isAt(f, path) {
			os.Remove(path)
		}
		f.Close()
	}, false, nil
}

func isAt(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}
