package main

import (
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"
)

// The volume key is shown to who agrees on the terminal, and to nobody else;
// it is the key that export writes.
func TestDumpVolumeKeyAsks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(65536))
	for answer, want := range map[string]int{"YES": 0, "yes": 6, "": 6} {
		x := startOnTerminal(t, command(t, dir, "dump", "--dump-volume-key", "--key-file", "key", "disk.luks"))
		x.expect("Type yes in capital letters: ")
		x.typeLine(answer)
		if code := x.wait(); code != want {
			t.Errorf("%q: exit code %d, not %d", answer, code, want)
		}
		if shown := strings.Contains(x.text(), "MK dump:"); shown != (want == 0) {
			t.Errorf("%q: %s", answer, x.text())
		}
	}
	if code, _, msg := try(t, dir, "key", "export", "--key-file", "key", "disk.luks", "volume.key"); code != 0 {
		t.Fatal(msg)
	}
	_, out, _ := try(t, dir, "dump", "--dump-volume-key", "--force", "--json", "--key-file", "key", "disk.luks")
	if want := hex.EncodeToString(read(t, filepath.Join(dir, "volume.key"))); !strings.Contains(out, `"volume_key": "`+want+`"`) {
		t.Errorf("another key than %s: %s", want, out)
	}
}

// Which copy of the header was used is said, in the text and in JSON, with what
// is wrong with the other one.
func TestDumpSaysCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := luksOf(t, dir, image(65536))
	b := read(t, name)
	clear(b[:16<<10])
	write(t, name, b)
	_, out, _ := try(t, dir, "dump", "disk.luks")
	if !strings.Contains(out, "Header copy:   \tsecondary\n") || !strings.Contains(out, "\nWarning: primary header: ") {
		t.Error(out)
	}
	_, out, _ = try(t, dir, "dump", "--json", "disk.luks")
	if !strings.Contains(out, `"header_copy": "secondary"`) || !strings.Contains(out, "the secondary at offset 16384 is used") {
		t.Error(out)
	}
}
