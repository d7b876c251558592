package device_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
)

func openDir(t *testing.T, path string) device.Dir {
	t.Helper()
	d, err := device.OSDir(path, device.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func names(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

func write(t *testing.T, d device.Device, p []byte, off int64) {
	t.Helper()
	if _, err := d.WriteAt(p, off); err != nil {
		t.Fatal(err)
	}
}

func TestOutputCommit(t *testing.T) {
	folder := t.TempDir()
	for _, o := range []device.OutputOptions{
		{CreateOptions: device.CreateOptions{Size: 10000}},
		{CreateOptions: device.CreateOptions{Size: 10000, Sparse: true, Mode: 0o640}},
		{CreateOptions: device.CreateOptions{Size: -1, Mode: 0o600}},
	} {
		out, err := device.NewOutput(openDir(t, folder), "image", o)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(t, folder); !strings.HasPrefix(got, ".image.") || !strings.HasSuffix(got, ".partial") {
			t.Fatalf("before Commit the folder holds %q", got)
		}
		write(t, out.Device(), []byte("contents"), 9992)
		if err := out.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := out.Abort(); err != nil {
			t.Errorf("Abort after Commit: %v", err)
		}
		if got := names(t, folder); got != "image" {
			t.Fatalf("after Commit the folder holds %q", got)
		}
		b, err := os.ReadFile(filepath.Join(folder, "image"))
		if err != nil || len(b) != 10000 || string(b[9992:]) != "contents" {
			t.Fatalf("published %d bytes, %v", len(b), err)
		}
		info, _ := os.Stat(filepath.Join(folder, "image"))
		if want := max(o.Mode, 0o600) &^ 0o022; info.Mode().Perm()&^0o022 != want {
			t.Errorf("mode %v, want %v", info.Mode(), want)
		}
		os.Remove(filepath.Join(folder, "image"))
	}
}

func TestOutputAbort(t *testing.T) {
	folder := t.TempDir()
	out, err := device.NewOutput(openDir(t, folder), "image", device.OutputOptions{CreateOptions: device.CreateOptions{Size: 4096}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := out.Abort(); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, folder); got != "" {
		t.Fatalf("after Abort the folder holds %q", got)
	}
	if _, err := out.Device().WriteAt([]byte{1}, 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write after Abort: %v", err)
	}
}

func TestOutputExists(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "image")
	os.WriteFile(path, []byte("mine"), 0o600)
	if _, err := device.NewOutput(openDir(t, folder), "image", device.OutputOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("NewOutput over a file: %v", err)
	}
	os.Remove(path)
	if err := os.Symlink("nowhere", path); err != nil {
		t.Skip(err)
	}
	if _, err := device.NewOutput(openDir(t, folder), "image", device.OutputOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("NewOutput over a dangling symlink: %v", err)
	}
	if got := names(t, folder); got != "image" {
		t.Errorf("the folder holds %q", got)
	}
}

// A file that appears while the output is written must not be lost.
func TestOutputAppears(t *testing.T) {
	folder := t.TempDir()
	out, err := device.NewOutput(openDir(t, folder), "image", device.OutputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(folder, "image"), []byte("mine"), 0o600)
	if err := out.Commit(); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("Commit: %v, want fs.ErrExist", err)
	}
	if err := out.Abort(); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(folder, "image")); string(b) != "mine" || names(t, folder) != "image" {
		t.Errorf("the file holds %q, the folder %q", b, names(t, folder))
	}
}

func TestOutputReplace(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "image")
	os.WriteFile(path, []byte("old"), 0o600)
	out, err := device.NewOutput(openDir(t, folder), "image", device.OutputOptions{CreateOptions: device.CreateOptions{Size: -1}, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	write(t, out.Device(), []byte("new one"), 0)
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Fatalf("before Commit the file holds %q", b)
	}
	if err := out.Commit(); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "new one" || names(t, folder) != "image" {
		t.Errorf("the file holds %q, the folder %q", b, names(t, folder))
	}
}

func TestOutputNames(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"", ".", "..", "a/b", "/etc/passwd", "../x"} {
		if _, err := device.NewOutput(openDir(t, folder), name, device.OutputOptions{}); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("NewOutput(%q): %v, want fs.ErrInvalid", name, err)
		}
	}
	for _, name := range []string{strings.Repeat("a", 255), strings.Repeat("é", 127), "-", "new\nline"} {
		out, err := device.NewOutput(openDir(t, folder), name, device.OutputOptions{})
		if err != nil {
			t.Errorf("NewOutput(%.20q...): %v", name, err)
			continue
		}
		if err := out.Commit(); err != nil {
			t.Errorf("Commit of %.20q...: %v", name, err)
		}
	}
}

var errInjected = errors.New("injected")

// faultDir fails on request, by the name of the method.
type faultDir struct {
	device.Dir
	fail string
}

func (d *faultDir) Create(name string, o device.CreateOptions) (device.Device, error) {
	dev, err := d.Dir.Create(name, o)
	if err != nil {
		return nil, err
	}
	return &devicetest.Fault{Device: dev, Before: func(c devicetest.Call) (int, error) {
		if d.fail == "flush" && c.Action == devicetest.Flush {
			return 0, errInjected
		}
		return c.N, nil
	}}, nil
}

func (d *faultDir) Rename(oldName, newName string, replace bool) error {
	if d.fail == "rename" {
		return errInjected
	}
	return d.Dir.Rename(oldName, newName, replace)
}

func (d *faultDir) Sync() error {
	if d.fail == "sync" {
		return errInjected
	}
	return d.Dir.Sync()
}

func TestOutputFailure(t *testing.T) {
	for fail, left := range map[string]string{"flush": "", "rename": "", "sync": "image"} {
		folder := t.TempDir()
		out, err := device.NewOutput(&faultDir{openDir(t, folder), fail}, "image", device.OutputOptions{CreateOptions: device.CreateOptions{Size: 512}})
		if err != nil {
			t.Fatal(err)
		}
		if err := out.Commit(); !errors.Is(err, errInjected) {
			t.Errorf("%s fails: Commit returned %v", fail, err)
		}
		if err := out.Abort(); err != nil {
			t.Errorf("%s fails: Abort returned %v", fail, err)
		}
		if got := names(t, folder); got != left {
			t.Errorf("%s fails: the folder holds %q, want %q", fail, got, left)
		}
	}
}

// TestOutputCrash takes an output through every crash: under the name there is
// what was there before, or all of the new file; and the new file once Commit
// has returned.
func TestOutputCrash(t *testing.T) {
	want := bytes.Repeat([]byte("new contents "), 700)
	old := []byte("old contents")
	for _, replace := range []bool{false, true} {
		for _, size := range []int64{int64(len(want)), -1} {
			t.Run(fmt.Sprintf("replace=%v size=%d", replace, size), func(t *testing.T) {
				folder := t.TempDir()
				initial := map[string]*device.Memory{}
				if replace {
					os.WriteFile(filepath.Join(folder, "image"), old, 0o600)
					initial["image"] = device.NewMemory(int64(len(old)), 1)
					write(t, initial["image"], old, 0)
				}
				dir := device.NewRecordDir(openDir(t, folder))
				makeOutput(t, dir, want, size, replace)
				dir.Log().Mark("committed")
				check := func(files map[string]*device.Memory, s devicetest.State) error {
					return checkPublished(files["image"], old, want, replace, s)
				}
				devicetest.EverySync(t, dir.Log().Ops(), func(ops []device.Op) error {
					return devicetest.ReplayDir(initial, ops, check, devicetest.ReplayOptions{Seed: 1})
				})
			})
		}
	}
}

func makeOutput(t *testing.T, dir device.Dir, want []byte, size int64, replace bool) {
	t.Helper()
	o := device.OutputOptions{CreateOptions: device.CreateOptions{Size: size}, Replace: replace}
	out, err := device.NewOutput(dir, "image", o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = device.Copy(context.Background(), device.DeviceSink(out.Device()), device.StreamSource(bytes.NewReader(want)),
		device.CopyOptions{Size: -1, ChunkSize: 1500, Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Commit(); err != nil {
		t.Fatal(err)
	}
}

func checkPublished(m *device.Memory, old, want []byte, replace bool, s devicetest.State) error {
	var got []byte
	if m != nil {
		got = make([]byte, m.Size())
		m.ReadAt(got, 0)
	}
	switch {
	case bytes.Equal(got, want):
		return nil
	case s.Reached("committed"):
		return fmt.Errorf("committed, but the file holds %.20q", got)
	case replace && bytes.Equal(got, old), !replace && m == nil:
		return nil
	}
	return fmt.Errorf("the file holds %d bytes, neither old nor new", len(got))
}
