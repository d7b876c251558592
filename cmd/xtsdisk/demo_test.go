package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

const mib = 1 << 20

func TestPlanDemo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		free, memory int64
		inMemory     bool
		wantMiB      int64 // 0: no demo
		shrunk       bool
	}{
		"plenty":                 {1 << 40, 16 << 30, false, 256, false},
		"plenty, in memory":      {1 << 40, 16 << 30, true, 256, false},
		"space unknown":          {-1, 16 << 30, false, 256, false},
		"just enough":            {(3*256 + 18) * mib, 1 << 30, false, 256, false},
		"one byte short":         {(3*256+18)*mib - 1, 1 << 30, false, 255, true},
		"64 MiB of space":        {64 * mib, 1 << 30, false, 15, true},
		"256 MiB of memory":      {1 << 40, 256 * mib, false, 256, false},
		"both":                   {64 * mib, 256 * mib, false, 15, true},
		"both, in memory":        {64 * mib, 256 * mib, true, 15, true},
		"256 MiB, all in memory": {1 << 40, 256 * mib, true, 48, true},
		"40 MiB of space":        {40 * mib, 1 << 30, false, 0, true},
		"90 MiB of memory":       {1 << 40, 90 * mib, false, 0, false},
	} {
		p, err := planDemo(demoSize, c.free, c.inMemory, uint64(c.memory), "the limit", "/tmp")
		if (err == nil) != (c.wantMiB > 0) || err == nil && p.size != c.wantMiB*mib {
			t.Errorf("%s: %d MiB, %v, want %d MiB", name, p.size/mib, err, c.wantMiB)
		}
		if err != nil {
			continue
		}
		if (p.why != "") != c.shrunk {
			t.Errorf("%s: shrunk because of %q", name, p.why)
		}
		need := int64(p.kdfKiB)<<10 + demoWorking
		if c.inMemory {
			need += 3*p.size + demoHeader
		}
		if need > c.memory {
			t.Errorf("%s: takes %d MiB of memory of %d", name, need/mib, c.memory/mib)
		}
		if c.free >= 0 && 3*p.size+demoHeader > c.free {
			t.Errorf("%s: takes %d MiB of space of %d", name, (3*p.size+demoHeader)/mib, c.free/mib)
		}
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := command(t, t.TempDir(), "demo", "--image-size", "24M")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{"24 MiB: an ext4", "are equal, all 25165824 bytes", "nowhere in disk.luks", "luksDump", "aes-xts-plain64", "plain copy", "encrypt ", "decrypt ", "Try next:"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	for line := range strings.Lines(string(out)) {
		if len(line) > 100 && !strings.Contains(line, dir) {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
	if got := names(t, dir); got != "" {
		t.Errorf("left behind: %s", got)
	}
}

func TestDemoJSON(t *testing.T) {
	t.Parallel()
	code, out, msg := try(t, t.TempDir(), "demo", "--json", "--image-size", "8M")
	if code != 0 || msg != "" {
		t.Fatalf("exit code %d: %s", code, msg)
	}
	var report demoJSON
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if report.Schema != 1 || report.Bytes != 8*mib || !report.Equal || report.Copy.Rate <= 0 || report.Encrypt.Seconds <= 0 || report.KDF[1] <= 0 {
		t.Errorf("%+v", report)
	}
}

// The filesystem is a real one, small enough to carry, and holds the text that
// the demo searches for.
func TestDemoFilesystem(t *testing.T) {
	t.Parallel()
	if len(demoFilesystem) > 100_000 {
		t.Errorf("%d bytes, at most 100 KB are to be carried", len(demoFilesystem))
	}
	zr, err := gzip.NewReader(bytes.NewReader(demoFilesystem))
	if err != nil {
		t.Fatal(err)
	}
	fs, err := io.ReadAll(zr)
	if err != nil || len(fs) != demoFilesystemSize {
		t.Fatalf("%d bytes, %v", len(fs), err)
	}
	if !bytes.Contains(fs, []byte(demoSecret)) {
		t.Error("the text is not in it")
	}
	dir := t.TempDir()
	if code, _, msg := try(t, dir, "demo", "--image", "disk.img", "--image-size", "8M"); code != 0 {
		t.Fatal(msg)
	}
	name := filepath.Join(dir, "disk.img")
	image := read(t, name)
	if len(image) != 8*mib || !bytes.Equal(image[:len(fs)], fs) {
		t.Error("the image does not begin with the filesystem")
	}
	for i := len(fs); i < len(image); i += 4096 {
		if bytes.Count(image[i:i+4096], []byte{0}) > 200 {
			t.Fatalf("the 4096 bytes at %d are not noise", i)
		}
	}
	if out, err := exec.Command(testenv.Tool(t, "e2fsck"), "-fn", name).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v: %s", err, out)
	}
	out, err := exec.Command(testenv.Tool(t, "debugfs"), "-R", "cat /notes/secret.txt", name).Output()
	if err != nil || !strings.Contains(string(out), demoSecret) {
		t.Errorf("debugfs: %v: %s", err, out)
	}
}

func TestDemoErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "there.img"), []byte("old"))
	for _, c := range []struct {
		code int
		hint string
		args []string
	}{
		{2, "64M", []string{"--image-size", "1M"}},
		{2, "64M", []string{"--image-size", "9000000"}},
		{6, "name another file", []string{"--image", "there.img", "--image-size", "8M"}},
		{7, "mkdir -p none", []string{"--image", "none/x.img", "--image-size", "8M"}},
		{2, "", []string{"--image", "-"}},
	} {
		code, _, msg := try(t, dir, append([]string{"demo"}, c.args...)...)
		if code != c.code || !strings.Contains(msg, c.hint) {
			t.Errorf("%q: exit code %d, want %d: %s", c.args, code, c.code, msg)
		}
	}
	cmd := command(t, dir, "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "none"))
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 7 || !strings.Contains(string(out), "TMPDIR=FOLDER") {
		t.Errorf("no temporary folder: exit code %d: %s", code, out)
	}
	if got := names(t, dir); got != "there.img" {
		t.Errorf("left behind: %s", got)
	}
}
