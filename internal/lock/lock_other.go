//go:build !linux && !darwin && !freebsd && !windows

package lock

import "os"

// check finds nothing: no common way to ask exists on these systems.
func check(path string, _ bool) error {
	_, err := os.Stat(path)
	return err
}

func same(a, b string) (bool, error) {
	ia, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	ib, err := os.Stat(b)
	if err != nil {
		return false, err
	}
	return os.SameFile(ia, ib), nil
}

func sameOpen(_ *os.File, info os.FileInfo, path string) (bool, error) {
	other, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return os.SameFile(info, other), nil
}

func hold(*os.File, bool) (func(), error) { return func() {}, nil }

func tryHeader(*os.File, bool) (release func(), busy bool, err error) { return func() {}, false, nil }

func openHeld(path string, _ bool) (*os.File, error) { return os.Open(path) }
