package main

import (
	"path/filepath"
	"regexp"
	"testing"
)

var recoveryPattern = regexp.MustCompile(`[cbdefghijklnrtuv]{8}(-[cbdefghijklnrtuv]{8}){7}`)

// On a terminal the recovery key is shown there, whatever stdout is, and counts
// once it has been typed back: in any case, with or without hyphens.
func TestRecoveryKeyOnTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(65536))
	x := startOnTerminal(t, command(t, dir, "key", "recovery", "--key-file", "key", "disk.luks"))
	x.expect("type it back, for disk.luks: ")
	key := recoveryPattern.FindString(x.text())
	if key == "" {
		t.Fatalf("no recovery key in:\n%s", x.text())
	}
	if x.echoes() {
		t.Error("the terminal shows what is typed")
	}
	x.typeLine("not the key")
	x.expect("once more")
	x.typeLine(key)
	x.expect("keyslot 1 opens with the recovery key")
	if code := x.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	write(t, filepath.Join(dir, "recovery"), []byte(key))
	if code, _, msg := try(t, dir, "key", "test", "--key-file", "recovery", "--key-slot", "1", "disk.luks"); code != 0 {
		t.Error(msg)
	}
	if _, out, _ := try(t, dir, "key", "list", "disk.luks"); !regexp.MustCompile(`(?m)^1 .*pbkdf2-sha512, 1000 iterations.*0 systemd-recovery$`).MatchString(out) {
		t.Error(out)
	}
}

// Three wrong answers, or an end of it, and nothing has changed.
func TestRecoveryKeyNotTyped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := luksOf(t, dir, image(65536))
	before := string(read(t, name))
	x := startOnTerminal(t, command(t, dir, "key", "recovery", "--key-file", "key", "disk.luks"))
	for range 3 {
		x.expect("type it back")
		x.typeLine("cbdefghi")
	}
	x.expect("not typed back")
	if code := x.wait(); code != 6 {
		t.Errorf("exit code %d", code)
	}
	if string(read(t, name)) != before {
		t.Error("the volume has changed")
	}
}

// A new passphrase is asked for twice, after the old one.
func TestKeyAddOnTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(65536))
	x := startOnTerminal(t, command(t, dir, with(fast, "key", "add", "disk.luks")...))
	x.expect("Passphrase for disk.luks: ")
	x.typeLine("secret")
	x.expect("New passphrase for disk.luks: ")
	x.typeLine("second")
	x.expect("The same again: ")
	x.typeLine("second")
	x.expect("keyslot 1 added")
	if code := x.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	write(t, filepath.Join(dir, "second"), []byte("second"))
	if code, _, msg := try(t, dir, "key", "test", "--key-file", "second", "disk.luks"); code != 0 {
		t.Error(msg)
	}
}
