package lock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// checkHeld finds nothing: the caller's own handle, which it holds the header
// by, would stand in the way of the test that check makes.
func checkHeld(path string) error {
	_, err := os.Stat(path)
	return err
}

// check opens the file and refuses to share it: the system then fails the open
// if another handle would conflict. For writing no other handle at all may be
// open; for reading none that can write.
func check(path string, write bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	var share uint32
	if !write {
		share = windows.FILE_SHARE_READ | windows.FILE_SHARE_DELETE
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ, share, nil, windows.OPEN_EXISTING, 0, 0)
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		return inUse(path, "open in another program")
	}
	if err != nil {
		return nil // the caller's own open says why
	}
	windows.CloseHandle(h)
	return nil
}
