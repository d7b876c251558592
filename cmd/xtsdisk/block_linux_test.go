package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// loop makes a block device of a file.
func loop(t *testing.T, file string) string {
	t.Helper()
	testenv.Feature(t, os.Geteuid() == 0, "root")
	losetup := testenv.Tool(t, "losetup")
	out, err := exec.Command(losetup, "--find", "--show", file).Output()
	testenv.Feature(t, err == nil, "loop")
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command(losetup, "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup: %v: %s", err, out)
		}
	})
	return device
}

// Block devices are sources and targets; one that is used otherwise is left
// alone, and so is the file behind it.
func TestBlockDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	luksOf(t, dir, image(8<<20))
	file := filepath.Join(dir, "file")
	write(t, file, image(64<<20))
	device := loop(t, file)
	demand := func(want int, text string, args ...string) {
		t.Helper()
		if code, _, msg := try(t, dir, append(args, "--key-file", "key")...); code != want || !strings.Contains(msg, text) {
			t.Errorf("%q: exit code %d, want %d, and %q: %s", args, code, want, text, msg)
		}
	}
	demand(6, "loop", with(fast, "encrypt", "--force", "disk.img", file)...)
	demand(6, "loop", with(fast, "format", "--force", file)...)
	demand(6, "if that is meant, add --force", with(fast, "encrypt", "disk.img", device)...)
	demand(6, "if that is meant, add --force", "decrypt", "disk.luks", device)
	demand(6, "--force", with(fast, "format", device)...)
	demand(2, "", with(fast, "format", "--create", "1G", "--force", device)...)
	if !bytes.Equal(read(t, file), image(64<<20)) {
		t.Fatal("what was refused changed the device")
	}

	demand(0, "encrypted 8 MiB", with(fast, "encrypt", "--force", "disk.img", device)...)
	demand(0, "decrypted", "decrypt", device, "back.img")
	if back := read(t, filepath.Join(dir, "back.img")); !bytes.Equal(back[:8<<20], image(8<<20)) {
		t.Error("what was encrypted to the device comes back different")
	}
	demand(0, "", "decrypt", "--force", "disk.luks", device)
	if !bytes.Equal(read(t, device)[:8<<20], image(8<<20)) {
		t.Error("what was decrypted to the device differs")
	}
	write(t, filepath.Join(dir, "large.img"), image(60<<20))
	demand(2, "name a larger target", with(fast, "encrypt", "--force", "large.img", device)...)

	if out, err := exec.Command(testenv.Tool(t, "mke2fs"), "-q", "-t", "ext4", device).CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v: %s", err, out)
	}
	point := t.TempDir()
	testenv.Feature(t, unix.Mount(device, point, "ext4", 0, "") == nil, "mount")
	defer func() {
		if err := unix.Unmount(point, 0); err != nil {
			t.Error(err)
		}
	}()
	for _, target := range []string{device, file} {
		demand(6, "in use", with(fast, "encrypt", "--force", "disk.img", target)...)
		demand(6, "in use", "decrypt", "--force", "disk.luks", target)
		demand(6, "in use", with(fast, "format", "--force", target)...)
	}
}
