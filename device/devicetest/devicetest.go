// Package devicetest tests what implements device.Device, and what relies on
// it.
//
//   - Run is the conformance suite that every Device passes.
//   - Replay and ReplayDir take a recorded log to every crash that it allows.
//   - Fault makes a Device fail where a test wants it to.
package devicetest

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
)

// Run tests the Device that open returns against the contract of
// device.Device, in subtests. open is called often and returns each time a new
// device, writable, of at least 64 KiB and four sectors and at most a few MiB,
// with any contents; Run closes it. What open needs to clean up it registers
// with the t it is given.
func Run(t *testing.T, open func(t *testing.T) device.Device) {
	t.Helper()
	for _, sub := range []struct {
		name string
		test func(*testing.T, device.Device)
	}{
		{"geometry", testGeometry},
		{"range", testRange},
		{"end", testEnd},
		{"unaligned", testUnaligned},
		{"alias", testAlias},
		{"zeroes", testZeroes},
		{"discard", testDiscard},
		{"extents", testExtents},
		{"concurrent", testConcurrent},
		{"overlap", testOverlap},
		{"close", testClose},
	} {
		t.Run(sub.name, func(t *testing.T) {
			d := open(t)
			defer closeDevice(t, d)
			sub.test(t, d)
		})
	}
	t.Run("random", func(t *testing.T) { testRandom(t, open) })
}

func closeDevice(t *testing.T, d device.Device) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// contents reads the whole device.
func contents(t testing.TB, d device.Device) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if n, err := d.ReadAt(b, 0); n != len(b) || err != nil && err != io.EOF {
		t.Fatalf("ReadAt of all %d bytes: %d, %v", len(b), n, err)
	}
	return b
}

// compare fails the test if the device is not what it should be.
func compare(t testing.TB, d device.Device, want []byte, after string) {
	t.Helper()
	got := contents(t, d)
	if i := firstDifference(got, want); i >= 0 {
		t.Fatalf("after %s: byte %d of %d is %#02x, not %#02x", after, i, len(want), got[i], want[i])
	}
}

func firstDifference(a, b []byte) int {
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func testGeometry(t *testing.T, d device.Device) {
	size, sector := d.Size(), d.SectorSize()
	if size < 64<<10 || sector <= 0 || size < 4*int64(sector) {
		t.Fatalf("size %d, sectors of %d bytes: the suite needs 64 KiB and four sectors", size, sector)
	}
	if err := d.Flush(); err != nil {
		t.Errorf("Flush of a device never written: %v", err)
	}
	if _, err := d.WriteAt(make([]byte, sector), size-int64(sector)); err != nil {
		t.Errorf("WriteAt of the last sector: %v", err)
	}
	if err := d.Flush(); err != nil {
		t.Errorf("Flush: %v", err)
	}
	if d.Size() != size || d.SectorSize() != sector {
		t.Errorf("geometry changed from %d/%d to %d/%d", size, sector, d.Size(), d.SectorSize())
	}
}

// testRange tries what lies outside, wholly or in part, and wants nothing
// changed by it.
func testRange(t *testing.T, d device.Device) {
	size := d.Size()
	before := contents(t, d)
	for _, r := range []struct{ off, n int64 }{
		{-1, 1}, {-10, 20}, {size, 1}, {size - 1, 2}, {size - 700, 701}, {size + 1, 1},
		{math.MaxInt64, 1}, {math.MaxInt64 - 10, 11}, {math.MinInt64, 16},
	} {
		if n, err := d.WriteAt(make([]byte, r.n), r.off); n != 0 || !errors.Is(err, device.ErrOutOfRange) {
			t.Errorf("WriteAt %d bytes at %d: %d, %v; want 0, ErrOutOfRange", r.n, r.off, n, err)
		}
		if err := d.WriteZeroes(r.off, r.n); !errors.Is(err, device.ErrOutOfRange) {
			t.Errorf("WriteZeroes %d bytes at %d: %v, want ErrOutOfRange", r.n, r.off, err)
		}
		if err := d.Discard(r.off, r.n); !errors.Is(err, device.ErrOutOfRange) {
			t.Errorf("Discard %d bytes at %d: %v, want ErrOutOfRange", r.n, r.off, err)
		}
	}
	for _, n := range []int64{-1, math.MinInt64} {
		if err := d.WriteZeroes(0, n); !errors.Is(err, device.ErrOutOfRange) {
			t.Errorf("WriteZeroes of %d bytes: %v, want ErrOutOfRange", n, err)
		}
		if err := d.Discard(0, n); !errors.Is(err, device.ErrOutOfRange) {
			t.Errorf("Discard of %d bytes: %v, want ErrOutOfRange", n, err)
		}
	}
	if n, err := d.ReadAt(make([]byte, 8), -4); n != 0 || !errors.Is(err, device.ErrOutOfRange) {
		t.Errorf("ReadAt at -4: %d, %v; want 0, ErrOutOfRange", n, err)
	}
	compare(t, d, before, "requests outside the device")
}

// testEnd tries empty requests and reads that reach the end.
func testEnd(t *testing.T, d device.Device) {
	size := d.Size()
	all := contents(t, d)
	for _, off := range []int64{0, 1, size - 1, size} {
		if n, err := d.WriteAt(nil, off); n != 0 || err != nil {
			t.Errorf("WriteAt of nothing at %d: %d, %v", off, n, err)
		}
		if err := errors.Join(d.WriteZeroes(off, 0), d.Discard(off, 0)); err != nil {
			t.Errorf("zeroing or discarding nothing at %d: %v", off, err)
		}
		if n, err := d.ReadAt(nil, off); n != 0 || err != nil && err != io.EOF {
			t.Errorf("ReadAt of nothing at %d: %d, %v", off, n, err)
		}
	}
	for _, back := range []int64{0, 1, 17, 511, 513, 5000} {
		b := make([]byte, back+100)
		n, err := d.ReadAt(b, size-back)
		if int64(n) != back || err != io.EOF || !bytes.Equal(b[:n], all[size-back:]) {
			t.Errorf("ReadAt of %d bytes, %d before the end: %d, %v; want %d and io.EOF", len(b), back, n, err, back)
		}
		if n, err := d.ReadAt(b[:back], size-back); int64(n) != back || err != nil && err != io.EOF {
			t.Errorf("ReadAt of the last %d bytes: %d, %v", back, n, err)
		}
	}
	if n, err := d.ReadAt(make([]byte, 10), size+1); n != 0 || err != io.EOF {
		t.Errorf("ReadAt beyond the end: %d, %v; want 0, io.EOF", n, err)
	}
}

// testUnaligned writes and reads ranges that begin and end around the
// boundaries of sectors.
func testUnaligned(t *testing.T, d device.Device) {
	model := contents(t, d)
	sector := d.SectorSize()
	seed := uint64(0)
	for _, from := range []int{0, 1, sector - 1, sector, sector + 1} {
		for _, to := range []int{sector - 1, sector, sector + 1, 2 * sector, 3*sector - 1, 4 * sector} {
			if to <= from {
				continue
			}
			seed++
			p := randomBytes(seed, to-from)
			if n, err := d.WriteAt(p, int64(from)); n != len(p) || err != nil {
				t.Fatalf("WriteAt of [%d, %d): %d, %v", from, to, n, err)
			}
			copy(model[from:], p)
			got := make([]byte, to-from)
			if n, err := d.ReadAt(got, int64(from)); n != len(got) || err != nil && err != io.EOF {
				t.Fatalf("ReadAt of [%d, %d): %d, %v", from, to, n, err)
			}
			if !bytes.Equal(got, p) {
				t.Fatalf("[%d, %d) reads back different", from, to)
			}
		}
	}
	compare(t, d, model, "unaligned writes")
}

// testAlias looks at buffers: WriteAt must not touch the caller's, which the
// race detector sees, nor keep it.
func testAlias(t *testing.T, d device.Device) {
	p := randomBytes(1, 3*d.SectorSize()+1)
	want := bytes.Clone(p)
	stop, stopped := make(chan struct{}), make(chan byte)
	go func() {
		var sum byte
		for {
			for _, b := range p {
				sum += b
			}
			select {
			case <-stop:
				stopped <- sum
				return
			default:
			}
		}
	}()
	for _, off := range []int64{0, 1} {
		if _, err := d.WriteAt(p, off); err != nil {
			t.Fatalf("WriteAt: %v", err)
		}
	}
	close(stop)
	<-stopped
	if !bytes.Equal(p, want) {
		t.Fatal("WriteAt changed its buffer")
	}
	clear(p)
	got := make([]byte, len(p))
	if _, err := d.ReadAt(got, 1); err != nil && err != io.EOF {
		t.Fatalf("ReadAt: %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("the device changed with the buffer that was written")
	}
}

func testClose(t *testing.T, d device.Device) {
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	b := make([]byte, 16)
	_, readErr := d.ReadAt(b, 0)
	_, writeErr := d.WriteAt(b, 0)
	for name, err := range map[string]error{
		"ReadAt": readErr, "WriteAt": writeErr, "Flush": d.Flush(), "WriteZeroes": d.WriteZeroes(0, 16),
	} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s after Close: %v, want os.ErrClosed", name, err)
		}
	}
}
