package devicetest

import (
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
)

// testZeroes wants ranges zero and their neighbours untouched.
func testZeroes(t *testing.T, d device.Device) {
	fill(t, d)
	model := contents(t, d)
	for _, r := range awkwardRanges(d) {
		if err := d.WriteZeroes(r.off, r.n); err != nil {
			t.Fatalf("WriteZeroes of %d bytes at %d: %v", r.n, r.off, err)
		}
		clear(model[r.off : r.off+r.n])
		compare(t, d, model, "WriteZeroes")
	}
}

// testDiscard wants the neighbours of discarded ranges untouched.
func testDiscard(t *testing.T, d device.Device) {
	fill(t, d)
	model := contents(t, d)
	for _, r := range awkwardRanges(d) {
		if err := d.Discard(r.off, r.n); err != nil {
			t.Fatalf("Discard of %d bytes at %d: %v", r.n, r.off, err)
		}
		if _, err := d.ReadAt(model[r.off:r.off+r.n], r.off); err != nil && r.off+r.n < d.Size() {
			t.Fatalf("ReadAt of a discarded range: %v", err)
		}
		compare(t, d, model, "Discard")
	}
}

type span struct{ off, n int64 }

// awkwardRanges begin and end at, before and after sectors and pages.
func awkwardRanges(d device.Device) []span {
	sector, size := int64(d.SectorSize()), d.Size()
	ranges := []span{
		{0, 1}, {1, sector - 2}, {sector - 1, 2}, {sector, sector}, {2*sector + 1, 2*sector - 1},
		{4095, 8194}, {16 << 10, 16 << 10}, {size - 1, 1}, {size - sector - 1, sector + 1}, {5000, size - 10000}, {0, size},
	}
	var valid []span
	for _, r := range ranges {
		if r.n > 0 && r.off+r.n <= size {
			valid = append(valid, r)
		}
	}
	return valid
}

// fill writes something everywhere that is zero nowhere.
func fill(t *testing.T, d device.Device) {
	t.Helper()
	p := randomBytes(3, int(d.Size()))
	for i := range p {
		p[i] |= 1
	}
	if _, err := d.WriteAt(p, 0); err != nil {
		t.Fatalf("WriteAt of all %d bytes: %v", len(p), err)
	}
}

// testExtents wants extents that cover the device and holes that are zeros.
func testExtents(t *testing.T, d device.Device) {
	x, ok := d.(device.Extenter)
	if !ok {
		t.Skip("the device tells nothing about holes")
	}
	size := d.Size()
	if _, err := d.WriteAt(randomBytes(4, 1000), size/2); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteZeroes(size/4, size/8); err != nil {
		t.Fatal(err)
	}
	all := contents(t, d)
	for _, start := range []int64{0, 1, size / 3, size - 1} {
		for off := start; off < size; {
			e, err := x.NextExtent(off)
			if err != nil || e.Off != off || e.Len <= 0 || e.Len > size-off {
				t.Fatalf("NextExtent(%d): %+v, %v", off, e, err)
			}
			for i, b := range all[off : off+e.Len] {
				if e.Hole && b != 0 {
					t.Fatalf("byte %d lies in a hole and is %#02x", off+int64(i), b)
				}
			}
			off += e.Len
		}
	}
	for _, off := range []int64{-1, size, size + 1} {
		if e, err := x.NextExtent(off); err == nil {
			t.Errorf("NextExtent(%d) beyond the device: %+v", off, e)
		}
	}
}
