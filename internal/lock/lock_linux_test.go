package lock

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

func open(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// other runs a shell command that prints a line once it is where the test
// wants it, and keeps it there until the test ends.
func other(t *testing.T, script, path string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script+"\necho ready\nread wait", "sh", path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%s: %q, %v", script, line, err)
	}
}

func checkBoth(t *testing.T, path, write, read string) {
	t.Helper()
	wantUse(t, "CheckWrite", CheckWrite(path), write)
	wantUse(t, "CheckRead", CheckRead(path), read)
}

func TestFree(t *testing.T) {
	checkBoth(t, newFile(t, "image"), "", "")
}

func TestMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	if err := CheckWrite(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := CheckRead(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A pipe must not be opened: that would wait for its other end.
func TestPipePasses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	checkBoth(t, path, "", "")
	if release, err := HoldPath(path, true); err != nil {
		t.Error(err)
	} else {
		release()
	}
}

func TestOpenElsewhere(t *testing.T) {
	path := newFile(t, "image")
	other(t, `exec 3<"$1"`, path)
	checkBoth(t, path, "", "")
	other(t, `exec 3>>"$1"`, path)
	checkBoth(t, path, "open for writing by PID", "open for writing by PID")
}

func TestFlock(t *testing.T) {
	path := newFile(t, "image")
	f := open(t, path, os.O_RDONLY)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	checkBoth(t, path, "locked with flock by PID", "")
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	checkBoth(t, path, "locked with flock", "locked with flock")
	unflock(int(f.Fd()))
	checkBoth(t, path, "", "") // and the checks left none of their own
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the check kept its lock: %v", err)
	}
}

func TestRecordLocks(t *testing.T) {
	for _, c := range []struct {
		name        string
		kind        int16
		start, n    int64
		write, read string
	}{
		{"read lock", unix.F_RDLCK, 0, 0, "OFD lock", ""},
		{"write lock", unix.F_WRLCK, 0, 0, "OFD lock", "OFD lock"},
		{"qemu reads", unix.F_RDLCK, 100, 1, "as qemu does (byte 100)", ""},
		{"qemu writes", unix.F_RDLCK, 101, 1, "open for writing by a program that locks as qemu", "open for writing"},
		{"qemu resizes", unix.F_RDLCK, 103, 1, "open for writing by a program that locks as qemu", "open for writing"},
		{"qemu shares no write", unix.F_RDLCK, 201, 1, "as qemu does (byte 201)", ""},
		{"qemu shares no read", unix.F_RDLCK, 200, 1, "as qemu does (byte 200)", "as qemu does (byte 200)"},
	} {
		path := newFile(t, "image")
		f := open(t, path, os.O_RDWR)
		if err := setRange(f, c.kind, span{c.start, c.n}); err != nil {
			t.Fatal(err)
		}
		t.Log(c.name)
		checkBoth(t, path, c.write, c.read)
	}
}

// POSIX locks belong to the process; sh has no command for them, python's
// fcntl.lockf does.
func TestPosixLock(t *testing.T) {
	python := testenv.Tool(t, "python3")
	path := newFile(t, "image")
	cmd := exec.Command(python, "-c", "import fcntl,sys\nf=open(sys.argv[1])\nfcntl.lockf(f,fcntl.LOCK_SH)\nprint('ready',flush=True)\nsys.stdin.read()", path)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	bufio.NewReader(out).ReadString('\n')
	checkBoth(t, path, "locked (POSIX lock) by PID", "")
}

func TestHold(t *testing.T) {
	kinds := map[string]func(*os.File) (func(), error){"shared": HoldShared, "exclusive": HoldExclusive}
	for _, c := range []struct{ first, second, want string }{
		{"shared", "shared", ""},
		{"shared", "exclusive", "as qemu does"},
		{"exclusive", "shared", "as qemu does"},
		{"exclusive", "exclusive", "as qemu does"},
	} {
		path := newFile(t, "image")
		release, err := kinds[c.first](open(t, path, os.O_RDONLY))
		if err != nil {
			t.Fatal(err)
		}
		second := open(t, path, os.O_RDONLY)
		release2, err := kinds[c.second](second)
		use := c.want
		if use != "" && c.first == "exclusive" {
			use = "" // which of its bytes is met first does not matter
			if !errors.Is(err, ErrInUse) {
				t.Errorf("%s then %s: %v", c.first, c.second, err)
			}
		} else {
			wantUse(t, c.first+" then "+c.second, err, use)
		}
		release()
		if err == nil {
			release2()
		}
		// Everything must be gone, also what the refused one had taken.
		third := open(t, path, os.O_RDWR)
		if err := setRange(third, unix.F_WRLCK, span{0, 0}); err != nil {
			t.Errorf("%s then %s: a lock is left: %v", c.first, c.second, err)
		}
	}
}

func TestHoldPath(t *testing.T) {
	path := newFile(t, "image")
	release, err := HoldPath(path, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := HoldPath(path, false); !errors.Is(err, ErrInUse) {
		t.Errorf("a second hold: %v", err)
	}
	release()
	if release, err = HoldPath(path, false); err != nil {
		t.Error(err)
	}
	release()
}

func TestHoldHeader(t *testing.T) {
	path := newFile(t, "image")
	f, g := open(t, path, os.O_RDONLY), open(t, path, os.O_RDONLY)
	release, err := HoldHeader(t.Context(), f, true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*headerPoll)
	defer cancel()
	if _, err := HoldHeader(ctx, g, false); !errors.Is(err, ErrInUse) {
		t.Errorf("while locked: %v", err)
	}
	time.AfterFunc(2*headerPoll, release)
	release2, err := HoldHeader(t.Context(), g, false)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	release2()
}

func TestHeaderLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cryptsetup", "L_7:0")
	release, busy, err := tryLockFile(path, true)
	if err != nil || busy {
		t.Fatal(busy, err)
	}
	if _, busy, _ := tryLockFile(path, false); !busy {
		t.Error("locked twice")
	}
	release()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock file is left: %v", err)
	}
	a, _, _ := tryLockFile(path, false)
	b, busy, _ := tryLockFile(path, false)
	if busy {
		t.Fatal("two readers exclude each other")
	}
	a()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("removed under another reader: %v", err)
	}
	b()
}

func TestSame(t *testing.T) {
	path := newFile(t, "image")
	dir := filepath.Dir(path)
	link, hard, loose := filepath.Join(dir, "symlink"), filepath.Join(dir, "hard"), newFile(t, "image")
	if err := os.Symlink("image", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, hard); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		b    string
		want bool
	}{
		{path, true}, {link, true}, {hard, true}, {dir + "/../" + filepath.Base(dir) + "/image", true},
		{loose, false}, {filepath.Join(dir, "none"), false}, {"/dev/null", false},
	} {
		if got, err := Same(path, c.b); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", c.b, got, err)
		}
		if got, err := Same(c.b, path); got != c.want || err != nil {
			t.Errorf("%s, the other way round: %v, %v", c.b, got, err)
		}
	}
}

// attach makes a loop device of path, detached at the end of the test.
func attach(t *testing.T, path string, args ...string) string {
	t.Helper()
	testenv.Feature(t, os.Geteuid() == 0, "root")
	losetup := testenv.Tool(t, "losetup")
	out, err := exec.Command(losetup, append(args, "--show", "-f", path)...).Output()
	testenv.Feature(t, err == nil, "loop")
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() { exec.Command(losetup, "-d", dev).Run() })
	return dev
}

func TestLoopDevice(t *testing.T) {
	path := newFile(t, "image")
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	dev := attach(t, path)
	checkBoth(t, path, "a loop device's backing file ("+dev+")", "a loop device's backing file")
	checkBoth(t, dev, "", "")
	if same, err := Same(path, dev); !same || err != nil {
		t.Errorf("file and its loop device: %v, %v", same, err)
	}
	node := filepath.Join(t.TempDir(), "node")
	var st unix.Stat_t
	if err := unix.Stat(dev, &st); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(st.Rdev)); err == nil {
		if same, err := Same(node, dev); !same || err != nil {
			t.Errorf("two nodes: %v, %v", same, err)
		}
	}
	release, err := HoldPath(dev, true)
	if err != nil {
		t.Fatal(err)
	}
	wantUse(t, "a claimed device", CheckWrite(dev), "claimed exclusively")
	if _, err := HoldPath(dev, true); !errors.Is(err, ErrInUse) {
		t.Errorf("claimed twice: %v", err)
	}
	release()
	checkBoth(t, dev, "", "")
}

func TestReadOnlyLoopDevice(t *testing.T) {
	path := newFile(t, "image")
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	attach(t, path, "-r")
	checkBoth(t, path, "a loop device's backing file", "")
}

func TestMountedDevice(t *testing.T) {
	mkfs := testenv.Tool(t, "mkfs.ext4")
	path := newFile(t, "image")
	if err := os.Truncate(path, 4<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dev := attach(t, path)
	point := t.TempDir()
	testenv.Feature(t, unix.Mount(dev, point, "ext4", 0, "") == nil, "mount")
	defer unix.Unmount(point, 0)
	checkBoth(t, dev, "mounted on "+point, "mounted on "+point)
	if err := unix.Mount(dev, point, "ext4", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	checkBoth(t, dev, "mounted on "+point, "")
}

func TestBindMountedFile(t *testing.T) {
	testenv.Feature(t, os.Geteuid() == 0, "root")
	path, source := newFile(t, "target"), newFile(t, "source")
	testenv.Feature(t, unix.Mount(source, path, "", unix.MS_BIND, "") == nil, "mount")
	defer unix.Unmount(path, 0)
	checkBoth(t, path, "a mount point", "")
}

func TestQemuSeesUs(t *testing.T) {
	qemu := testenv.Tool(t, "qemu-io")
	path := newFile(t, "image")
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	try := func(args ...string) error {
		out, err := exec.Command(qemu, append(append([]string{"-f", "raw"}, args...), "-c", "read 0 512", path)...).CombinedOutput()
		if err != nil {
			t.Logf("%s", out)
		}
		return err
	}
	if err := errors.Join(try(), try("-r")); err != nil {
		t.Fatal(err)
	}
	release, err := HoldPath(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if try() == nil {
		t.Error("qemu opens for writing what we read")
	}
	if err := try("-r"); err != nil {
		t.Errorf("qemu cannot read what we read: %v", err)
	}
	release()
	if release, err = HoldPath(path, true); err != nil {
		t.Fatal(err)
	}
	defer release()
	if try() == nil || try("-r") == nil {
		t.Error("qemu opens what we write")
	}
}

func TestWeSeeQemu(t *testing.T) {
	qemu := testenv.Tool(t, "qemu-io")
	for _, c := range []struct {
		args        []string
		write, read string
	}{
		{nil, "open for writing by PID", "open for writing by PID"},
		{[]string{"-r"}, "as qemu does", ""},
	} {
		path := newFile(t, "image")
		if err := os.Truncate(path, 1<<20); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(qemu, append(append([]string{"-f", "raw"}, c.args...), path)...)
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in.Write([]byte("read 0 512\n"))
		bufio.NewReader(out).ReadString('\n') // its answer: the file is open
		checkBoth(t, path, c.write, c.read)
		in.Close()
		cmd.Wait()
	}
}
