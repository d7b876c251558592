//go:build !linux

package lock

import "os"

func same(a, b string) (bool, error) {
	ia, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	ib, err := os.Stat(b)
	if err != nil {
		return false, err
	}
	return sameInfo(ia, ib), nil
}

func sameOpen(_ *os.File, info os.FileInfo, path string) (bool, error) {
	other, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return sameInfo(info, other), nil
}

func openHeld(path string, _ bool) (*os.File, error) { return os.Open(path) }
