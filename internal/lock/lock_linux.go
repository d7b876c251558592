package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func check(path string, write bool) error { return host.check(path, write) }
func checkHeld(path string) error         { return host.checkUse(path, true, false) }
func same(a, b string) (bool, error)      { return host.same(a, b) }

func sameOpen(f *os.File, _ os.FileInfo, path string) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	a, okA := targetOf(f.Name(), &st)
	b, okB, err := statTarget(path)
	if err != nil {
		return false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return okA && okB && host.overlap(a, b), nil
}

func (s system) check(path string, write bool) error { return s.checkUse(path, write, true) }

// checkUse runs the tests from the most telling to the least, so that a mounted
// device is called mounted and not merely busy.
func (s system) checkUse(path string, write, flocks bool) error {
	t, ok, err := statTarget(path)
	if err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if !ok {
		return nil
	}
	family := []target{t}
	if t.block {
		for _, part := range s.partitions(t.rdev) {
			family = append(family, target{block: true, rdev: part})
		}
	}
	for _, u := range family {
		if how := s.tableUse(u, write); how != "" {
			return inUse(path, "%s", how)
		}
	}
	if how := s.isMountPoint(t); how != "" && write {
		return inUse(path, "%s", how)
	}
	if write && t.block && s.readOnly(t.rdev) {
		return &os.PathError{Op: "open", Path: path, Err: unix.EROFS}
	}
	if who := s.writer(s.beneath(family, t)); who != "" {
		return inUse(path, "open for writing by %s", who)
	}
	return s.checkLocks(t, write, flocks)
}

// tableUse looks through the kernel's tables of mounts, swap, loop devices and
// holders.
func (s system) tableUse(t target, write bool) string {
	if t.block {
		for _, m := range s.mounts() {
			if (m.dev == t.rdev || strings.HasPrefix(m.source, "/") && t.leadsTo(m.source)) && (write || !m.readOnly) {
				return fmt.Sprintf("mounted on %s", m.point)
			}
		}
		if names := s.holders(t.rdev); len(names) > 0 {
			return fmt.Sprintf("it carries %s", strings.Join(names, ", "))
		}
	}
	for _, path := range s.swaps() {
		if t.leadsTo(path) {
			return "swap"
		}
	}
	for _, l := range s.loops() {
		if (write || !l.readOnly) && s.isBehind(t, l) {
			return fmt.Sprintf("a loop device's backing file (/dev/%s)", l.name)
		}
	}
	return ""
}

// isMountPoint: something bind-mounted onto a single file. It cannot be
// replaced by a rename.
func (s system) isMountPoint(t target) string {
	if t.block {
		return ""
	}
	path, err := filepath.Abs(t.path)
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	for _, m := range s.mounts() {
		if m.point == path {
			return fmt.Sprintf("a mount point (of %s)", m.filesystem)
		}
	}
	return ""
}

// checkLocks opens the target, which can itself be refused: O_EXCL without
// O_CREAT on a block device fails if it is mounted in another namespace or
// claimed by the kernel in another way.
func (s system) checkLocks(t target, write, flocks bool) error {
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	if t.block && write {
		flags |= unix.O_EXCL
	}
	fd, err := openRetry(t.path, flags)
	if errors.Is(err, unix.EBUSY) {
		return inUse(t.path, "claimed exclusively (a mount in another namespace, or the kernel)")
	}
	if err != nil {
		// What cannot be opened for reading cannot be asked for its locks; the
		// caller's own open says why.
		return nil
	}
	defer unix.Close(fd)
	if flocks {
		if err := s.checkFlock(fd, t, write); err != nil {
			return err
		}
	}
	if flocks && t.block {
		if err := s.checkCryptsetup(t, write); err != nil {
			return err
		}
	}
	return checkRanges(fd, t.path, write)
}

func openRetry(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// flockPatience is how long a block device's flock may be busy: udev holds a
// shared one for as long as it looks at a device that was just closed.
const flockPatience = time.Second

// checkFlock takes the flock for a moment. Only an attempt tells: /proc/locks
// hides what belongs to another PID namespace.
func (s system) checkFlock(fd int, t target, write bool) error {
	deadline := time.Now().Add(flockPatience)
	for {
		ok, err := tryFlock(fd, write)
		if err != nil {
			return nil // no flock here (some network filesystems)
		}
		if ok {
			unflock(fd)
			return nil
		}
		if !t.block || time.Now().After(deadline) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if who := s.flockOwner(t); who != "" {
		return inUse(t.path, "locked with flock by %s", who)
	}
	return inUse(t.path, "locked with flock")
}

func (s system) checkCryptsetup(t target, write bool) error {
	path := cryptsetupLock(t.rdev)
	fd, err := openRetry(path, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	lt, ok, err := statTarget(path)
	if err != nil || !ok {
		return nil
	}
	lt.block = true // the same patience: these locks are brief
	if s.checkFlock(fd, lt, write) != nil {
		return inUse(t.path, "its header is locked by cryptsetup (%s)", path)
	}
	return nil
}

func (s system) same(a, b string) (bool, error) {
	ta, okA, err := statTarget(a)
	if err != nil {
		return false, &os.PathError{Op: "stat", Path: a, Err: err}
	}
	tb, okB, err := statTarget(b)
	if err != nil {
		return false, &os.PathError{Op: "stat", Path: b, Err: err}
	}
	if !okA || !okB {
		return false, nil
	}
	return s.overlap(ta, tb), nil
}

// overlap tells whether a and b have bytes in common.
func (s system) overlap(a, b target) bool { return s.liesOn(a, b, nil) || s.liesOn(b, a, nil) }

// beneath adds to list what t lies on: who writes to that writes to t.
func (s system) beneath(list []target, t target) []target {
	if !t.block {
		return list
	}
	devices, file := s.below(t.rdev)
	var found []target
	for _, d := range devices {
		found = append(found, target{block: true, rdev: d})
	}
	if file != "" {
		if u, ok, err := statTarget(file); err == nil && ok {
			found = append(found, u)
		}
	}
	for _, u := range found {
		if !slices.ContainsFunc(list, u.is) { // also against tables that point at themselves
			list = s.beneath(append(list, u), u)
		}
	}
	return list
}

// liesOn tells whether t's bytes are among those of base: the same file or
// device, or one that t is made of. seen guards against loops in the tables.
func (s system) liesOn(t, base target, seen []target) bool {
	if t.is(base) {
		return true
	}
	for _, u := range seen {
		if u.is(t) {
			return false
		}
	}
	if !t.block {
		return false
	}
	seen = append(seen, t)
	devices, file := s.below(t.rdev)
	for _, d := range devices {
		if s.liesOn(target{block: true, rdev: d}, base, seen) {
			return true
		}
	}
	if file == "" {
		return false
	}
	if s.isBehind(base, loop{name: s.blockName(t.rdev), backing: file}) {
		return true
	}
	u, ok, err := statTarget(file)
	return err == nil && ok && s.liesOn(u, base, seen)
}
