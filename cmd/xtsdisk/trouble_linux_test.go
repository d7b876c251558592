package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// smallDisk mounts a tmpfs of so many MiB.
func smallDisk(t *testing.T, mib string) string {
	t.Helper()
	dir := t.TempDir()
	testenv.Feature(t, os.Geteuid() == 0, "root")
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+mib+"M"); err != nil {
		testenv.Feature(t, false, "mount")
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestNoSpace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(8<<20))
	small := smallDisk(t, "20")
	tiny := smallDisk(t, "4")
	for name, args := range map[string][]string{
		"known beforehand": with(fast, "encrypt", "--key-file", "key", "disk.img", filepath.Join(small, "new")),
		"found half-way":   with(fast, "encrypt", "--key-file", "key", "-", filepath.Join(small, "new")),
		"decrypting":       {"decrypt", "--key-file", "key", "disk.luks", filepath.Join(tiny, "new")},
		"decrypting stdin": {"decrypt", "--key-file", "key", "-", filepath.Join(tiny, "new")},
		"replacing":        with(fast, "encrypt", "--force", "--key-file", "key", "disk.img", filepath.Join(small, "old")),
	} {
		write(t, filepath.Join(small, "old"), []byte("old"))
		cmd := command(t, dir, args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		source := filepath.Join(dir, "disk.img")
		if args[0] == "decrypt" {
			source = filepath.Join(dir, "disk.luks")
		}
		stdin, err := os.Open(source)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdin = stdin
		_ = cmd.Run()
		_ = stdin.Close()
		if code := cmd.ProcessState.ExitCode(); code != 7 || !strings.Contains(stderr.String(), "make room") {
			t.Errorf("%s: exit code %d, want 7: %s", name, code, &stderr)
		}
		if got := names(t, small) + names(t, tiny); got != "old" || string(read(t, filepath.Join(small, "old"))) != "old" {
			t.Errorf("%s: left behind: %s", name, got)
		}
	}
}

func TestNoSpaceOnStdout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(1<<20))
	for _, args := range [][]string{
		{"cat", "--key-file", "key", "disk.luks"},
		{"decrypt", "--key-file", "key", "disk.luks", "-"},
		with(fast, "encrypt", "--key-file", "key", "disk.img", "-"),
		{"version"}, {"--help"}, {"completion", "bash"},
		{"key", "test", "--key-file", "key", "disk.luks"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		cmd := command(t, dir, args...)
		cmd.Stdout = full
		_ = cmd.Run()
		_ = full.Close()
		if code := cmd.ProcessState.ExitCode(); code != 7 {
			t.Errorf("%q > /dev/full: exit code %d, want 7", args, code)
		}
	}
}

// The source shrinks while it is read: the run stops in a full pipe, the file
// is cut, and the pipe is emptied.
func TestSourceShrinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), []byte("secret"))
	source := filepath.Join(dir, "disk.img")
	write(t, source, image(96<<20))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := command(t, dir, with(fast, "encrypt", "--key-file", "key", "disk.img", "-")...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if _, err := io.ReadFull(r, make([]byte, 17<<20)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(source, 90<<20); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 || !strings.Contains(stderr.String(), "disk.img") || !strings.Contains(stderr.String(), "stop what changes the source") {
		t.Errorf("exit code %d, want 7: %s", code, &stderr)
	}
}

// Two runs with the same target: the one that ends first has it, and the other
// says so instead of replacing it.
func TestTwoRunsOneTarget(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	volume := luksOf(t, dir, image(4096))
	j := startJob(t, dir, image(1<<20), with(fast, "encrypt", "--key-file", "key", "-", "new.luks")...)
	if code, _, msg := try(t, dir, with(fast, "encrypt", "--key-file", "key", "disk.img", "new.luks")...); code != 0 {
		t.Fatal(msg)
	}
	won := read(t, filepath.Join(dir, "new.luks"))
	_ = j.stdin.Close()
	if code := j.exit(t); code != 6 {
		t.Errorf("exit code %d, want 6: %s", code, &j.stderr)
	}
	if !bytes.Equal(read(t, filepath.Join(dir, "new.luks")), won) {
		t.Error("the second run replaced the first one's volume")
	}
	if got := names(t, dir); got != "disk.img disk.luks key new.luks" {
		t.Errorf("left behind: %s", got)
	}
	_ = volume
}

// What somebody else uses is not written.
func TestTargetInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(4096))
	target := filepath.Join(dir, "target")
	for how, use := range map[string]func(*os.File) error{
		"open for writing": func(*os.File) error { return nil },
		"flock":            func(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) },
		"OFD lock": func(f *os.File) error {
			return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 100, Len: 101})
		},
	} {
		write(t, target, image(64<<20))
		f, err := os.OpenFile(target, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := use(f); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			with(fast, "encrypt", "--force", "--key-file", "key", "disk.img", "target"),
			{"decrypt", "--force", "--key-file", "key", "disk.luks", "target"},
			with(fast, "format", "--force", "--key-file", "key", "target"),
		} {
			code, _, msg := try(t, dir, args...)
			if code != 6 || !strings.Contains(msg, "target is in use") || !strings.Contains(msg, "then try again") {
				t.Errorf("%s, %s: exit code %d, want 6: %s", how, args[0], code, msg)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(t, target), image(64<<20)) {
			t.Fatalf("%s: the target was changed", how)
		}
	}
}

// A long run keeps others from writing what it reads.
func TestSourceIsHeld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(8<<20))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, dir, "cat", "--key-file", "key", "disk.luks")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if _, err := io.ReadFull(r, make([]byte, 512)); err != nil {
		t.Fatal(err)
	}
	code, _, msg := try(t, dir, with(fast, "format", "--force", "--key-file", "key", "disk.luks")...)
	if code != 6 || !strings.Contains(msg, "in use") {
		t.Errorf("exit code %d, want 6: %s", code, msg)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
}

func remountReadOnly(dir string) error {
	return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// Wrong passphrase, damaged keyslot, damaged header and too little memory are
// told apart.
func TestUnlockFailuresDiffer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(4096))
	write(t, filepath.Join(dir, "wrong"), []byte("mistake"))
	volume := read(t, filepath.Join(dir, "disk.luks"))
	for name, c := range map[string]struct {
		key  string
		zero [2]int // bytes to overwrite
		code int
		text string
	}{
		"right":            {"key", [2]int{}, 0, ""},
		"wrong passphrase": {"wrong", [2]int{}, 3, "wrong passphrase"},
		// where the first keyslot's area lies in a volume of default sizes
		"keyslot damaged":       {"key", [2]int{32768, 32768 + 258048}, 4, "no passphrase can open it"},
		"primary header gone":   {"key", [2]int{0, 4096}, 0, "secondary"},
		"both headers damaged":  {"key", [2]int{100, 32768}, 4, "backup"},
		"no header of any kind": {"key", [2]int{0, 32768}, 10, "only LUKS volumes have keyslots"},
	} {
		damaged := bytes.Clone(volume)
		clear(damaged[c.zero[0]:c.zero[1]])
		write(t, filepath.Join(dir, "damaged.luks"), damaged)
		code, out, msg := try(t, dir, "key", "test", "--key-file", c.key, "damaged.luks")
		if code != c.code || !strings.Contains(msg, c.text) {
			t.Errorf("%s: exit code %d, want %d, and %q: %s%s", name, code, c.code, c.text, out, msg)
		}
		if !bytes.Equal(read(t, filepath.Join(dir, "damaged.luks")), damaged) {
			t.Errorf("%s: the volume was changed by reading", name)
		}
	}
}

func TestNotEnoughMemory(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("the race detector itself needs more memory")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), []byte("secret"))
	write(t, filepath.Join(dir, "disk.img"), image(4096))
	if code, _, msg := try(t, dir, "encrypt", "--pbkdf-memory", "524288", "--pbkdf-force-iterations", "4", "--key-file", "key", "disk.img", "disk.luks"); code != 0 {
		t.Fatal(msg)
	}
	cmd := command(t, dir)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "ulimit -d 400000 && exec xtsdisk key test --key-file key disk.luks"}
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 9 || !strings.Contains(string(out), "RLIMIT_DATA") || !strings.Contains(string(out), "--pbkdf-memory") {
		t.Errorf("exit code %d, want 9: %s", code, out)
	}
}
