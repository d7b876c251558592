package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeHost is a /proc and a /sys to be filled by a test.
func fakeHost(t *testing.T, files map[string]string) system {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return system{proc: filepath.Join(root, "proc"), sys: filepath.Join(root, "sys"), self: "1"}
}

func newFile(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("contents"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantUse checks that err is an InUseError for path whose How holds want;
// want == "" means no error.
func wantUse(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%s: %v, want nothing", what, err)
		}
		return
	}
	var use *InUseError
	if !errors.Is(err, ErrInUse) || !errors.As(err, &use) || !strings.Contains(use.How, want) {
		t.Errorf("%s: %v, want in use: %s", what, err, want)
	}
}

// The format of mountinfo is that of proc(5); the first line is its example
// with an escaped blank.
func TestParseMounts(t *testing.T) {
	got := parseMounts(strings.NewReader(
		`36 35 98:0 /mnt1 /mnt/my\040disk rw,noatime master:1 - ext3 /dev/root\134x rw,errors=continue
37 35 98:1 / /ro rw - ext4 /dev/sdb1 ro
nonsense
38 35 98:x / /bad rw - ext4 /dev/sdb1 rw
`))
	want := []mount{
		{dev: devNum{98, 0}, point: "/mnt/my disk", source: `/dev/root\x`, filesystem: "ext3"},
		{dev: devNum{98, 1}, point: "/ro", source: "/dev/sdb1", filesystem: "ext4", readOnly: true},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTableUse(t *testing.T) {
	file := newFile(t, "disk image")
	escaped := strings.ReplaceAll(file, " ", `\040`)
	disk, part := target{block: true, rdev: devNum{8, 0}}, target{block: true, rdev: devNum{8, 1}}
	image, ok, err := statTarget(file)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	const noMounts, noSwaps = "", "Filename Type Size Used Priority\n"
	cases := []struct {
		name  string
		files map[string]string
		t     target
		write string
		read  string
	}{
		{"free", map[string]string{"proc/self/mountinfo": noMounts, "proc/swaps": noSwaps}, image, "", ""},
		{"mounted", map[string]string{"proc/self/mountinfo": "1 2 8:1 / /mnt rw - ext4 /dev/x rw\n"}, part, "mounted on /mnt", "mounted on /mnt"},
		{"mounted read-only", map[string]string{"proc/self/mountinfo": "1 2 8:1 / /mnt ro - ext4 /dev/x ro\n"}, part, "mounted on /mnt", ""},
		{"other mounted", map[string]string{"proc/self/mountinfo": "1 2 8:2 / /mnt rw - ext4 /dev/x rw\n"}, part, "", ""},
		{"held by dm", map[string]string{
			"sys/devices/sda/dev":                    "8:0\n",
			"sys/devices/sda/holders/dm-3/dm/name":   "backup\n",
			"sys/dev/block/8:0":                      "-> ../../devices/sda",
			"sys/devices/sda/sda1/partition":         "1\n",
			"sys/devices/sda/sda1/dev":               "8:1\n",
			"sys/devices/sda/sda1/holders/md0/dummy": "",
			"sys/dev/block/8:1":                      "-> ../../devices/sda/sda1",
		}, disk, "carries dm-3 (backup)", "carries dm-3 (backup)"},
		{"swap file", map[string]string{"proc/swaps": noSwaps + escaped + "\tfile\t1\t0\t-2\n"}, image, "swap", "swap"},
		{"loop", map[string]string{"sys/block/loop3/loop/backing_file": file + "\n", "sys/block/loop3/ro": "0\n"}, image, "/dev/loop3", "/dev/loop3"},
		{"read-only loop", map[string]string{"sys/block/loop3/loop/backing_file": file + "\n", "sys/block/loop3/ro": "1\n"}, image, "/dev/loop3", ""},
		{"other loop", map[string]string{"sys/block/loop3/loop/backing_file": file + "x\n"}, image, "", ""},
	}
	for _, c := range cases {
		s := fakeHost(t, c.files)
		for _, write := range []bool{true, false} {
			want := c.read
			if write {
				want = c.write
			}
			got := s.tableUse(c.t, write)
			if want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("%s, write %v: %q, want %q", c.name, write, got, want)
			}
		}
	}
}

func TestPartitionsAndBelow(t *testing.T) {
	s := fakeHost(t, map[string]string{
		"sys/devices/sda/dev":                   "8:0\n",
		"sys/devices/sda/sda1/partition":        "1\n",
		"sys/devices/sda/sda1/dev":              "8:1\n",
		"sys/devices/sda/queue/dev":             "no number\n",
		"sys/dev/block/8:0":                     "-> ../../devices/sda",
		"sys/dev/block/8:1":                     "-> ../../devices/sda/sda1",
		"sys/devices/virtual/dm-0/slaves/sda1":  "-> ../../../sda/sda1",
		"sys/dev/block/253:0":                   "-> ../../devices/virtual/dm-0",
		"sys/devices/loop0/loop/backing_file":   "/images/a\n",
		"sys/devices/loop0/loop0p1/partition":   "1\n",
		"sys/devices/loop0/dev":                 "7:0\n",
		"sys/dev/block/7:0":                     "-> ../../devices/loop0",
		"sys/dev/block/259:0":                   "-> ../../devices/loop0/loop0p1",
		"sys/devices/virtual/dm-1/slaves/dm-1x": "-> ../../dm-1",
		"sys/devices/virtual/dm-1/dev":          "253:1\n",
		"sys/dev/block/253:1":                   "-> ../../devices/virtual/dm-1",
	})
	block := func(major, minor uint32) target { return target{block: true, rdev: devNum{major, minor}} }
	if p := s.partitions(devNum{8, 0}); fmt.Sprint(p) != "[{8 1}]" {
		t.Errorf("partitions: %v", p)
	}
	for _, c := range []struct {
		a, b target
		want bool
	}{
		{block(8, 1), block(8, 0), true},
		{block(8, 0), block(8, 1), false}, // the caller asks both ways
		{block(253, 0), block(8, 0), true},
		{block(253, 0), block(7, 0), false},
		{block(259, 0), block(7, 0), true},
		{block(253, 1), block(8, 0), false}, // its tables point at itself
	} {
		if got := s.liesOn(c.a, c.b, nil); got != c.want {
			t.Errorf("%v lies on %v: %v", c.a.rdev, c.b.rdev, got)
		}
	}
	if _, file := s.below(devNum{7, 0}); file != "/images/a" {
		t.Errorf("backing file %q", file)
	}
}

func TestWriter(t *testing.T) {
	file := newFile(t, "image")
	image, _, err := statTarget(file)
	if err != nil {
		t.Fatal(err)
	}
	process := func(pid, flags string) map[string]string {
		return map[string]string{
			"proc/" + pid + "/comm":     "qemu\n",
			"proc/" + pid + "/fd/0":     "-> /dev/null",
			"proc/" + pid + "/fd/7":     "-> " + file,
			"proc/" + pid + "/fdinfo/0": "pos:\t0\nflags:\t02\n",
			"proc/" + pid + "/fdinfo/7": "pos:\t0\nflags:\t" + flags + "\nmnt_id:\t9\n",
		}
	}
	for _, c := range []struct{ pid, flags, want string }{
		{"12", "0100002", "PID 12 (qemu)"},
		{"12", "0100001", "PID 12 (qemu)"},
		{"12", "0100000", ""},
		{"12", fmt.Sprintf("0%o", unix.O_PATH|unix.O_RDWR), ""},
		{"1", "0100002", ""}, // ourselves
		{"self", "0100002", ""},
	} {
		s := fakeHost(t, process(c.pid, c.flags))
		if got := s.writer([]target{image}); got != c.want {
			t.Errorf("pid %s, flags %s: %q, want %q", c.pid, c.flags, got, c.want)
		}
	}
}

func TestFlockOwner(t *testing.T) {
	s := fakeHost(t, map[string]string{
		"proc/locks": "1: POSIX  ADVISORY  WRITE 7 08:01:5678 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 08:11:5678 0 EOF\n",
	})
	if got := s.flockOwner(target{dev: devNum{8, 17}, ino: 5678}); got != "PID 12" {
		t.Errorf("owner %q", got)
	}
	if got := s.flockOwner(target{dev: devNum{8, 1}, ino: 5678}); got != "" {
		t.Errorf("owner of the POSIX lock's file: %q", got)
	}
}
