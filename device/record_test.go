package device_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
)

func logText(l *device.Log) string {
	var lines []string
	for _, o := range l.Ops() {
		lines = append(lines, o.String())
	}
	return strings.Join(lines, "; ")
}

func TestRecord(t *testing.T) {
	r := device.NewRecord(device.NewMemory(8192, 512))
	p := []byte("abc")
	write(t, r, p, 100)
	p[0] = 'x'
	for _, err := range []error{r.Flush(), r.WriteZeroes(1, 2), r.Discard(3, 4)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Log().Mark("done")
	r.WriteAt(p, 8191) // out of range: nothing happened
	r.WriteZeroes(-1, 2)
	want := `file 0: write [100, 103); file 0: flush; file 0: zero [1, 3); file 0: discard [3, 7); mark "done"`
	if got := logText(r.Log()); got != want {
		t.Errorf("log: %s\nwant: %s", got, want)
	}
	if got := string(r.Log().Ops()[0].Data); got != "abc" {
		t.Errorf("the log has %q of a buffer that changed later", got)
	}
}

// A flush covers no write that ends after it began; one that failed covers
// nothing; a write that failed may have happened.
func TestRecordOrder(t *testing.T) {
	inFlush, ended := make(chan struct{}), make(chan struct{})
	failing := false
	fault := &devicetest.Fault{Device: device.NewMemory(8192, 512), Before: func(c devicetest.Call) (int, error) {
		if c.Action == devicetest.Flush && !failing {
			close(inFlush)
			<-ended
		}
		if failing {
			return 0, errInjected
		}
		return c.N, nil
	}}
	r := device.NewRecord(fault)
	done := make(chan error)
	go func() { done <- r.Flush() }()
	<-inFlush
	write(t, r, []byte{1}, 0)
	close(ended)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	failing = true
	if err := r.Flush(); !errors.Is(err, errInjected) {
		t.Errorf("Flush: %v", err)
	}
	r.WriteAt([]byte{2, 3}, 10)
	if got, want := logText(r.Log()), "file 0: flush; file 0: write [0, 1); file 0: write [10, 12)"; got != want {
		t.Errorf("log: %s\nwant: %s", got, want)
	}
}

func TestRecordDir(t *testing.T) {
	dir := device.NewRecordDir(openDir(t, t.TempDir()))
	for i, name := range []string{"a", "b"} {
		f, err := dir.Create(name, device.CreateOptions{Size: int64(i) * 512})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if i == 1 {
			write(t, f, []byte{1}, 5)
			f.Flush()
		}
	}
	for _, err := range []error{dir.Rename("a", "c", false), dir.Sync(), dir.Remove("b")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	dir.Create("c", device.CreateOptions{})
	dir.Rename("none", "d", true)
	dir.Remove("none")
	want := fmt.Sprintf("create %q as file 0, 0 bytes; create %q as file 1, 512 bytes; file 1: write [5, 6); file 1: flush; "+
		"rename %q to %q; sync folder; remove %q", "a", "b", "a", "c", "b")
	if got := logText(dir.Log()); got != want {
		t.Errorf("log: %s\nwant: %s", got, want)
	}
}
