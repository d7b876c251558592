package lock

import (
	"golang.org/x/sys/unix"
)

// devNum is a device number split as /sys and /proc print it.
type devNum struct{ major, minor uint32 }

// target is what a path leads to.
type target struct {
	path  string
	block bool
	dev   devNum // of the filesystem that holds the file
	ino   uint64
	rdev  devNum // of the block device
}

// statTarget returns ok == false for what is neither a regular file nor a
// block device.
func statTarget(path string) (t target, ok bool, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return target{}, false, err
	}
	t, ok = targetOf(path, &st)
	return t, ok, nil
}

func targetOf(path string, st *unix.Stat_t) (t target, ok bool) {
	kind := st.Mode & unix.S_IFMT
	t = target{
		path:  path,
		block: kind == unix.S_IFBLK,
		dev:   splitDev(uint64(st.Dev)),
		ino:   st.Ino,
	}
	if t.block {
		t.rdev = splitDev(uint64(st.Rdev))
	}
	return t, t.block || kind == unix.S_IFREG
}

func splitDev(d uint64) devNum { return devNum{unix.Major(d), unix.Minor(d)} }

// is tells whether both lead to the same bytes by themselves. Two nodes of one
// block device differ in inode and agree in rdev.
func (t target) is(u target) bool {
	if t.block != u.block {
		return false
	}
	if t.block {
		return t.rdev == u.rdev
	}
	return t.dev == u.dev && t.ino == u.ino
}

// leadsTo tells whether path leads to t.
func (t target) leadsTo(path string) bool {
	u, ok, err := statTarget(path)
	return err == nil && ok && t.is(u)
}
