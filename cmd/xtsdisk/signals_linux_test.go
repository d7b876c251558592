package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// job is a run of the program that waits for more input: it is in the middle.
type job struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
}

// startJob starts the program, gives it some input, and waits until its folder
// holds more files than before: the unfinished output.
func startJob(t *testing.T, dir string, input []byte, args ...string) *job {
	t.Helper()
	before := names(t, dir)
	j := &job{Cmd: command(t, dir, args...)}
	j.Stderr = &j.stderr
	stdin, err := j.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	j.stdin = stdin
	if err := j.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Process.Kill() })
	if _, err := stdin.Write(input); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(60 * time.Second); names(t, dir) == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no unfinished output appeared: %s", &j.stderr)
		}
	}
	return j
}

func (j *job) exit(t *testing.T) int {
	t.Helper()
	var exit *exec.ExitError
	if err := j.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return j.ProcessState.ExitCode()
}

// endingSignals are the signals that end the program, and with which code. Who
// runs the tests under nohup has the program ignore SIGHUP, as it should.
func endingSignals() map[syscall.Signal]int {
	signals := map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143}
	if !signal.Ignored(syscall.SIGHUP) {
		signals[syscall.SIGHUP] = 129
	}
	return signals
}

func TestSignalsCleanUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	volume := read(t, luksOf(t, dir, image(1<<20)))
	for _, args := range [][]string{
		with(fast, "encrypt", "--key-file", "key", "-", "new.luks"),
		{"encrypt", "--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "512", "--hash", "sha512", "--sector-size", "512", "--passphrase-file", "key", "-", "new.plain"},
		{"decrypt", "--key-file", "key", "-", "new.img"},
	} {
		input := volume[:17<<20-512] // for decrypt: all but the last sector
		for sig, want := range endingSignals() {
			before := names(t, dir)
			j := startJob(t, dir, input, args...)
			if err := j.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := j.exit(t); code != want {
				t.Errorf("%s %v: exit code %d, want %d: %s", args[0], sig, code, want, &j.stderr)
			}
			if after := names(t, dir); after != before {
				t.Errorf("%s %v: left behind: %s", args[0], sig, after)
			}
		}
	}
	if !bytes.Equal(read(t, filepath.Join(dir, "disk.img")), image(1<<20)) {
		t.Error("the source was changed")
	}
}

// Waiting for the other end of a pipe, or for bytes from it, ends with the
// first signal, wherever the pipe stands.
func TestSignalWhileWaitingForPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(4096))
	for _, name := range []string{"alone1", "alone2", "silent"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	silent, err := os.OpenFile(filepath.Join(dir, "silent"), os.O_RDWR, 0) // both ends, and nothing in it
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	before := names(t, dir)
	var jobs []*job
	for _, args := range [][]string{
		with(fast, "encrypt", "--key-file", "key", "alone1", "new"),
		with(fast, "encrypt", "--key-file", "key", "silent", "new"),
		with(fast, "encrypt", "--key-file", "key", "disk.img", "alone2"),
		{"decrypt", "--key-file", "key", "alone1", "new"},
		{"decrypt", "--key-file", "key", "silent", "new"},
		{"decrypt", "--key-file", "key", "disk.luks", "alone2"},
		{"key", "test", "--key-file", "alone1", "disk.luks"},
		{"key", "test", "--key-file", "silent", "disk.luks"},
		{"key", "test", "--passphrase-file", "silent", "disk.luks"},
		{"key", "test", "--volume-key-file", "silent", "disk.luks"},
		{"key", "test", "--passphrase-fd", "3", "disk.luks"},
	} {
		j := &job{Cmd: command(t, dir, args...)}
		j.Stderr, j.ExtraFiles = &j.stderr, []*os.File{silent}
		if err := j.Start(); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	time.Sleep(2 * time.Second) // they show nothing while they wait
	for _, j := range jobs {
		_ = j.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(30*time.Second, func() { _ = j.Process.Kill() })
		if code := j.exit(t); code != 143 {
			t.Errorf("%q: exit code %d, want 143: %s", j.Args, code, &j.stderr)
		}
		late.Stop()
	}
	if after := names(t, dir); after != before {
		t.Errorf("left behind: %s", after)
	}
}

// A second signal ends a program that does not get done with the first, and
// undoes what must not stay.
func TestSecondSignalKills(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("xtsdisk-stuck")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("it says %q", lines.Text())
	}
	go func() {
		for range 600 {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			time.Sleep(100 * time.Millisecond)
		}
		_ = cmd.Process.Kill()
	}()
	if !lines.Scan() || lines.Text() != "undone" {
		t.Errorf("it says %q", lines.Text())
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}

// Signals that were ignored when the program began stay so: nohup works.
func TestIgnoredSignalStaysIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(4096))
	path, err := exec.LookPath("xtsdisk")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "trap '' HUP; exec "+shellQuote(path)+" encrypt --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file key - new.luks")
	cmd.Dir = dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write(image(4096)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	_ = cmd.Process.Signal(syscall.SIGHUP)
	time.Sleep(50 * time.Millisecond)
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// The reader of the output goes away: 141, and not a word about it.
func TestClosedPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(4<<20))
	for _, args := range [][]string{
		{"cat", "--key-file", "key", "disk.luks"},
		{"decrypt", "--key-file", "key", "disk.luks", "-"},
		with(fast, "encrypt", "--key-file", "key", "disk.img", "-"),
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := command(t, dir, args...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		if _, err := io.ReadFull(r, make([]byte, 512)); err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 141 || stderr.Len() > 0 {
			t.Errorf("%q: exit code %d, want 141; %s", args, code, &stderr)
		}
	}
	if got := names(t, dir); got != "disk.img disk.luks key" {
		t.Errorf("left behind: %s", got)
	}
}

// A run that is blocked in a pipe which nobody reads ends with its signal too.
func TestSignalWhileBlockedInWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(4<<20))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := command(t, dir, "cat", "--key-file", "key", "disk.luks")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if _, err := io.ReadFull(r, make([]byte, 512)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}
