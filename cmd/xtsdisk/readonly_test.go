package main

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readingVerbs are the command lines that read a volume, with the exit code
// that they have where it opens.
var readingVerbs = [][]string{
	{"cat", "--key-file", "pass", "VOL"},
	{"cat", "--range", "512:512", "--key-file", "pass", "VOL"},
	{"decrypt", "--key-file", "pass", "VOL", "-"},
	{"key", "test", "--key-file", "pass", "VOL"},
	{"key", "test", "--key-file", "wrong", "VOL"},
	{"key", "export", "--key-file", "pass", "VOL", "volume.key"},
	{"key", "list", "VOL"},
	{"token", "list", "VOL"},
	{"header", "backup", "VOL", "copy"},
	{"header", "diff", "VOL", "--from", "VOL"},
	{"dump", "VOL"},
	{"dump", "--json", "VOL"},
	{"dump", "--dump-volume-key", "--force", "--key-file", "pass", "VOL"},
	{"identify", "VOL"},
	{"identify", "--json", "VOL"},
	{"doctor", "VOL"},
	{"doctor", "--key-file", "pass", "VOL"},
	{"doctor", "--try-mistakes", "--key-file", "wrong", "VOL"},
	{"encrypt", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "pass", "VOL", "copy"},
}

// Nothing that reads a volume changes a byte of it, whole or with its primary
// header gone, and everything works on a file that cannot be written.
func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pass"), []byte("secret"))
	write(t, filepath.Join(dir, "wrong"), []byte("other"))
	write(t, filepath.Join(dir, "image"), make([]byte, 1<<20))
	args := append([]string{"encrypt", "--key-file", "pass"}, fast...)
	if code, _, msg := try(t, dir, append(args, "image", "whole")...); code != 0 {
		t.Fatal(msg)
	}
	image := read(t, filepath.Join(dir, "whole"))
	clear(image[:16<<10])
	write(t, filepath.Join(dir, "damaged"), image)
	tried := 0
	for _, name := range []string{"whole", "damaged"} {
		path := filepath.Join(dir, name)
		if err := os.Chmod(path, 0o400); err != nil {
			t.Fatal(err)
		}
		before := sha256.Sum256(read(t, path))
		for _, line := range readingVerbs {
			for _, made := range []string{"volume.key", "copy"} {
				if err := os.Remove(filepath.Join(dir, made)); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			words := strings.Fields(strings.ReplaceAll(strings.Join(line, " "), "VOL", name))
			if _, out, _ := try(t, dir, line[0], "--help"); !strings.Contains(out, "xtsdisk "+line[0]+" ") {
				t.Logf("%q is not a verb of this version", line[0])
				continue
			}
			code, _, msg := try(t, dir, words...)
			tried++
			if want := 3 * btoi(line[len(line)-2] == "wrong"); code != want {
				t.Errorf("%q: exit code %d, not %d: %s", words, code, want, msg)
			}
			if name == "damaged" && !strings.Contains(msg, "the secondary at offset 16384 is used") && slices.Contains([]string{"cat", "decrypt", "key"}, line[0]) {
				t.Errorf("%q does not say which header it uses: %s", words, msg)
			}
			if sha256.Sum256(read(t, path)) != before {
				t.Fatalf("%q changed the volume", words)
			}
		}
	}
	if tried < 2*len(readingVerbs) {
		t.Errorf("only %d command lines tried", tried)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
