package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestPromptTwiceForNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "disk.img"), image(65536))
	x := startOnTerminal(t, command(t, dir, with(fast, "encrypt", "disk.img", "disk.luks")...))
	x.expect("New passphrase for disk.luks: ")
	if x.echoes() {
		t.Error("the terminal shows what is typed")
	}
	x.typeLine("correct horse")
	x.expect("The same again: ")
	x.typeLine("correct hose")
	x.expect("differ")
	x.expect("New passphrase for disk.luks: ")
	x.typeLine("correct horse")
	x.expect("The same again: ")
	x.typeLine("correct horse")
	x.expect("encrypted 64 KiB")
	if code := x.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !x.echoes() {
		t.Error("the terminal was left without echo")
	}
	if strings.Contains(x.text(), "horse") {
		t.Errorf("the passphrase was shown:\n%s", x.text())
	}
	write(t, filepath.Join(dir, "key"), []byte("correct horse"))
	if code, out, _ := try(t, dir, "key", "test", "--key-file", "key", "disk.luks"); code != 0 {
		t.Errorf("a key file with the bytes typed does not open it: %d %s", code, out)
	}
}

func TestPromptDiffersAndEmpty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "disk.img"), image(4096))
	x := startOnTerminal(t, command(t, dir, with(fast, "encrypt", "disk.img", "disk.luks")...))
	for range 3 {
		x.expect("New passphrase")
		x.typeLine("a")
		x.expect("again: ")
		x.typeLine("b")
	}
	x.expect("differed 3 times")
	if code := x.wait(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	x = startOnTerminal(t, command(t, dir, with(fast, "encrypt", "disk.img", "disk.luks")...))
	x.expect("New passphrase")
	x.typeLine("")
	x.expect("empty passphrase")
	if code := x.wait(); code != 6 {
		t.Errorf("exit code %d, want 6", code)
	}
	if got := names(t, dir); got != "disk.img" {
		t.Errorf("left behind: %s", got)
	}
}

func TestPromptAgainWhenWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "disk.img"), image(4096))
	write(t, filepath.Join(dir, "key"), []byte("secret"))
	if code, _, msg := try(t, dir, with(fast, "encrypt", "--key-file", "key", "disk.img", "disk.luks")...); code != 0 {
		t.Fatal(msg)
	}
	x := startOnTerminal(t, command(t, dir, "decrypt", "disk.luks", "back.img"))
	x.expect("Passphrase for disk.luks: ")
	x.typeLine("wrong")
	x.expect("wrong passphrase; try again")
	x.expect("Passphrase for disk.luks: ")
	x.typeLine("secret")
	x.expect("decrypted 4 KiB")
	if code := x.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !bytes.Equal(read(t, filepath.Join(dir, "back.img")), image(4096)) {
		t.Error("the decrypted image differs")
	}
	x = startOnTerminal(t, command(t, dir, "key", "test", "--tries", "2", "disk.luks"))
	for range 2 {
		x.expect("Passphrase for disk.luks: ")
		x.typeLine("wrong")
	}
	x.expect("caps lock")
	if code := x.wait(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
}

// The terminal is asked although data comes from standard input.
func TestPromptBesidePipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := command(t, dir)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "head -c 1000 /dev/zero | xtsdisk encrypt " + strings.Join(fast, " ") + " --pad - zeros.luks"}
	x := startOnTerminal(t, cmd)
	x.expect("New passphrase for zeros.luks: ")
	x.typeLine("secret")
	x.expect("again: ")
	x.typeLine("secret")
	x.expect("encrypted 1 KiB")
	if code := x.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Nobody is asked for a passphrase in vain: what can be checked is, before.
func TestPromptComesAfterChecks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "disk.img"), image(4096))
	write(t, filepath.Join(dir, "odd.img"), image(1000))
	write(t, filepath.Join(dir, "there"), image(1))
	for _, args := range [][]string{
		{"encrypt", "none.img", "new"},
		{"encrypt", "disk.img", "there"},
		{"encrypt", "disk.img", "none/new"},
		{"encrypt", "odd.img", "new"},
		{"encrypt", "disk.img", "disk.img"},
		{"decrypt", "disk.img", "new"},
		{"decrypt", "none.luks", "new"},
		{"format", "there"},
		{"format", "none"},
		{"format", "--create", "1M", "new"},
		{"cat", "disk.img"},
		{"key", "test", "disk.img"},
		{"key", "export", "disk.img", "there"},
	} {
		if args[0] == "encrypt" || args[0] == "format" {
			args = append(args, fast...)
		}
		x := startOnTerminal(t, command(t, dir, args...))
		if code := x.wait(); code == 0 || strings.Contains(x.text(), "assphrase for") {
			t.Errorf("%q: exit code %d:\n%s", args, code, x.text())
		}
	}
}

func TestPromptInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "disk.img"), image(4096))
	for sig, want := range endingSignals() {
		x := startOnTerminal(t, command(t, dir, with(fast, "encrypt", "disk.img", "disk.luks")...))
		x.expect("New passphrase")
		if err := x.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if code := x.wait(); code != want {
			t.Errorf("%v: exit code %d, want %d", sig, code, want)
		}
		if !x.echoes() {
			t.Errorf("%v: the terminal was left without echo", sig)
		}
	}
	x := startOnTerminal(t, command(t, dir, with(fast, "encrypt", "disk.img", "disk.luks")...))
	x.expect("New passphrase")
	if _, err := x.master.Write([]byte{4}); err != nil { // Ctrl-D
		t.Fatal(err)
	}
	x.expect("no passphrase was typed")
	if code := x.wait(); code != 3 {
		t.Errorf("Ctrl-D: exit code %d, want 3", code)
	}
	if got := names(t, dir); got != "disk.img" {
		t.Errorf("left behind: %s", got)
	}
}

// Binary data is kept off a terminal, text is not.
func TestCatOnTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), []byte("secret"))
	text := []byte(strings.Repeat("ein schöner Text\n", 512/18+1))[:512]
	write(t, filepath.Join(dir, "text.img"), text)
	write(t, filepath.Join(dir, "noise.img"), image(4096))
	for _, name := range []string{"text", "noise"} {
		if code, _, msg := try(t, dir, with(fast, "encrypt", "--key-file", "key", name+".img", name+".luks")...); code != 0 {
			t.Fatal(msg)
		}
	}
	x := startOnTerminal(t, command(t, dir, "cat", "--key-file", "key", "text.luks"))
	x.expect("ein schöner Text")
	if code := x.wait(); code != 0 {
		t.Errorf("text: exit code %d", code)
	}
	for _, args := range [][]string{{"cat", "noise.luks"}, {"decrypt", "noise.luks", "-"}, {"encrypt", "noise.img", "-"}} {
		x = startOnTerminal(t, command(t, dir, append(args, "--key-file", "key")...))
		x.expect("garble")
		if code := x.wait(); code != 6 {
			t.Errorf("%q: exit code %d, want 6", args, code)
		}
	}
}

// A bar appears once a job has taken a second, and goes away at its end;
// warnings appear above it.
func TestProgressBar(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), []byte("secret"))
	cmd := command(t, dir)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "(head -c 1M /dev/zero; sleep 1.5; head -c 1M /dev/zero) | xtsdisk encrypt " + strings.Join(fast, " ") + " --key-file key - zeros.luks"}
	x := startOnTerminal(t, cmd)
	x.expect("copying")
	x.expect("1 MiB")
	x.expect("/s")
	x.expect("\x1b[J")
	x.expect("encrypted 2 MiB")
	if code := x.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	last := x.text()[strings.LastIndex(x.text(), "\x1b[J"):]
	if strings.Contains(last, "copying") {
		t.Errorf("the bar stays:\n%q", last)
	}
}
