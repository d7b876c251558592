package main

import (
	"bytes"
	"path/filepath"
	"testing"
)

// Erase and wipe do nothing unless YES is typed.
func TestHeaderConfirm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), []byte("secret"))
	if code, _, msg := try(t, dir, with(fast, "format", "--create", "20M", "--key-file", "key", "disk.luks")...); code != 0 {
		t.Fatal(msg)
	}
	vol := filepath.Join(dir, "disk.luks")
	before := read(t, vol)
	for _, c := range []struct {
		verb, question, done string
		opens                int
	}{
		{"erase", "All 1 keyslots of disk.luks", "all keyslots destroyed", 3},
		{"wipe", "The header of disk.luks", "the header is gone", 10},
	} {
		for _, no := range []string{"", "yes", "NO"} {
			x := startOnTerminal(t, command(t, dir, "header", c.verb, "disk.luks"))
			x.expect(c.question)
			x.expect("Type YES")
			x.typeLine(no)
			if code := x.wait(); code != 6 {
				t.Errorf("%s, %q: exit code %d", c.verb, no, code)
			}
			if !bytes.Equal(before, read(t, vol)) {
				t.Fatalf("%s, %q: the volume has changed", c.verb, no)
			}
		}
		x := startOnTerminal(t, command(t, dir, "header", c.verb, "disk.luks"))
		x.expect("Type YES")
		x.typeLine("YES")
		x.expect(c.done)
		if code := x.wait(); code != 0 {
			t.Errorf("%s: exit code %d", c.verb, code)
		}
		if code, _, _ := try(t, dir, "key", "test", "--key-file", "key", "disk.luks"); code != c.opens {
			t.Errorf("%s: afterwards exit code %d", c.verb, code)
		}
		write(t, vol, before)
	}
}
