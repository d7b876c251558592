package luks

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// systemBounds collects the limits that Linux has. What cannot be read is no
// limit: a sandbox without /proc still opens volumes.
func systemBounds() []bound {
	root := os.DirFS("/")
	bounds := cgroupBounds(root)
	bounds = append(bounds, resourceBounds(root)...)
	return append(bounds, machineBounds(root)...)
}

// machineBounds are what the machine has left and, where it promises no more
// memory than it has (overcommit_memory 2, proc_sys_vm(5)), may still promise.
func machineBounds(root fs.FS) (out []bound) {
	if kib, ok := field(root, "proc/meminfo", "MemAvailable:"); ok {
		out = append(out, bound{kib << 10, "MemAvailable"})
	}
	if mode, ok := number(root, "proc/sys/vm/overcommit_memory"); !ok || mode != 2 {
		return out
	}
	limit, ok1 := field(root, "proc/meminfo", "CommitLimit:")
	used, ok2 := field(root, "proc/meminfo", "Committed_AS:")
	if ok1 && ok2 {
		out = append(out, bound{less(limit, used) << 10, "CommitLimit"})
	}
	return out
}

// resourceBounds are RLIMIT_AS and RLIMIT_DATA less what the process has of
// each. Go's reserved address space counts for the first only. Idle heap that
// Go keeps counts as used for both: Argon2 wants one block, and Go, which has
// no way to refuse, was seen to find none in as much idle heap as one Argon2
// had left behind.
func resourceBounds(root fs.FS) []bound {
	statm, err := fs.ReadFile(root, "proc/self/statm")
	if err != nil {
		return nil
	}
	pages := strings.Fields(string(statm)) // size resident shared text lib data dt
	if len(pages) < 6 {
		return nil
	}
	var out []bound
	for _, l := range []struct {
		resource int
		used     string
		name     string
	}{
		{unix.RLIMIT_AS, pages[0], "RLIMIT_AS"},
		{unix.RLIMIT_DATA, pages[5], "RLIMIT_DATA"},
	} {
		var r unix.Rlimit
		used, err := strconv.ParseUint(l.used, 10, 64)
		if err != nil || unix.Getrlimit(l.resource, &r) != nil || r.Cur == unix.RLIM_INFINITY {
			continue
		}
		out = append(out, bound{less(r.Cur, used*uint64(os.Getpagesize())), l.name})
	}
	return out
}

// cgroupBounds returns what each control group from the process's own up to
// the root of its mount leaves: a parent's limit holds for its children.
func cgroupBounds(root fs.FS) []bound {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var out []bound
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy:controllers:path
		if len(parts) != 3 {
			continue
		}
		v2 := parts[0] == "0" && parts[1] == ""
		if !v2 && !hasWord(parts[1], "memory") {
			continue
		}
		top, dir := cgroupFolder(root, v2, parts[2])
		if top == "" {
			continue
		}
		for {
			out = append(out, groupBounds(root, dir, v2)...)
			if dir == top {
				break
			}
			dir = dir[:strings.LastIndexByte(dir, '/')]
		}
	}
	return out
}

// groupBounds reads the limits of one control group, less its usage, of which
// unused file cache does not count. memory.high does not kill, but anonymous
// memory above it stalls the process. A usage that cannot be read is taken as
// none: the limit still is one.
func groupBounds(root fs.FS, dir string, v2 bool) []bound {
	limits, usage, cache := []string{"memory.max", "memory.high"}, "memory.current", "inactive_file"
	if !v2 {
		limits, usage, cache = []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"
	}
	used, _ := number(root, dir+"/"+usage)
	reclaimable, _ := field(root, dir+"/memory.stat", cache)
	used = less(used, reclaimable)
	var out []bound
	for _, name := range limits {
		// "max" is no number; v1 writes no limit as one near 2^63.
		if limit, ok := number(root, dir+"/"+name); ok && limit < 1<<62 {
			out = append(out, bound{less(limit, used), fmt.Sprintf("%s of cgroup /%s", name, dir)})
		}
	}
	return out
}

// cgroupFolder finds where the hierarchy is mounted (top) and the process's
// folder in it, without leading slashes. In a container the mount often shows
// only a part of the hierarchy; a group outside of it is taken as its root.
func cgroupFolder(root fs.FS, v2 bool, group string) (top, dir string) {
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(mounts)) {
		mount, super, ok := strings.Cut(line, " - ") // proc_pid_mountinfo(5)
		m, s := strings.Fields(mount), strings.Fields(super)
		if !ok || len(m) < 5 || len(s) < 3 {
			continue
		}
		if v2 && s[0] != "cgroup2" || !v2 && (s[0] != "cgroup" || !hasWord(s[2], "memory")) {
			continue
		}
		shown, point := m[3], strings.TrimPrefix(m[4], "/")
		rest := group
		if shown != "/" {
			var inside bool
			rest, inside = strings.CutPrefix(group, shown)
			if !inside || rest != "" && rest[0] != '/' {
				rest = ""
			}
		}
		dir := strings.TrimSuffix(point+rest, "/")
		if !fs.ValidPath(dir) {
			dir = point
		}
		return point, dir
	}
	return "", ""
}

// field returns the number behind a name at the start of a line.
func field(root fs.FS, name, key string) (uint64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == key {
			n, err := strconv.ParseUint(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

func number(root fs.FS, name string) (uint64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// less is a-b, but not below zero.
func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}
