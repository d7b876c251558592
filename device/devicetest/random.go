package devicetest

import (
	"bytes"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/xtsdisk/xtsdisk/device"
)

// testRandom holds random requests against a slice of bytes.
func testRandom(t *testing.T, open func(t *testing.T) device.Device) {
	rapid.Check(t, func(rt *rapid.T) {
		d := open(t)
		defer closeDevice(t, d)
		m := &model{d: d, want: contents(t, d)}
		rt.Repeat(map[string]func(*rapid.T){
			"read":    m.read,
			"write":   m.write,
			"zero":    m.zero,
			"discard": m.discard,
			"flush": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "skip") > 0 {
					return // disks take long over it
				}
				if err := d.Flush(); err != nil {
					rt.Fatalf("Flush: %v", err)
				}
			},
		})
		got := contents(t, d)
		if i := firstDifference(got, m.want); i >= 0 {
			rt.Fatalf("at the end byte %d is %#02x, not %#02x", i, got[i], m.want[i])
		}
	})
}

// model is a device and what it should hold.
type model struct {
	d    device.Device
	want []byte
}

// span draws a range: often near the boundaries of sectors, sometimes large.
func (m *model) span(rt *rapid.T) (off, n int64) {
	size, sector := m.d.Size(), int64(m.d.SectorSize())
	near := func(name string) int64 {
		edge := rapid.Int64Range(0, size/sector).Draw(rt, name) * sector
		return min(max(edge+rapid.Int64Range(-2, 2).Draw(rt, name+" delta"), 0), size)
	}
	off, end := near("from"), near("to")
	if rapid.Bool().Draw(rt, "short") {
		end = min(off+rapid.Int64Range(0, 3*sector).Draw(rt, "length"), size)
	}
	if end < off {
		off, end = end, off
	}
	return off, end - off
}

func (m *model) read(rt *rapid.T) {
	off, n := m.span(rt)
	p := make([]byte, n)
	got, err := m.d.ReadAt(p, off)
	if int64(got) != n || err != nil && err != io.EOF {
		rt.Fatalf("ReadAt of %d bytes at %d: %d, %v", n, off, got, err)
	}
	if !bytes.Equal(p, m.want[off:off+n]) {
		i := firstDifference(p, m.want[off:off+n])
		rt.Fatalf("ReadAt of %d bytes at %d: byte %d is %#02x, not %#02x", n, off, off+int64(i), p[i], m.want[off+int64(i)])
	}
}

func (m *model) write(rt *rapid.T) {
	off, n := m.span(rt)
	p := randomBytes(rapid.Uint64().Draw(rt, "seed"), int(n))
	if got, err := m.d.WriteAt(p, off); int64(got) != n || err != nil {
		rt.Fatalf("WriteAt of %d bytes at %d: %d, %v", n, off, got, err)
	}
	copy(m.want[off:], p)
}

func (m *model) zero(rt *rapid.T) {
	off, n := m.span(rt)
	if err := m.d.WriteZeroes(off, n); err != nil {
		rt.Fatalf("WriteZeroes of %d bytes at %d: %v", n, off, err)
	}
	clear(m.want[off : off+n])
}

// discard takes over what the range reads as afterwards.
func (m *model) discard(rt *rapid.T) {
	off, n := m.span(rt)
	if err := m.d.Discard(off, n); err != nil {
		rt.Fatalf("Discard of %d bytes at %d: %v", n, off, err)
	}
	if _, err := m.d.ReadAt(m.want[off:off+n], off); err != nil && err != io.EOF {
		rt.Fatalf("ReadAt of a discarded range: %v", err)
	}
}
