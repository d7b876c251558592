//go:build darwin || freebsd

package lock

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func check(path string, write bool) error { return checkUse(path, write, true) }

func checkHeld(path string) error { return checkUse(path, true, false) }

// checkUse looks at mounts and flock. These systems show neither the open files
// of other processes nor swap to an unprivileged program in a stable way.
func checkUse(path string, write, flocks bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	device := info.Mode()&os.ModeDevice != 0
	if !info.Mode().IsRegular() && !device {
		return nil
	}
	if device {
		if point := mountedOn(info, write); point != "" {
			return inUse(path, "mounted on %s", point)
		}
	}
	if !flocks {
		return nil
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // the caller's own open says why
	}
	defer unix.Close(fd)
	ok, err := tryFlock(fd, write)
	if err != nil {
		return nil
	}
	if !ok {
		return inUse(path, "locked with flock")
	}
	unflock(fd)
	return nil
}

// mountedOn returns where the device is mounted (for writing, unless write).
func mountedOn(device os.FileInfo, write bool) string {
	n, err := unix.Getfsstat(nil, unix.MNT_NOWAIT)
	if err != nil {
		return ""
	}
	table := make([]unix.Statfs_t, n)
	if n, err = unix.Getfsstat(table, unix.MNT_NOWAIT); err != nil {
		return ""
	}
	for i := range table[:min(n, len(table))] {
		m := &table[i]
		source, err := os.Stat(unix.ByteSliceToString(m.Mntfromname[:]))
		if err != nil || !sameInfo(source, device) {
			continue
		}
		if write || m.Flags&unix.MNT_RDONLY == 0 {
			return unix.ByteSliceToString(m.Mntonname[:])
		}
	}
	return ""
}

// sameInfo also finds two nodes of one device, and the raw and the buffered
// node of a disk (macOS: /dev/rdisk2 and /dev/disk2 share their number).
func sameInfo(a, b os.FileInfo) bool {
	if os.SameFile(a, b) {
		return true
	}
	if a.Mode()&os.ModeDevice == 0 || b.Mode()&os.ModeDevice == 0 {
		return false
	}
	sa, okA := a.Sys().(*syscall.Stat_t)
	sb, okB := b.Sys().(*syscall.Stat_t)
	return okA && okB && sa.Rdev == sb.Rdev
}

// hold takes a flock: these systems' record locks belong to the process and
// vanish when it closes any descriptor of the file.
func hold(f *os.File, exclusive bool) (func(), error) {
	release, busy, err := tryHeader(f, exclusive)
	if busy {
		return nil, inUse(f.Name(), "locked with flock")
	}
	return release, err
}

func tryHeader(f *os.File, exclusive bool) (release func(), busy bool, err error) {
	fd := int(f.Fd())
	ok, err := tryFlock(fd, exclusive)
	if err != nil {
		return func() {}, false, nil
	}
	return func() { unflock(fd) }, !ok, nil
}
