package lock

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// writer finds a process that has one of the targets open for writing, and
// returns it as "PID 12 (qemu)". Processes that may not be looked into are
// passed over.
func (s system) writer(targets []target) string {
	dir, err := os.Open(s.proc)
	if err != nil {
		return ""
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, pid := range names {
		if pid == s.self || pid == "" || pid[0] < '0' || pid[0] > '9' {
			continue
		}
		if s.writes(pid, targets) {
			return s.process(pid)
		}
	}
	return ""
}

func (s system) process(pid string) string {
	if name := readLine(filepath.Join(s.proc, pid, "comm")); name != "" {
		return fmt.Sprintf("PID %s (%s)", pid, name)
	}
	return "PID " + pid
}

func (s system) writes(pid string, targets []target) bool {
	dir, err := os.Open(filepath.Join(s.proc, pid, "fd"))
	if err != nil {
		return false
	}
	defer dir.Close()
	fds, _ := dir.Readdirnames(-1)
	for _, fd := range fds {
		u, ok, err := statTarget(filepath.Join(s.proc, pid, "fd", fd))
		if err != nil || !ok {
			continue
		}
		for _, t := range targets {
			if t.is(u) && s.openForWriting(pid, fd) {
				return true
			}
		}
	}
	return false
}

// openForWriting looks at the access mode in fdinfo (proc(5): octal flags).
func (s system) openForWriting(pid, fd string) bool {
	text, err := os.ReadFile(filepath.Join(s.proc, pid, "fdinfo", fd))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(v), 8, 64)
			return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY && flags&unix.O_PATH == 0
		}
	}
	return false
}

// flockOwner finds who holds a flock on t in /proc/locks, as "PID 12 (name)",
// or "" where the table does not show it (another PID namespace).
func (s system) flockOwner(t target) string {
	text, err := os.ReadFile(filepath.Join(s.proc, "locks"))
	if err != nil {
		return ""
	}
	want := fmt.Sprintf("%02x:%02x:%d", t.dev.major, t.dev.minor, t.ino)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) >= 6 && f[1] == "FLOCK" && f[5] == want {
			return s.process(f[4])
		}
	}
	return ""
}
