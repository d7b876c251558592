package volume

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/luks"
)

// Secrets are asked for when nothing else can keep a job from running any
// more, and not at all where it cannot run.
func TestPrepareComesAfterChecks(t *testing.T) {
	src := write(t, "src", noise(1, mib))
	there := write(t, "there", []byte("old"))
	asked := 0
	e := EncryptOptions{
		Src: src, Luks: &luks.FormatOptions{KeySize: 32, KeyslotsSize: 128 << 10, DataOffset: 160 << 10},
		Prepare: func(_ context.Context, l *luks.FormatOptions, p *PlainOptions) error {
			asked++
			if p != nil || l.SectorSize != 512 {
				t.Errorf("prepare got %+v, %+v", l, p)
			}
			l.KDF, l.DigestIterations, l.Passphrase = cheap().KDF, 1000, passphrase
			return nil
		},
	}
	e.Dst = there
	_, err := Encrypt(t.Context(), e)
	refused(t, "encrypt", err, ErrExists)
	bad := *e.Luks
	bad.SectorSize = 1000
	e2 := e
	e2.Luks, e2.Dst = &bad, src+".volume"
	if _, err := Encrypt(t.Context(), e2); err == nil {
		t.Error("a sector size of 1000")
	}
	if asked != 0 {
		t.Fatal("asked before the checks")
	}
	e.Dst = src + ".volume"
	if _, err := Encrypt(t.Context(), e); err != nil || asked != 1 {
		t.Fatal(err, asked)
	}
	if e.Luks.Passphrase != nil {
		t.Error("the caller's options were changed")
	}

	o := OpenOptions{Slot: luks.AnySlot, Ask: func(_ context.Context, h *luks.Header) ([]byte, error) {
		asked++
		if h == nil {
			t.Error("no header")
		}
		return passphrase, nil
	}}
	_, err = Decrypt(t.Context(), DecryptOptions{Src: e.Dst, Dst: there, Open: o})
	refused(t, "decrypt", err, ErrExists)
	_, err = Decrypt(t.Context(), DecryptOptions{Src: src, Dst: src + ".plain", Open: o})
	refused(t, "decrypt no volume", err, luks.ErrNotLUKS)
	if asked != 1 {
		t.Fatal("asked before the checks")
	}
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: e.Dst, Dst: src + ".plain", Open: o}); err != nil || asked != 2 {
		t.Fatal(err, asked)
	}
	equal(t, "decrypted", read(t, src+".plain"), noise(1, mib))
}

func TestHookErrors(t *testing.T) {
	no := errors.New("no terminal")
	src := write(t, "src", noise(1, mib))
	dir := filepath.Dir(src)
	e := EncryptOptions{Src: src, Dst: dir + "/out", Prepare: func(context.Context, *luks.FormatOptions, *PlainOptions) error { return no }}
	e.Luks = cheap()
	_, err := Encrypt(t.Context(), e)
	refused(t, "LUKS", err, no)
	e.Luks, e.Plain = nil, plainOf(512)
	_, err = Encrypt(t.Context(), e)
	refused(t, "plain", err, no)
	_, _, err = Format(t.Context(), FormatOptions{Path: dir + "/out", Create: mib, Luks: *cheap(),
		Prepare: func(context.Context, *luks.FormatOptions) error { return no }})
	refused(t, "format", err, no)
	p := plainOf(512)
	p.Key = nil
	o := OpenOptions{Plain: p, Ask: func(context.Context, *luks.Header) ([]byte, error) { return nil, no }}
	_, err = Decrypt(t.Context(), DecryptOptions{Src: src, Dst: dir + "/out", Open: o})
	refused(t, "plain key", err, no)
	only(t, dir, "src")

	o.Ask = func(context.Context, *luks.Header) ([]byte, error) { return noise(7, 64), nil }
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: src, Dst: dir + "/out", Open: o}); err != nil {
		t.Error(err)
	}
	if p.Key != nil {
		t.Error("the caller's options were changed")
	}
}

// O_DIRECT on both sides, with a length that ends inside its alignment.
func TestDirect(t *testing.T) {
	data := noise(1, 3*mib+512)
	src := write(t, "src", data)
	dir := t.TempDir()
	_, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: dir + "/volume", Luks: cheap(), Direct: true})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: dir + "/volume", Dst: dir + "/plain", Open: unlockIt(), Direct: true}); err != nil {
		t.Fatal(err)
	}
	equal(t, "through O_DIRECT", read(t, dir+"/plain"), data)
}

// A source that is a volume already is encrypted once more, and said so.
func TestEncryptedTwice(t *testing.T) {
	volume, _ := roundTrip(t, write(t, "src", noise(1, mib)), EncryptOptions{Luks: cheap()}, unlockIt())
	report, err := Encrypt(t.Context(), EncryptOptions{Src: volume, Dst: volume + ".2", Luks: cheap()})
	if err != nil || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "luks2") {
		t.Errorf("%v, %q", err, report.Warnings)
	}
}

// The jobs' memory does not grow with the image: 64 MiB bound it, however
// much is copied.
func TestMemory(t *testing.T) {
	const size = 256 * mib
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	src := sparseFile(t, size, mib)
	for name, job := range map[string]func(progress func(Progress)) error{
		"encrypt": func(progress func(Progress)) error {
			_, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: src + ".volume", Luks: cheap(), Progress: progress, Force: true})
			return err
		},
		"decrypt": func(progress func(Progress)) error {
			_, err := Decrypt(t.Context(), DecryptOptions{Src: src, Dst: src + ".plain", Open: OpenOptions{Plain: plainOf(512)}, Progress: progress})
			return err
		},
		"pipe to pipe": func(progress func(Progress)) error {
			r := &zeroReader{size}
			_, err := Encrypt(t.Context(), EncryptOptions{Src: "-", Stdin: r, Dst: "-", Stdout: discard{}, Luks: cheap(), Progress: progress})
			return err
		},
	} {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		before, most, n := m.HeapInuse, uint64(0), 0
		err := job(func(Progress) {
			if n++; n%8 == 0 {
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if most > before+64*mib || n < 100 {
			t.Errorf("%s: %d MiB of heap at first, %d at most (%d looks)", name, before/mib, most/mib, n)
		}
	}
}

type zeroReader struct{ left int }

func (z *zeroReader) Read(p []byte) (int, error) {
	n := min(len(p), z.left)
	z.left -= n
	clear(p[:n])
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// lateHead must be a device like any other, as far as a copy uses it.
func TestLateHead(t *testing.T) {
	const size = 3 * mib
	under := device.NewMemory(size, 512)
	late := newLateHead(under)
	want := noise(1, size)
	for _, r := range [][2]int{{0, size}, {headSize - 100, headSize + 100}, {headSize, headSize + 1}, {0, 10}, {headSize - 5, headSize}} {
		copy(want[r[0]:r[1]], noise(uint64(r[0]), r[1]-r[0]))
		if n, err := late.WriteAt(want[r[0]:r[1]], int64(r[0])); n != r[1]-r[0] || err != nil {
			t.Fatal(n, err)
		}
	}
	for _, r := range [][2]int{{headSize - 50, headSize + 70}, {5, 9}, {2 * mib, 2*mib + 9}} {
		clear(want[r[0]:r[1]])
		if err := late.WriteZeroes(int64(r[0]), int64(r[1]-r[0])); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, size)
	if n, err := late.ReadAt(got, 0); n != size || err != nil && !atEnd(err) {
		t.Fatal(n, err)
	}
	equal(t, "read back", got, want)
	if b := contentBytes(under); !bytes.Equal(b[:headSize], make([]byte, headSize)) {
		t.Error("the head was written early")
	}
	if err := late.finish(); err != nil {
		t.Fatal(err)
	}
	equal(t, "finished", contentBytes(under), want)
}
