package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSameOpen(t *testing.T) {
	path := newFile(t, "image")
	hard, loose := filepath.Join(filepath.Dir(path), "hard"), newFile(t, "image")
	if err := os.Link(path, hard); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, os.O_RDONLY)
	for b, want := range map[string]bool{path: true, hard: true, loose: false, path + ".none": false, "/dev/null": false} {
		if got, err := SameOpen(f, b); got != want || err != nil {
			t.Errorf("%s: %v, %v", b, got, err)
		}
	}
	null := open(t, "/dev/null", os.O_RDONLY)
	if got, err := SameOpen(null, "/dev/null"); got || err != nil {
		t.Errorf("nothing and nothing: %v, %v", got, err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if got, err := SameOpen(r, path); got || err != nil {
		t.Errorf("a pipe: %v, %v", got, err)
	}
	f.Close()
	if _, err := SameOpen(f, path); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestSameOpenLoopDevice(t *testing.T) {
	path := newFile(t, "image")
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	dev := attach(t, path)
	for _, c := range [][2]string{{path, dev}, {dev, path}, {dev, dev}} {
		if same, err := SameOpen(open(t, c[0], os.O_RDONLY), c[1]); !same || err != nil {
			t.Errorf("%v: %v, %v", c, same, err)
		}
	}
	if same, err := SameOpen(open(t, newFile(t, "other"), os.O_RDONLY), dev); same || err != nil {
		t.Errorf("another file: %v, %v", same, err)
	}
}

// Who writes to what a device lies on writes to the device.
func TestWriterBeneath(t *testing.T) {
	backing := newFile(t, "backing")
	image, _, err := statTarget(backing)
	if err != nil {
		t.Fatal(err)
	}
	s := fakeHost(t, map[string]string{
		"sys/devices/loop0/dev":               "7:0\n",
		"sys/devices/loop0/loop/backing_file": backing + "\n",
		"sys/devices/loop0/loop0p1/partition": "1\n",
		"sys/devices/loop0/loop0p1/dev":       "259:0\n",
		"sys/dev/block/7:0":                   "-> ../../devices/loop0",
		"sys/dev/block/259:0":                 "-> ../../devices/loop0/loop0p1",
		// a table that points at itself
		"sys/devices/dm-1/slaves/dm-1": "-> ../../dm-1",
		"sys/devices/dm-1/dev":         "253:1\n",
		"sys/dev/block/253:1":          "-> ../../devices/dm-1",
	})
	part, disk := target{block: true, rdev: devNum{259, 0}}, target{block: true, rdev: devNum{7, 0}}
	got := s.beneath([]target{part}, part)
	if len(got) != 3 || !got[0].is(part) || !got[1].is(disk) || !got[2].is(image) {
		t.Errorf("beneath a partition of a loop device: %+v", got)
	}
	if got := s.beneath([]target{image}, image); len(got) != 1 {
		t.Errorf("beneath a file: %+v", got)
	}
	circle := target{block: true, rdev: devNum{253, 1}}
	if got := s.beneath([]target{circle}, circle); len(got) != 1 {
		t.Errorf("beneath a device that lies on itself: %+v", got)
	}
}

func TestBackingFileOpenElsewhere(t *testing.T) {
	path := newFile(t, "image")
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	dev := attach(t, path)
	other(t, `exec 3<"$1"`, path)
	checkBoth(t, dev, "", "")
	other(t, `exec 3>>"$1"`, path)
	checkBoth(t, dev, "open for writing by PID", "open for writing by PID")
}

func TestReadOnlyDevice(t *testing.T) {
	path := newFile(t, "image")
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	dev := attach(t, path, "-r")
	if err := CheckWrite(dev); !errors.Is(err, unix.EROFS) {
		t.Errorf("got %v", err)
	}
	wantUse(t, "CheckRead", CheckRead(dev), "")
	s := fakeHost(t, map[string]string{
		"sys/devices/sda/ro": "1\n", "sys/dev/block/8:0": "-> ../../devices/sda",
		"sys/devices/sdb/ro": "0\n", "sys/dev/block/8:16": "-> ../../devices/sdb",
	})
	for minor, want := range map[uint32]bool{0: true, 16: false, 32: false} {
		if got := s.readOnly(devNum{8, minor}); got != want {
			t.Errorf("%s: %v", fmt.Sprint(minor), got)
		}
	}
}

// The name by which a loop device was set up can be gone.
func TestBackingFileRemoved(t *testing.T) {
	path := newFile(t, "image")
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	other := path + ".other"
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	dev := attach(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	checkBoth(t, other, "a loop device's backing file ("+dev+")", "a loop device's backing file")
	if same, err := Same(other, dev); !same || err != nil {
		t.Errorf("the same: %v, %v", same, err)
	}
	another := newFile(t, "another")
	checkBoth(t, another, "", "")
	if same, err := Same(another, dev); same || err != nil {
		t.Errorf("another file: %v, %v", same, err)
	}
}
