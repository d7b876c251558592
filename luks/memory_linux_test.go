package luks

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// tree makes a file system of names and contents.
func tree(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

const (
	mountV2     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1     = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	mountInside = "40 23 0:28 /docker/abc /sys/fs/cgroup/memory ro master:3 - cgroup cgroup rw,memory\n"
)

func TestCgroupBounds(t *testing.T) {
	const group = "sys/fs/cgroup/a.slice/b.scope/"
	for _, c := range []struct {
		name  string
		files map[string]string
		least uint64 // 0: no limit
		why   string
	}{
		{"none", map[string]string{}, 0, ""},
		{"no mount", map[string]string{"proc/self/cgroup": "0::/a\n"}, 0, ""},
		{"v2 without limits", map[string]string{
			"proc/self/cgroup": "0::/a.slice/b.scope\n", "proc/self/mountinfo": mountV2,
			group + "memory.max": "max\n", group + "memory.high": "max\n", group + "memory.current": "1000\n",
		}, 0, ""},
		{"v2 own limit less usage, cache given back", map[string]string{
			"proc/self/cgroup": "0::/a.slice/b.scope\n", "proc/self/mountinfo": mountV2,
			group + "memory.max": "100000\n", group + "memory.current": "30000\n",
			group + "memory.stat": "anon 1\ninactive_file 20000\nactive_file 5\n",
		}, 90000, "memory.max of cgroup /sys/fs/cgroup/a.slice/b.scope"},
		{"v2 usage unreadable", map[string]string{
			"proc/self/cgroup": "0::/a.slice/b.scope\n", "proc/self/mountinfo": mountV2, group + "memory.max": "70000\n",
		}, 70000, "memory.max"},
		{"v2 behind a long mount", map[string]string{
			"proc/self/cgroup":    "0::/a.slice/b.scope\n",
			"proc/self/mountinfo": "29 1 0:1 / / rw - overlay overlay rw,lowerdir=" + strings.Repeat("/lower:", 1<<14) + "\n" + mountV2,
			group + "memory.max":  "100000\n", group + "memory.current": "30000\n",
		}, 70000, "memory.max"},
		{"v2 parent's limit", map[string]string{
			"proc/self/cgroup": "0::/a.slice/b.scope\n", "proc/self/mountinfo": mountV2,
			group + "memory.max": "100000\n", group + "memory.current": "1\n",
			"sys/fs/cgroup/a.slice/memory.max": "50000\n", "sys/fs/cgroup/a.slice/memory.current": "20000\n",
		}, 30000, "a.slice"},
		{"v2 memory.high", map[string]string{
			"proc/self/cgroup": "0::/a.slice/b.scope\n", "proc/self/mountinfo": mountV2,
			group + "memory.high": "70000\n", group + "memory.max": "100000\n", group + "memory.current": "1\n",
		}, 69999, "memory.high"},
		{"v2 over the limit", map[string]string{
			"proc/self/cgroup": "0::/a.slice/b.scope\n", "proc/self/mountinfo": mountV2,
			group + "memory.max": "100\n", group + "memory.current": "101\n",
		}, 0, "memory.max"},
		{"v2 namespace at the root of the mount", map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/memory.max": "5000\n", "sys/fs/cgroup/memory.current": "1000\n",
		}, 4000, "memory.max"},
		{"v2 group outside of the namespace", map[string]string{
			"proc/self/cgroup": "0::/../other\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/memory.max": "5000\n", "sys/fs/cgroup/memory.current": "1000\n",
		}, 4000, "memory.max"},
		{"v1", map[string]string{
			"proc/self/cgroup": "5:cpu:/x\n4:memory,hugetlb:/x/y\n0::/\n", "proc/self/mountinfo": mountV1,
			"sys/fs/cgroup/memory/x/y/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/x/y/memory.usage_in_bytes": "10\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "8000\n", "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "3000\n",
			"sys/fs/cgroup/memory/x/memory.stat": "inactive_file 7\ntotal_inactive_file 500\n",
		}, 5500, "memory.limit_in_bytes of cgroup /sys/fs/cgroup/memory/x"},
		{"v1 seen from a container", map[string]string{
			"proc/self/cgroup": "4:memory:/docker/abc\n", "proc/self/mountinfo": mountInside,
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "8000\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1000\n",
		}, 7000, "memory.limit_in_bytes"},
		{"v1 group beside the mount's root", map[string]string{
			"proc/self/cgroup": "4:memory:/docker/abcdef\n", "proc/self/mountinfo": mountInside,
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "8000\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1000\n",
		}, 7000, "memory.limit_in_bytes"},
		{"nonsense", map[string]string{
			"proc/self/cgroup": "\n::\n0::\nx\n0::/\x00//..\n", "proc/self/mountinfo": "\n - \n1 2 3 4 5 - cgroup2\n" + mountV2,
			"sys/fs/cgroup/memory.max": "12x\n", "sys/fs/cgroup/memory.current": "1\n",
		}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			least, found := bound{bytes: 1 << 63}, false
			for _, b := range cgroupBounds(tree(c.files)) {
				if b.bytes < least.bytes {
					least, found = b, true
				}
			}
			if found != (c.why != "") || found && least.bytes != c.least || !strings.Contains(least.why, c.why) {
				t.Errorf("got %+v", least)
			}
		})
	}
}

// Memory that the machine does not promise cannot be had either.
func TestMachineBounds(t *testing.T) {
	const meminfo = "MemTotal: 90 kB\nMemAvailable: 50 kB\nCommitLimit: 60 kB\nCommitted_AS: 40 kB\n"
	for _, c := range []struct {
		files map[string]string
		want  []bound
	}{
		{map[string]string{}, nil},
		{map[string]string{"proc/meminfo": meminfo}, []bound{{50 << 10, "MemAvailable"}}},
		{map[string]string{"proc/meminfo": meminfo, "proc/sys/vm/overcommit_memory": "0\n"}, []bound{{50 << 10, "MemAvailable"}}},
		{map[string]string{"proc/meminfo": meminfo, "proc/sys/vm/overcommit_memory": "2\n"}, []bound{{50 << 10, "MemAvailable"}, {20 << 10, "CommitLimit"}}},
		{map[string]string{"proc/meminfo": "CommitLimit: 1 kB\nCommitted_AS: 2 kB\n", "proc/sys/vm/overcommit_memory": "2\n"}, []bound{{0, "CommitLimit"}}},
	} {
		if got := machineBounds(tree(c.files)); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.files, got, c.want)
		}
	}
}
