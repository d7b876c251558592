package volume

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
)

// What goes wrong on the way: no file under the final name, none left behind,
// and the source as it was.

// atData calls do once, when the data phase has begun.
func atData(do func()) func(Progress) {
	var once sync.Once
	return func(p Progress) {
		if p.Phase == PhaseData && p.Done > 0 {
			once.Do(do)
		}
	}
}

// big is enough data that it is still being read when the first progress is
// told.
const big = 24 * mib

// jobs are both directions, from a file src to a file dst beside it.
func jobs(t *testing.T) map[string]func(ctx context.Context, src string, progress func(Progress)) error {
	t.Helper()
	return map[string]func(ctx context.Context, src string, progress func(Progress)) error{
		"encrypt": func(ctx context.Context, src string, progress func(Progress)) error {
			_, err := Encrypt(ctx, EncryptOptions{Src: src, Dst: src + ".out", Luks: cheap(), Workers: 1, Progress: progress})
			return err
		},
		"decrypt": func(ctx context.Context, src string, progress func(Progress)) error {
			_, err := Decrypt(ctx, DecryptOptions{Src: src, Dst: src + ".out", Open: OpenOptions{Plain: plainOf(512)}, Workers: 1, Progress: progress})
			return err
		},
	}
}

func TestSourceChanges(t *testing.T) {
	data := noise(1, big)
	for _, c := range []struct {
		name   string
		change func(t *testing.T, src string)
		want   error
	}{
		{"shrinks", func(t *testing.T, src string) { try(t, os.Truncate(src, big/2)) }, ErrSourceChanged},
		{"vanishes to nothing", func(t *testing.T, src string) { try(t, os.Truncate(src, 0)) }, ErrSourceChanged},
		{"grows", func(t *testing.T, src string) { try(t, os.Truncate(src, big+4096)) }, ErrSourceChanged},
		{"is removed", func(t *testing.T, src string) { try(t, os.Remove(src)) }, ErrSourceChanged},
	} {
		for name, job := range jobs(t) {
			src := write(t, "src", data)
			err := job(t.Context(), src, atData(func() { c.change(t, src) }))
			refused(t, name+": "+c.name, err, c.want, src)
			if c.name == "is removed" {
				only(t, filepath.Dir(src))
			} else {
				only(t, filepath.Dir(src), "src")
			}
		}
	}
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestSourceWrittenTo(t *testing.T) {
	src := write(t, "src", noise(1, big))
	report, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: src + ".out", Luks: cheap(), Workers: 1,
		Progress: atData(func() { try(t, os.Chtimes(src, time.Time{}, time.Now().Add(time.Hour))) })})
	if err != nil || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "was written to") {
		t.Errorf("%v, warnings %q", err, report.Warnings)
	}
}

func TestCancel(t *testing.T) {
	data := noise(1, big)
	cause := errors.New("interrupted by a test")
	for name, job := range jobs(t) {
		src := write(t, "src", data)
		ctx, cancel := context.WithCancelCause(t.Context())
		err := job(ctx, src, atData(func() { cancel(cause) }))
		refused(t, name, err, cause)
		only(t, filepath.Dir(src), "src")
		equal(t, name+": the source", read(t, src), data)
	}
}

// An existing target stays what it was when its replacement fails.
func TestCancelKeepsOldTarget(t *testing.T) {
	src, dst := write(t, "src", noise(1, big)), write(t, "dst", []byte("old"))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Encrypt(ctx, EncryptOptions{Src: src, Dst: dst, Luks: cheap(), Force: true, Workers: 1, Progress: atData(cancel)})
	refused(t, "encrypt", err, context.Canceled)
	equal(t, "the target", read(t, dst), []byte("old"))
	only(t, filepath.Dir(dst), "dst")
}

// A file that takes the target's name meanwhile is not replaced.
func TestTargetAppears(t *testing.T) {
	for name, job := range jobs(t) {
		src := write(t, "src", noise(1, big))
		err := job(t.Context(), src, atData(func() { try(t, os.WriteFile(src+".out", []byte("theirs"), 0o600)) }))
		refused(t, name, err, ErrExists)
		equal(t, name, read(t, src+".out"), []byte("theirs"))
		only(t, filepath.Dir(src), "src", "src.out")
	}
}

// A pipe that nobody reads, or that brings nothing, can be interrupted.
func TestCancelBlockedPipe(t *testing.T) {
	src := write(t, "src", noise(1, mib))
	for name, job := range map[string]func(ctx context.Context, r, w *os.File) error{
		"header": func(ctx context.Context, _, w *os.File) error {
			_, err := Encrypt(ctx, EncryptOptions{Src: src, Dst: "-", Stdout: w, Luks: cheap()})
			return err
		},
		"plain": func(ctx context.Context, _, w *os.File) error {
			_, err := Encrypt(ctx, EncryptOptions{Src: src, Dst: "-", Stdout: w, Plain: plainOf(512)})
			return err
		},
		"source": func(ctx context.Context, r, _ *os.File) error {
			_, err := Encrypt(ctx, EncryptOptions{Src: "-", Stdin: r, Dst: src + ".out", Plain: plainOf(512)})
			return err
		},
		"header of a source": func(ctx context.Context, r, _ *os.File) error {
			_, err := Decrypt(ctx, DecryptOptions{Src: "-", Stdin: r, Dst: src + ".out", Open: unlockIt()})
			return err
		},
		"offset of a source": func(ctx context.Context, r, _ *os.File) error {
			p := plainOf(512)
			p.Offset = mib
			_, err := Decrypt(ctx, DecryptOptions{Src: "-", Stdin: r, Dst: src + ".out", Open: OpenOptions{Plain: p}})
			return err
		},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := job(ctx, r, w); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		r.Close()
		w.Close()
		only(t, filepath.Dir(src), "src")
	}
}

func TestClosedPipe(t *testing.T) {
	src := write(t, "src", noise(1, mib))
	for name, e := range map[string]EncryptOptions{"header": {Luks: cheap()}, "plain": {Plain: plainOf(512)}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		e.Src, e.Dst, e.Stdout = src, "-", w
		_, err = Encrypt(t.Context(), e)
		refused(t, name, err, syscall.EPIPE)
		w.Close()
	}
}

// faulty is a system whose source or target goes wrong.
func faulty(source, target func(devicetest.Call) (int, error)) system {
	s := host
	s.open = func(path string, o device.FileOptions) (device.Device, error) {
		d, err := host.open(path, o)
		if err == nil && o.ReadOnly && source != nil {
			d = &devicetest.Fault{Device: d, Before: source}
		}
		return d, err
	}
	s.folder = func(path string, o device.FileOptions) (device.Dir, error) {
		d, err := host.folder(path, o)
		if err == nil && target != nil {
			d = faultyDir{d, target}
		}
		return d, err
	}
	return s
}

type faultyDir struct {
	device.Dir
	before func(devicetest.Call) (int, error)
}

func (d faultyDir) Create(name string, o device.CreateOptions) (device.Device, error) {
	dev, err := d.Dir.Create(name, o)
	if err != nil {
		return nil, err
	}
	return &devicetest.Fault{Device: dev, Before: d.before}, nil
}

func TestFaults(t *testing.T) {
	data := noise(1, 4*mib)
	fail := func(action devicetest.Action, from int64, err error) func(devicetest.Call) (int, error) {
		return func(c devicetest.Call) (int, error) {
			if c.Action == action && c.Off >= from {
				return 0, err
			}
			return c.N, nil
		}
	}
	for _, c := range []struct {
		name           string
		source, target func(devicetest.Call) (int, error)
		want           error
	}{
		{"a bad sector", fail(devicetest.Read, 2*mib, syscall.EIO), nil, syscall.EIO},
		{"no space half-way", nil, fail(devicetest.Write, 2*mib, syscall.ENOSPC), syscall.ENOSPC},
		{"no space at once", nil, fail(devicetest.Write, 0, syscall.ENOSPC), syscall.ENOSPC},
		{"data that is lost in the end", nil, fail(devicetest.Flush, 0, syscall.EIO), syscall.EIO},
	} {
		for _, e := range []EncryptOptions{{Luks: cheap()}, {Plain: plainOf(512)}} {
			src := write(t, "src", data)
			e.Src, e.Dst = src, src+".out"
			r := &run{system: faulty(c.source, c.target)}
			refused(t, "encrypt: "+c.name, r.encrypt(t.Context(), e), c.want)
			only(t, filepath.Dir(src), "src")
			if e.Luks != nil {
				continue
			}
			r = &run{system: faulty(c.source, c.target)}
			err := r.decrypt(t.Context(), DecryptOptions{Src: src, Dst: src + ".out", Open: OpenOptions{Plain: e.Plain}})
			refused(t, "decrypt: "+c.name, err, c.want)
			only(t, filepath.Dir(src), "src")
		}
	}
}

// A reader that ends with an error is not a reader that ends.
func TestBrokenStream(t *testing.T) {
	src := write(t, "src", nil)
	broken := errors.New("broken")
	stream := func() io.Reader { return io.MultiReader(bytes.NewReader(noise(1, mib)), errorReader{broken}) }
	_, err := Encrypt(t.Context(), EncryptOptions{Src: "-", Stdin: stream(), Dst: src + ".out", Luks: cheap()})
	refused(t, "encrypt", err, broken)
	_, err = Decrypt(t.Context(), DecryptOptions{Src: "-", Stdin: stream(), Dst: src + ".out", Open: OpenOptions{Plain: plainOf(512)}})
	refused(t, "decrypt", err, broken)
	_, err = Decrypt(t.Context(), DecryptOptions{Src: "-", Stdin: errorReader{broken}, Dst: src + ".out", Open: unlockIt()})
	refused(t, "decrypt LUKS", err, broken)
	only(t, filepath.Dir(src), "src")
}

type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) { return 0, e.err }
