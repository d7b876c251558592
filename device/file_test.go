package device_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

func TestFileReadOnly(t *testing.T) {
	f := newFile(t, t.TempDir(), 8192, device.FileOptions{ReadOnly: true})
	defer f.Close()
	_, err := f.WriteAt([]byte{1}, 0)
	for name, err := range map[string]error{"WriteAt": err, "WriteZeroes": f.WriteZeroes(0, 10), "Discard": f.Discard(0, 4096)} {
		if !errors.Is(err, device.ErrReadOnly) {
			t.Errorf("%s: %v, want ErrReadOnly", name, err)
		}
	}
	if err := f.Flush(); err != nil {
		t.Errorf("Flush: %v", err)
	}
}

func TestOpenFileKinds(t *testing.T) {
	folder := t.TempDir()
	if _, err := device.OpenFile(folder, device.FileOptions{ReadOnly: true}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a folder: %v, want ErrUnsupported", err)
	}
	if _, err := device.OpenFile(filepath.Join(folder, "none"), device.FileOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v, want fs.ErrNotExist", err)
	}
	fifo := filepath.Join(folder, "fifo")
	if err := exec.Command(testenv.Tool(t, "mkfifo"), fifo).Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := device.OpenFile(fifo, device.FileOptions{ReadOnly: true}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a named pipe: %v, want ErrUnsupported", err)
	}
}

// Messages say what was done to which file, and name it once.
func TestFileErrorText(t *testing.T) {
	f := newFile(t, t.TempDir(), 8192, device.FileOptions{})
	f.Close()
	_, err := f.ReadAt(make([]byte, 10), 4096)
	if want := "read " + f.Name() + " at byte 4096: file already closed"; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

// Goroutines that extend a file at once must not cut off each other's part.
func TestFileGrow(t *testing.T) {
	for _, direct := range []bool{false, true} {
		dir, err := device.OSDir(t.TempDir(), device.FileOptions{Direct: direct})
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		f, err := dir.Create("image", device.CreateOptions{Size: -1})
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		const part, parts = 1500, 200
		var wg sync.WaitGroup
		for i := range parts {
			wg.Go(func() {
				if i%4 == 3 {
					if err := f.WriteZeroes(int64(i)*part, part); err != nil {
						t.Error(err)
					}
				} else if _, err := f.WriteAt(bytes.Repeat([]byte{byte(i) | 1}, part), int64(i)*part); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if f.Size() != part*parts {
			t.Fatalf("direct=%v: size %d, want %d", direct, f.Size(), part*parts)
		}
		got := readAll(t, f)
		for i := range parts {
			want := bytes.Repeat([]byte{byte(i) | 1}, part)
			if i%4 == 3 {
				clear(want)
			}
			if !bytes.Equal(got[i*part:(i+1)*part], want) {
				t.Fatalf("direct=%v: part %d is wrong", direct, i)
			}
		}
		info, err := f.(*device.File).OSFile().Stat()
		if err != nil || info.Size() != part*parts {
			t.Errorf("direct=%v: the file has %d bytes, %v", direct, info.Size(), err)
		}
	}
}

// A file opened without Grow does not grow, a direct one included.
func TestFileFixed(t *testing.T) {
	f := newFile(t, t.TempDir(), 5000, device.FileOptions{Direct: true})
	defer f.Close()
	write(t, f, bytes.Repeat([]byte{1}, 5000), 0)
	info, err := f.OSFile().Stat()
	if err != nil || info.Size() != 5000 || f.Size() != 5000 {
		t.Errorf("a file of 5000 bytes has %d, %v", info.Size(), err)
	}
}

// WriteZeroes and Discard give space back.
func TestFileSpace(t *testing.T) {
	f, err := openDir(t, t.TempDir()).Create("image", device.CreateOptions{Size: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file := f.(*device.File)
	write(t, f, bytes.Repeat([]byte{1}, 4<<20), 0)
	if err := f.WriteZeroes(4096, 2<<20); err != nil {
		t.Fatal(err)
	}
	if err := f.Discard(3<<20, 1<<20); err != nil {
		t.Fatal(err)
	}
	if used := diskUsage(t, file); used > 1<<20+100_000 {
		t.Errorf("after zeroing 2 MiB and discarding 1 the file takes %d bytes", used)
	}
	e, err := file.NextExtent(8192)
	if err != nil || !e.Hole {
		t.Errorf("NextExtent in zeros: %+v, %v", e, err)
	}
}

// A block device has the size of its medium, and is refused while in use if
// the caller wants so.
func TestBlockDevice(t *testing.T) {
	path := loopDevice(t, 1<<20+512, "512")
	d, err := device.OpenFile(path, device.FileOptions{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Size() != 1<<20+512 || d.SectorSize() != 512 {
		t.Errorf("size %d, sectors of %d", d.Size(), d.SectorSize())
	}
	if e, err := d.NextExtent(10); err != nil || e.Hole || e.Len != d.Size()-10 {
		t.Errorf("NextExtent: %+v, %v", e, err)
	}
	if _, err := device.OpenFile(path, device.FileOptions{Exclusive: true}); err == nil {
		t.Error("two exclusive users")
	}
	if n, err := d.ReadAt(make([]byte, 1024), d.Size()-512); n != 512 || err != io.EOF {
		t.Errorf("reading over the end: %d, %v", n, err)
	}
}

// The end of a file that was truncated is no hole.
func TestFileTruncated(t *testing.T) {
	f := newFile(t, t.TempDir(), 1<<20, device.FileOptions{})
	defer f.Close()
	if e, err := f.NextExtent(4096); err != nil || !e.Hole || e.Len != 1<<20-4096 {
		t.Skipf("the file system tells nothing about holes: %+v, %v", e, err)
	}
	if err := os.Truncate(f.Name(), 4096); err != nil {
		t.Fatal(err)
	}
	for _, off := range []int64{4096, 8192} {
		if e, err := f.NextExtent(off); err == nil && e.Hole {
			t.Errorf("byte %d of a file truncated to 4096 bytes is a hole of %d", off, e.Len)
		}
		if n, err := f.ReadAt(make([]byte, 10), off); n != 0 || err != io.EOF {
			t.Errorf("reading it: %d, %v", n, err)
		}
	}
}
