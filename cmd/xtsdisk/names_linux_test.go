package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// The names of files may hold anything. None of it reaches a terminal as a
// command, a message stays one line, and JSON has the name as it is.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const name = "ev\x1b]0;il\x07\nxtsdisk: done\r\u202e\xff"
	data := image(4096)
	write(t, filepath.Join(dir, name), data)
	write(t, filepath.Join(dir, "key"), []byte("secret"))
	calls := []struct {
		want int
		args []string
	}{
		{0, with(fast, "encrypt", "--key-file", "key", name, name+".luks")},
		{6, with(fast, "encrypt", "--key-file", "key", name, name+".luks")},
		{0, []string{"key", "test", "--key-file", "key", name + ".luks"}},
		{3, []string{"key", "test", "--key-file", name, name + ".luks"}},
		{7, []string{"key", "test", "--key-file", name + ".none", name + ".luks"}},
		{0, []string{"decrypt", "--key-file", "key", name + ".luks", name + ".back"}},
		{10, []string{"decrypt", "--key-file", "key", name, name + ".out"}},
		{7, []string{"decrypt", "--key-file", "key", name + ".none", name + ".out"}},
		{7, with(fast, "encrypt", "--key-file", "key", name, name+".folder/x")},
		{0, with(fast, "format", "--create", "20M", "--key-file", "key", name+".new")},
		{0, []string{"key", "export", "--key-file", "key", name + ".luks", name + ".key"}},
		{2, []string{name}},
		{2, []string{"encrypt", "--" + name, "a", "b"}},
		{2, []string{"encrypt", "--type", name, "a", "b"}},
		{2, []string{"encrypt", "--progress", name, "--key-file", "key", name, "b"}},
		{5, []string{"version", "--level", name}},
		{7, []string{"man", name + ".folder"}},
	}
	for _, c := range calls {
		code, out, msg := try(t, dir, c.args...)
		if code != c.want {
			t.Errorf("%q: exit code %d, want %d: %s", c.args, code, c.want, msg)
		}
		for i, line := range strings.Split(strings.TrimSuffix(out+msg, "\n"), "\n") {
			if visible(line) != line || i > 0 && !strings.HasPrefix(line, "  ") {
				t.Errorf("%q: line %q", c.args, line)
			}
		}
	}
	if !bytes.Equal(read(t, filepath.Join(dir, name+".back")), data) {
		t.Error("the image comes back different")
	}

	_, out, _ := try(t, dir, "key", "test", "--json", "--key-file", "key", "none\n\x1b")
	var report errorReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || !strings.Contains(report.Error.Message, "none\n\x1b") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestHostileNameInPrompt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "disk.img"), image(4096))
	x := startOnTerminal(t, command(t, dir, with(fast, "encrypt", "disk.img", "a\x1b[2Jb")...))
	x.expect(`New passphrase for a\x1b[2Jb: `)
	x.typeLine("")
	x.wait()
}
