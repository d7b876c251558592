package devicetest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
)

// broken holds devices that each break one promise, and the subtest of the
// suite that must notice.
var broken = map[string]struct {
	notices string
	wrap    func(*device.Memory) device.Device
}{
	"grows":             {"range", func(m *device.Memory) device.Device { return &growing{m} }},
	"zeroes outside":    {"range", func(m *device.Memory) device.Device { return &loose{m} }},
	"short at the end":  {"end", func(m *device.Memory) device.Device { return &silentEnd{m} }},
	"whole sectors":     {"unaligned", func(m *device.Memory) device.Device { return &roundsWrites{m} }},
	"scribbles":         {"alias", func(m *device.Memory) device.Device { return &scribbles{m} }},
	"keeps the buffer":  {"alias", func(m *device.Memory) device.Device { return &keeps{Memory: m} }},
	"no zeroes":         {"zeroes", func(m *device.Memory) device.Device { return &noZeroes{m} }},
	"wide zeroes":       {"zeroes", func(m *device.Memory) device.Device { return &wideZeroes{m} }},
	"wide discard":      {"discard", func(m *device.Memory) device.Device { return &wideDiscard{m} }},
	"false holes":       {"extents", func(m *device.Memory) device.Device { return &falseHoles{m} }},
	"no end of extents": {"extents", func(m *device.Memory) device.Device { return &emptyExtents{m} }},
	"unlocked":          {"concurrent", func(m *device.Memory) device.Device { return &unlocked{m} }},
	"unlocked overlap":  {"overlap", func(m *device.Memory) device.Device { return &unlocked{m} }},
	"closes once":       {"close", func(m *device.Memory) device.Device { return &closesOnce{Memory: m} }},
	"open for ever":     {"close", func(m *device.Memory) device.Device { return &neverCloses{m} }},
	"forgets":           {"random", func(m *device.Memory) device.Device { return &forgets{m} }},
}

type growing struct{ *device.Memory }

func (g *growing) WriteAt(p []byte, off int64) (int, error) {
	if end := off + int64(len(p)); off >= 0 && off < 1<<30 && end > g.Size() {
		g.Resize(end)
	}
	return g.Memory.WriteAt(p, off)
}

type loose struct{ *device.Memory }

func (l *loose) WriteZeroes(off, n int64) error {
	if off >= 0 && n > 0 && off < l.Size() {
		n = min(n, l.Size()-off)
	}
	return l.Memory.WriteZeroes(off, n)
}

type silentEnd struct{ *device.Memory }

func (s *silentEnd) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.Memory.ReadAt(p, off)
	if n > 0 {
		err = nil
	}
	return n, err
}

type roundsWrites struct{ *device.Memory }

func (r *roundsWrites) WriteAt(p []byte, off int64) (int, error) {
	if len(p) > 1 && off >= 0 && off < r.Size() {
		off -= off % 512
	}
	return r.Memory.WriteAt(p, off)
}

type scribbles struct{ *device.Memory }

func (s *scribbles) WriteAt(p []byte, off int64) (int, error) {
	n, err := s.Memory.WriteAt(p, off)
	if len(p) > 0 {
		p[len(p)-1] ^= 0x80
	}
	return n, err
}

type keeps struct {
	*device.Memory
	p   []byte
	off int64
}

func (k *keeps) WriteAt(p []byte, off int64) (int, error) {
	k.p, k.off = p, off
	return k.Memory.WriteAt(p, off)
}

func (k *keeps) ReadAt(p []byte, off int64) (int, error) {
	k.Memory.WriteAt(k.p, k.off)
	return k.Memory.ReadAt(p, off)
}

type noZeroes struct{ *device.Memory }

func (n *noZeroes) WriteZeroes(off, length int64) error {
	return n.Memory.WriteZeroes(off, min(length, 0))
}

type wideZeroes struct{ *device.Memory }

func (w *wideZeroes) WriteZeroes(off, n int64) error {
	if off >= 0 && n > 0 && n <= w.Size()-off {
		n, off = min(n+off%512, w.Size()-off+off%512), off-off%512
	}
	return w.Memory.WriteZeroes(off, n)
}

type wideDiscard struct{ *device.Memory }

func (w *wideDiscard) Discard(off, n int64) error { return (&wideZeroes{w.Memory}).WriteZeroes(off, n) }

type falseHoles struct{ *device.Memory }

func (f *falseHoles) NextExtent(off int64) (device.Extent, error) {
	e, err := f.Memory.NextExtent(off)
	e.Hole = true
	return e, err
}

type emptyExtents struct{ *device.Memory }

func (e *emptyExtents) NextExtent(off int64) (device.Extent, error) {
	x, err := e.Memory.NextExtent(off)
	x.Len -= x.Len % 4096
	return x, err
}

// unlocked reads, changes and writes sectors with nothing to hold others off.
type unlocked struct{ *device.Memory }

func (u *unlocked) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off > u.Size()-int64(len(p)) || len(p) == 0 {
		return u.Memory.WriteAt(p, off)
	}
	start := off - off%512
	b := make([]byte, min((off+int64(len(p))+511)/512*512, u.Size())-start)
	u.Memory.ReadAt(b, start)
	time.Sleep(100 * time.Microsecond) // others get in between, however few processors there are
	copy(b[off-start:], p)
	_, err := u.Memory.WriteAt(b, start)
	return len(p), err
}

type closesOnce struct {
	*device.Memory
	closed bool
}

func (c *closesOnce) Close() error {
	if c.closed {
		return errors.New("closed already")
	}
	c.closed = true
	return c.Memory.Close()
}

type neverCloses struct{ *device.Memory }

func (*neverCloses) Close() error { return nil }

// forgets loses writes of a certain alignment, beyond what other tests touch.
type forgets struct{ *device.Memory }

func (f *forgets) WriteAt(p []byte, off int64) (int, error) {
	if off > 40_000 && off%512 == 510 && int64(len(p)) <= f.Size()-off {
		return len(p), nil
	}
	return f.Memory.WriteAt(p, off)
}

const brokenVariable = "DEVICETEST_BROKEN"

// TestBrokenDevice runs the suite on a broken device, in a process that
// TestSuiteNotices starts.
func TestBrokenDevice(t *testing.T) {
	name := os.Getenv(brokenVariable)
	if name == "" {
		t.Skip("run by TestSuiteNotices")
	}
	devicetest.Run(t, func(*testing.T) device.Device { return broken[name].wrap(device.NewMemory(100_000, 512)) })
}

func TestSuiteNotices(t *testing.T) {
	for name, b := range broken {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestBrokenDevice$", "-test.timeout=60s", "-rapid.nofailfile", "-rapid.shrinktime=0s")
			cmd.Env = append(os.Environ(), brokenVariable+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestBrokenDevice/"+b.notices) {
				t.Errorf("the suite does not notice in %q: %v\n%s", b.notices, err, out)
			}
		})
	}
}
