package lock

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// system is where the kernel's tables are; tests put others in their place.
type system struct {
	proc, sys, dev string
	self           string // own process id, not counted among the writers
}

var host = system{proc: "/proc", sys: "/sys", dev: "/dev", self: strconv.Itoa(os.Getpid())}

// mount is one line of mountinfo (proc(5)).
type mount struct {
	dev        devNum
	point      string
	source     string
	readOnly   bool
	filesystem string
}

// mounts returns the mounts of this mount namespace. Lines that are not as
// proc(5) has them are left out.
func (s system) mounts() []mount {
	f, err := os.Open(filepath.Join(s.proc, "self/mountinfo"))
	if err != nil {
		return nil
	}
	defer f.Close()
	return parseMounts(f)
}

func parseMounts(r io.Reader) []mount {
	var all []mount
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		front, back, ok := strings.Cut(lines.Text(), " - ")
		f, b := strings.Fields(front), strings.Fields(back)
		if !ok || len(f) < 6 || len(b) < 3 {
			continue
		}
		m := mount{point: unescape(f[4]), filesystem: b[0], source: unescape(b[1])}
		if _, err := fmt.Sscanf(f[2], "%d:%d", &m.dev.major, &m.dev.minor); err != nil {
			continue
		}
		// A filesystem can be mounted read-only at one place and still be
		// written at another: the superblock's own options (the last field) count.
		m.readOnly = hasOption(b[2], "ro")
		all = append(all, m)
	}
	return all
}

func hasOption(list, name string) bool {
	for o := range strings.SplitSeq(list, ",") {
		if o == name {
			return true
		}
	}
	return false
}

// unescape undoes the \ooo that the kernel writes for blanks, tabs, newlines
// and backslashes in its tables.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// swaps returns the paths of the active swap files and devices.
func (s system) swaps() []string {
	text, err := os.ReadFile(filepath.Join(s.proc, "swaps"))
	if err != nil {
		return nil
	}
	var paths []string
	for i, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); i > 0 && len(f) > 1 {
			paths = append(paths, unescape(f[0]))
		}
	}
	return paths
}

// loop is an attached loop device.
type loop struct {
	name     string // "loop3"
	backing  string
	readOnly bool
}

func (s system) loops() []loop {
	dirs, _ := filepath.Glob(filepath.Join(s.sys, "block/loop*"))
	var all []loop
	for _, dir := range dirs {
		if path := readLine(filepath.Join(dir, "loop/backing_file")); path != "" {
			all = append(all, loop{
				name:     filepath.Base(dir),
				backing:  path,
				readOnly: readLine(filepath.Join(dir, "ro")) == "1",
			})
		}
	}
	return all
}

// isBehind tells whether t is behind a loop device. The path that
// the kernel shows can lead nowhere: the name was removed, or belongs to another
// mount namespace. Who may open the device learns a file's own number.
func (s system) isBehind(t target, l loop) bool {
	if byPath := t.leadsTo(l.backing); byPath || t.block {
		return byPath
	}
	fd, err := openRetry(filepath.Join(s.dev, l.name), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	info, err := unix.IoctlLoopGetStatus64(fd)
	return err == nil && splitDev(info.Device) == t.dev && info.Inode == t.ino
}

func readLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

// blockDir is the folder of a block device in /sys, its symbolic link resolved.
func (s system) blockDir(d devNum) (string, error) {
	return filepath.EvalSymlinks(filepath.Join(s.sys, "dev/block", fmt.Sprintf("%d:%d", d.major, d.minor)))
}

// blockName is a block device's name in /dev, as the kernel gives it.
func (s system) blockName(d devNum) string {
	dir, err := s.blockDir(d)
	if err != nil {
		return ""
	}
	return filepath.Base(dir)
}

// readOnly tells whether a block device takes no writes (blockdev --setro, a
// loop device made so, a switch on the medium). Opening it for writing may
// succeed all the same, and only the writes fail.
func (s system) readOnly(d devNum) bool {
	dir, err := s.blockDir(d)
	return err == nil && readLine(filepath.Join(dir, "ro")) == "1"
}

// partitions returns the device numbers of the partitions of a disk.
func (s system) partitions(d devNum) []devNum {
	dir, err := s.blockDir(d)
	if err != nil {
		return nil
	}
	marks, _ := filepath.Glob(filepath.Join(dir, "*", "partition"))
	var parts []devNum
	for _, m := range marks {
		if n, ok := readDevNum(filepath.Join(filepath.Dir(m), "dev")); ok {
			parts = append(parts, n)
		}
	}
	return parts
}

func readDevNum(path string) (n devNum, ok bool) {
	_, err := fmt.Sscanf(readLine(path), "%d:%d", &n.major, &n.minor)
	return n, err == nil
}

// holders returns what lies on a block device: names of device-mapper and md
// devices and the like.
func (s system) holders(d devNum) []string {
	dir, err := s.blockDir(d)
	if err != nil {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "holders"))
	var names []string
	for _, e := range entries {
		name := e.Name()
		if dm := readLine(filepath.Join(dir, "holders", name, "dm/name")); dm != "" {
			name += " (" + dm + ")"
		}
		names = append(names, name)
	}
	return names
}

// below returns the devices that a block device lies on: the disk of a
// partition, the slaves of a device-mapper or md device; and the backing file
// of a loop device.
func (s system) below(d devNum) (devices []devNum, file string) {
	dir, err := s.blockDir(d)
	if err != nil {
		return nil, ""
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		if n, ok := readDevNum(filepath.Join(filepath.Dir(dir), "dev")); ok {
			devices = append(devices, n)
		}
	}
	slaves, _ := filepath.Glob(filepath.Join(dir, "slaves", "*", "dev"))
	for _, path := range slaves {
		if n, ok := readDevNum(path); ok {
			devices = append(devices, n)
		}
	}
	return devices, readLine(filepath.Join(dir, "loop/backing_file"))
}
