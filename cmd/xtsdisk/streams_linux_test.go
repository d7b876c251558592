package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// A descriptor that the shell did not open may be one that the program itself
// opens later: nothing of it must become a passphrase.
func TestPassphraseFromOwnDescriptor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(4096))
	before := names(t, dir)
	for n := 3; n <= 10; n++ {
		if inherited(n) { // the tests were started with it, and pass it on
			continue
		}
		fd := strconv.Itoa(n)
		for _, args := range [][]string{
			with(fast, "encrypt", "--passphrase-fd", fd, "disk.img", "new.luks"),
			with(fast, "encrypt", "--key-file", "/dev/fd/"+fd, "disk.img", "new.luks"),
			with(fast, "encrypt", "--passphrase-file", "/proc/self/fd/"+fd, "disk.img", "new.luks"),
			with(fast, "encrypt", "--key-file", "key", "--volume-key-file", "/dev/fd/"+fd, "disk.img", "new.luks"),
			with(fast, "format", "--create", "32M", "--passphrase-fd", fd, "new.luks"),
			{"decrypt", "--volume-key-file", "/dev/fd/" + fd, "disk.luks", "new.img"},
			{"key", "test", "--passphrase-fd", fd, "disk.luks"},
		} {
			code, _, msg := try(t, dir, args...)
			if code != 2 || !strings.Contains(msg, "no file is open there") || !strings.Contains(msg, fd+"<FILE") {
				t.Errorf("%q: exit code %d, want 2: %s", args, code, msg)
			}
		}
	}
	if after := names(t, dir); after != before {
		t.Errorf("made: %s", after)
	}
	key, err := os.Open(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	for _, args := range [][]string{{"--passphrase-fd", "3"}, {"--key-file", "/dev/fd/3"}} {
		if _, err := key.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		cmd := command(t, dir, append(args, "key", "test", "disk.luks")...)
		cmd.ExtraFiles = []*os.File{key}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
}

// The standard streams can be the very files that a verb reads.
func TestStandardStreamIsSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	volume := luksOf(t, dir, image(1<<20))
	ciphertext := read(t, volume)
	disk := filepath.Join(dir, "disk.img")
	for _, c := range []struct {
		stdin, stdout string
		flags         int
		args          []string
	}{
		{disk, "", 0, with(fast, "encrypt", "--force", "--key-file", "key", "-", "disk.img")},
		{volume, "", 0, []string{"decrypt", "--force", "--key-file", "key", "-", "disk.luks"}},
		{"", disk, os.O_APPEND, with(fast, "encrypt", "--key-file", "key", "disk.img", "-")},
		{"", volume, 0, []string{"decrypt", "--key-file", "key", "disk.luks", "-"}},
		{"", volume, 0, []string{"cat", "--key-file", "key", "disk.luks"}},
		{volume, volume, 0, []string{"decrypt", "--key-file", "key", "-", "-"}},
	} {
		cmd := command(t, dir, c.args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if c.stdin != "" {
			f, err := os.Open(c.stdin)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			cmd.Stdin = f
		}
		if c.stdout != "" {
			f, err := os.OpenFile(c.stdout, os.O_WRONLY|c.flags, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			cmd.Stdout = f
		}
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 6 || !strings.Contains(stderr.String(), "are the same") {
			t.Errorf("%q: exit code %d, want 6: %s", c.args, code, &stderr)
		}
		if !bytes.Equal(read(t, disk), image(1<<20)) || !bytes.Equal(read(t, volume), ciphertext) {
			t.Fatalf("%q changed its source", c.args)
		}
	}
}

// A terminal gets no binary data under any of its names.
func TestTerminalAsTarget(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(4096))
	for _, args := range [][]string{
		with(fast, "encrypt", "--key-file", "key", "disk.img", "/dev/tty"),
		with(fast, "encrypt", "--key-file", "key", "disk.img", "/dev/stdout"),
		{"decrypt", "--key-file", "key", "disk.luks", "/dev/tty"},
	} {
		x := startOnTerminal(t, command(t, dir, args...))
		x.expect("is a terminal: the data would garble it")
		if code := x.wait(); code != 6 {
			t.Errorf("%q: exit code %d, want 6", args, code)
		}
	}
}

// A manual page that does not fit is not there at all.
func TestManPagesOnFullDisk(t *testing.T) {
	t.Parallel()
	small := smallDisk(t, "1")
	write(t, filepath.Join(small, "fill"), image(1<<20-4096))
	code, _, msg := try(t, small, "man", ".")
	if code != 7 || !strings.Contains(msg, "make room") {
		t.Errorf("exit code %d, want 7: %s", code, msg)
	}
	for _, name := range strings.Fields(names(t, small)) {
		if info, err := os.Stat(filepath.Join(small, name)); err != nil || info.Size() == 0 || strings.HasPrefix(name, ".") {
			t.Errorf("left behind: %s, %v", name, err)
		}
	}
}

// A limit on the size of files is told from a full disk.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(4<<20))
	bash := testenv.Tool(t, "bash")
	for _, c := range []struct {
		limit, args string
		code        int
		text        string
	}{
		{"ulimit -f 4096", "encrypt --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file key disk.img new", 7, "ulimit -f"},
		{"ulimit -f 1024", "decrypt --key-file key disk.luks new", 7, "ulimit -f"},
		{"ulimit -f 1024", "decrypt --key-file key disk.luks - > out; code=$?; rm out; exit $code", 7, "ulimit -f"},
	} {
		cmd := command(t, dir)
		cmd.Path, cmd.Args = bash, []string{"bash", "-c", c.limit + " && xtsdisk " + c.args}
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.text) {
			t.Errorf("%s; %s: exit code %d, want %d: %s", c.limit, c.args, code, c.code, out)
		}
		if got := names(t, dir); got != "disk.img disk.luks key" {
			t.Fatalf("%s; %s: left behind: %s", c.limit, c.args, got)
		}
	}
}

// Where memory cannot be locked, -v says so, also of verbs that only open.
func TestUnlockedMemoryIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(4096))
	testenv.Feature(t, os.Geteuid() == 0, "root")
	setpriv := testenv.Tool(t, "setpriv")
	testenv.Tool(t, "bash")
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"key", "disk.luks", "disk.img"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program, err := exec.LookPath("xtsdisk")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"key test -v --key-file key disk.luks",
		"decrypt -v --key-file key disk.luks /dev/null",
		"encrypt -v --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file key disk.img /dev/null",
	} {
		cmd := command(t, dir)
		cmd.Path = setpriv
		// The descriptor keeps the program reachable whatever folder it is in.
		f, err := os.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		cmd.ExtraFiles = []*os.File{f}
		cmd.Args = []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "bash", "-c", "ulimit -l 0; exec -a xtsdisk /proc/self/fd/3 " + args}
		out, err := cmd.CombinedOutput()
		f.Close()
		if err != nil || strings.Count(string(out), "did not allow to lock") != 1 {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
}
