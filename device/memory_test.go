package device_test

import (
	"bytes"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
)

// A clone and its origin do not see each other's writes.
func TestMemoryClone(t *testing.T) {
	a := device.NewMemory(100_000, 512)
	write(t, a, bytes.Repeat([]byte{1}, 50_000), 0)
	b := a.Clone()
	c := b.Clone()
	write(t, a, []byte{2}, 10)
	write(t, b, []byte{3}, 20_000)
	if err := c.WriteZeroes(100, 10); err != nil {
		t.Fatal(err)
	}
	write(t, c, []byte{4}, 90_000)
	for name, m := range map[string]struct {
		d    *device.Memory
		want map[int]byte
	}{
		"origin":         {a, map[int]byte{10: 2, 20_000: 1, 105: 1, 90_000: 0}},
		"clone":          {b, map[int]byte{10: 1, 20_000: 3, 105: 1, 90_000: 0}},
		"clone of clone": {c, map[int]byte{10: 1, 20_000: 1, 105: 0, 90_000: 4}},
	} {
		got := readAll(t, m.d)
		for off, want := range m.want {
			if got[off] != want {
				t.Errorf("%s: byte %d is %d, want %d", name, off, got[off], want)
			}
		}
	}
}

// What a device loses by becoming smaller does not come back.
func TestMemoryResize(t *testing.T) {
	m := device.NewMemory(40_000, 512)
	write(t, m, bytes.Repeat([]byte{1}, 40_000), 0)
	m.Resize(20_001)
	if m.Size() != 20_001 {
		t.Fatalf("size %d", m.Size())
	}
	m.Resize(50_000)
	want := append(bytes.Repeat([]byte{1}, 20_001), make([]byte, 29_999)...)
	if !bytes.Equal(readAll(t, m), want) {
		t.Error("old bytes came back")
	}
}

// A device much larger than memory costs what is written to it.
func TestMemorySparse(t *testing.T) {
	m := device.NewMemory(1<<62, 4096)
	write(t, m, []byte("far"), 1<<61)
	b := make([]byte, 5)
	if _, err := m.ReadAt(b, 1<<61-1); err != nil || string(b) != "\x00far\x00" {
		t.Errorf("%q, %v", b, err)
	}
	for _, want := range []device.Extent{{Off: 5, Len: 1<<61 - 5, Hole: true}, {Off: 1 << 61, Len: 16 << 10}, {Off: 1<<61 + 16<<10, Len: 1<<61 - 16<<10, Hole: true}} {
		if e, err := m.NextExtent(want.Off); err != nil || e != want {
			t.Errorf("extent %+v, %v; want %+v", e, err, want)
		}
	}
}

func TestSectionGeometry(t *testing.T) {
	m := device.NewMemory(100_000, 4096)
	for _, c := range []struct {
		off, n, size int64
		sector       int
	}{
		{0, -1, 100_000, 4096}, {4096, 1000, 1000, 4096}, {512, -1, 99_488, 512}, {3, 5, 5, 1}, {100_000, -1, 0, 32}, {200_000, -1, 0, 64},
	} {
		s := device.NewSection(m, c.off, c.n)
		if s.Size() != c.size || s.SectorSize() != c.sector {
			t.Errorf("section of %d at %d: size %d, sector %d; want %d, %d", c.n, c.off, s.Size(), s.SectorSize(), c.size, c.sector)
		}
	}
	open := device.NewSection(device.NewSection(m, 1000, -1), 24, -1)
	m.Resize(200_000)
	if open.Size() != 198_976 {
		t.Errorf("an open section does not grow: %d", open.Size())
	}
	for _, bad := range [][2]int64{{-1, 1}, {0, -2}, {1 << 62, 1 << 62}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("NewSection(%d, %d) does not panic", bad[0], bad[1])
				}
			}()
			device.NewSection(m, bad[0], bad[1])
		}()
	}
}
