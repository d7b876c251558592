package device_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// A file made without Sparse has its space from the start, but on tmpfs.
func TestFileReserved(t *testing.T) {
	folder := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		t.Fatal(err)
	}
	for _, sparse := range []bool{false, true} {
		f, err := openDir(t, folder).Create("image"+map[bool]string{true: " sparse"}[sparse], device.CreateOptions{Size: 4 << 20, Sparse: sparse})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want := !sparse && st.Type != unix.TMPFS_MAGIC
		if used := diskUsage(t, f.(*device.File)); used >= 4<<20 != want {
			t.Errorf("sparse=%v: a file of 4 MiB takes %d bytes", sparse, used)
		}
	}
}

// Space is reserved through sections, and neither contents nor size change.
func TestReserve(t *testing.T) {
	folder := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		t.Fatal(err)
	}
	f := newFile(t, folder, 1<<20, device.FileOptions{})
	if _, err := f.WriteAt([]byte("here"), 1<<19); err != nil {
		t.Fatal(err)
	}
	if err := device.Reserve(device.NewSection(f, 1<<19, -1), 0, 4<<20); err != nil {
		t.Fatal(err)
	}
	if f.Size() != 1<<20 {
		t.Errorf("size %d", f.Size())
	}
	b := make([]byte, 1<<19)
	if _, err := f.ReadAt(b, 1<<19); err != nil || strings.TrimRight(string(b), "\x00") != "here" {
		t.Errorf("%.10q, %v", b, err)
	}
	want := st.Type != unix.TMPFS_MAGIC
	if used := diskUsage(t, f); used >= 4<<20 != want {
		t.Errorf("after reserving 4 MiB it takes %d bytes", used)
	}
	if err := device.Reserve(device.NewMemory(1024, 512), 0, 512); err != nil {
		t.Errorf("memory: %v", err)
	}
}

// smallFS mounts a file system with room for less than 4 MiB.
func smallFS(t *testing.T, kind string) string {
	t.Helper()
	testenv.Feature(t, os.Getuid() == 0, "root")
	folder := t.TempDir()
	args := []string{"-t", "tmpfs", "-o", "size=3m", "tmpfs", folder}
	if kind != "tmpfs" {
		image := filepath.Join(t.TempDir(), "fs")
		if err := os.WriteFile(image, make([]byte, 4<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(testenv.Tool(t, "mkfs."+kind), image).CombinedOutput(); err != nil {
			t.Fatalf("mkfs.%s: %v: %s", kind, err, out)
		}
		args = []string{"-o", "loop", image, folder}
	}
	err := exec.Command(testenv.Tool(t, "mount"), args...).Run()
	testenv.Feature(t, err == nil, "mount-"+kind) // a container may forbid it, a kernel lack it
	t.Cleanup(func() { exec.Command("umount", folder).Run() })
	return folder
}

func TestFileNoSpace(t *testing.T) {
	for _, kind := range []string{"tmpfs", "ext4"} {
		t.Run(kind, func(t *testing.T) {
			folder := smallFS(t, kind)
			before := names(t, folder)
			dir := openDir(t, folder)
			if _, err := dir.Create("reserved", device.CreateOptions{Size: 8 << 20}); !errors.Is(err, device.ErrNoSpace) {
				t.Errorf("reserving 8 MiB: %v, want ErrNoSpace", err)
			}
			if got := names(t, folder); got != before {
				t.Errorf("after a Create that failed the folder holds %q", got)
			}
			f, err := dir.Create("sparse", device.CreateOptions{Size: 8 << 20, Sparse: true})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			n, err := f.WriteAt(make([]byte, 8<<20), 0)
			if !errors.Is(err, device.ErrNoSpace) || n >= 8<<20 || !strings.Contains(err.Error(), "sparse") {
				t.Errorf("writing 8 MiB: %d, %v, want ErrNoSpace and the file's name", n, err)
			}
			if err := device.Reserve(f, 0, 8<<20); !errors.Is(err, device.ErrNoSpace) && kind != "tmpfs" {
				t.Errorf("reserving 8 MiB of it: %v, want ErrNoSpace", err)
			}
			f.Close()
		})
	}
}

// Where there are no hard links either, a name that is taken is still seen.
func TestRenameWithoutLinks(t *testing.T) {
	folder := smallFS(t, "vfat")
	dir := openDir(t, folder)
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := device.RenameByLink(dir, "a", "b"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v, want fs.ErrExist", err)
	}
	if err := device.RenameByLink(dir, "a", "c"); err != nil || names(t, folder) != "b c" {
		t.Errorf("%v; the folder holds %q", err, names(t, folder))
	}
	out, err := device.NewOutput(dir, "d", device.OutputOptions{CreateOptions: device.CreateOptions{Size: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Commit(); err != nil || names(t, folder) != "b c d" {
		t.Errorf("%v; the folder holds %q", err, names(t, folder))
	}
}
