package device_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
)

// patched is a device, what it holds, and what it reads as with the patches.
func patched(t *testing.T, size int64) (*device.Memory, []byte, []device.Patch) {
	t.Helper()
	m := device.NewMemory(size, 512)
	want := make([]byte, size)
	for i := range want {
		want[i] = byte(i * 7 >> 3)
	}
	if _, err := m.WriteAt(want, 0); err != nil {
		t.Fatal(err)
	}
	patch := func(off, n int64, unit int) device.Patch {
		whole := make([]byte, n)
		for i := range whole {
			whole[i] = byte(int(off) + i*13)
		}
		if off < size {
			copy(want[off:], whole)
		}
		return device.Patch{Off: off, Len: n, Unit: unit, Read: func(p []byte, off int64) error {
			if len(p)%unit != 0 || off%int64(unit) != 0 || off+int64(len(p)) > n {
				return fmt.Errorf("%d bytes at %d in units of %d", len(p), off, unit)
			}
			copy(p, whole[off:])
			return nil
		}}
	}
	return m, want, []device.Patch{patch(0, 700, 7), patch(1000, 4096, 512), patch(5096, 1000, 1000), patch(size-100, 4096, 4096)}
}

// Every range, aligned or not, reads as the device with the patches applied,
// and the device itself stays as it was.
func TestOverlay(t *testing.T) {
	const size = 20_000
	m, want, patches := patched(t, size)
	before := make([]byte, size)
	if _, err := m.ReadAt(before, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	v := device.NewOverlay(m, patches...)
	if v.Size() != size || v.SectorSize() != 512 {
		t.Errorf("size %d, sector size %d", v.Size(), v.SectorSize())
	}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for range 500 {
				off, n := rng.Int64N(size+10), rng.IntN(7000)
				p := make([]byte, n)
				got, err := v.ReadAt(p, off)
				have := max(0, min(int64(n), size-off))
				if int64(got) != have || n > 0 && (err == io.EOF) != (off+int64(n) > size) || err != nil && err != io.EOF {
					t.Errorf("%d bytes at %d: %d, %v", n, off, got, err)
				}
				if have > 0 && !bytes.Equal(p[:got], want[off:off+have]) {
					t.Errorf("%d bytes at %d: other bytes", n, off)
				}
			}
		})
	}
	all.Wait()
	for name, err := range map[string]error{
		"WriteAt":     func() error { _, err := v.WriteAt(make([]byte, 10), 3); return err }(),
		"WriteZeroes": v.WriteZeroes(1000, 512),
		"Discard":     v.Discard(8000, 512),
	} {
		if !errors.Is(err, device.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := v.WriteAt(make([]byte, 10), size); !errors.Is(err, device.ErrOutOfRange) {
		t.Errorf("a write behind the end: %v", err)
	}
	if err := v.Flush(); err != nil {
		t.Error(err)
	}
	after := make([]byte, size)
	if _, err := m.ReadAt(after, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the device below was changed")
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

// An error of a patch counts the bytes before it.
func TestOverlayError(t *testing.T) {
	broken := errors.New("broken")
	v := device.NewOverlay(device.NewMemory(8192, 512), device.Patch{Off: 1024, Len: 2048, Unit: 512, Read: func(p []byte, off int64) error {
		if off+int64(len(p)) > 1024 {
			return broken
		}
		return nil
	}})
	if n, err := v.ReadAt(make([]byte, 4096), 0); n != 1024 || !errors.Is(err, broken) {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := v.ReadAt(make([]byte, 100), 2100); n != 0 || !errors.Is(err, broken) {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := v.ReadAt(make([]byte, 1024), 1024); n != 1024 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// holed is a device of holes.
type holed struct{ device.Device }

func (h holed) NextExtent(off int64) (device.Extent, error) {
	return device.Extent{Off: off, Len: h.Size() - off, Hole: true}, nil
}

// A patch is no hole, and the extents meet without gap.
func TestOverlayExtents(t *testing.T) {
	v := device.NewOverlay(holed{device.NewMemory(8192, 512)}, device.Patch{Off: 1024, Len: 2048, Unit: 512})
	x := v.(device.Extenter)
	for at, i := int64(0), 0; at < v.Size(); i++ {
		e, err := x.NextExtent(at)
		if err != nil || e.Off != at || e.Len <= 0 || e.Hole != (i != 1) {
			t.Fatalf("%d: %+v, %v", at, e, err)
		}
		at += e.Len
	}
	if _, err := x.NextExtent(8192); !errors.Is(err, device.ErrOutOfRange) {
		t.Error(err)
	}
}

func TestOverlayPanics(t *testing.T) {
	for name, list := range map[string][]device.Patch{
		"unit 0":       {{Off: 0, Len: 512}},
		"no multiple":  {{Off: 0, Len: 513, Unit: 512}},
		"negative":     {{Off: -512, Len: 512, Unit: 512}},
		"overlap":      {{Off: 0, Len: 1024, Unit: 512}, {Off: 512, Len: 512, Unit: 512}},
		"out of order": {{Off: 4096, Len: 512, Unit: 512}, {Off: 0, Len: 512, Unit: 512}},
		"behind 2^63":  {{Off: 1<<63 - 512, Len: 1024, Unit: 512}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			device.NewOverlay(device.NewMemory(512, 512), list...)
		}()
	}
}
