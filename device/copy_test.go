package device_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/xtsdisk/xtsdisk/device"
)

// mask is a transform that depends on the offset, undoes itself, and notes
// how often it met each unit.
type mask struct {
	unit int64
	seen []atomic.Int32
}

func newMask(unit int, bytes int64) *mask {
	return &mask{unit: int64(unit), seen: make([]atomic.Int32, bytes/int64(unit)+1)}
}

func maskByte(off int64) byte { return byte(off) ^ byte(off>>8)*3 ^ byte(off>>16)*7 | 1 }

func (m *mask) transform(dst, src []byte, off int64) error {
	if len(src) != len(dst) || off%m.unit != 0 || int64(len(src))%m.unit != 0 {
		return fmt.Errorf("transform of %d to %d bytes at %d, in units of %d", len(src), len(dst), off, m.unit)
	}
	for i := range src {
		dst[i] = src[i] ^ maskByte(off+int64(i))
	}
	for u := off / m.unit; u < (off+int64(len(src)))/m.unit; u++ {
		m.seen[u].Add(1)
	}
	return nil
}

// sparseBytes draws contents with runs of zeros and of data.
func sparseBytes(t *rapid.T, size int) []byte {
	b := make([]byte, size)
	for off := 0; off < size; {
		n := rapid.SampledFrom([]int{1, 100, 4096, 8192, 20000, 70000, 150000}).Draw(t, "run")
		n = min(n, size-off)
		if rapid.Bool().Draw(t, "data") {
			copy(b[off:off+n], bytes.Repeat([]byte{0xa5, 1, 2}, n/3+1))
		}
		off += n
	}
	return b
}

// memoryOf returns a device that holds b, with holes where b has pages of
// zeros.
func memoryOf(b []byte) *device.Memory {
	m := device.NewMemory(int64(len(b)), 512)
	const page = 16 << 10
	for off := 0; off < len(b); off += page {
		p := b[off:min(off+page, len(b))]
		if len(bytes.Trim(p, "\x00")) > 0 {
			m.WriteAt(p, int64(off))
		}
	}
	return m
}

func readAll(t testing.TB, d device.Device) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if n, err := d.ReadAt(b, 0); n != len(b) || err != nil && err != io.EOF {
		t.Fatalf("ReadAt: %d, %v", n, err)
	}
	return b
}

// TestCopyProperty holds Copy, with any options, against a transformation of
// the whole in one piece.
func TestCopyProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		unit := rapid.SampledFrom([]int{0, 1, 16, 512, 520, 4096}).Draw(rt, "unit")
		plain := sparseBytes(rt, rapid.IntRange(0, 600_000).Draw(rt, "size"))
		o := device.CopyOptions{
			Size: -1, Unit: unit,
			Pad:         rapid.Bool().Draw(rt, "pad"),
			ChunkSize:   rapid.SampledFrom([]int{0, 1, 1000, 4096, 65536, 200_000}).Draw(rt, "chunk"),
			Workers:     rapid.IntRange(0, 5).Draw(rt, "workers"),
			SourceHoles: rapid.Bool().Draw(rt, "source holes"),
			PunchZeros:  rapid.Bool().Draw(rt, "punch zeros"),
			Fresh:       rapid.Bool().Draw(rt, "fresh"),
		}
		if o.ChunkSize == 1 && unit <= 16 {
			o.ChunkSize = 777 // else one call per byte
		}
		unit = max(unit, 1)
		if rapid.Bool().Draw(rt, "size known") {
			o.Size = int64(len(plain))
		}
		padded := bytes.Clone(plain)
		if rest := len(plain) % unit; rest != 0 {
			padded = append(padded, make([]byte, unit-rest)...)
		}
		m := newMask(unit, int64(len(padded)))
		want, source := padded, plain
		switch rapid.SampledFrom([]string{"none", "encrypt", "decrypt"}).Draw(rt, "transform") {
		case "encrypt":
			o.Transform = m.transform
			want = make([]byte, len(padded))
			newMask(unit, int64(len(padded))).transform(want, padded, 0)
		case "decrypt":
			o.Transform, o.SourceHoles, o.Pad = m.transform, false, false
			source = make([]byte, len(plain))
			for i := range plain {
				source[i] = plain[i] ^ maskByte(int64(i))
			}
		}
		c := &copyCase{o: o, source: source, want: want, mask: m}
		c.run(rt)
	})
}

// copyCase is one copy and what should come of it.
type copyCase struct {
	o            device.CopyOptions
	source, want []byte
	mask         *mask
}

func (c *copyCase) run(t *rapid.T) {
	var done int64
	c.o.Progress = func(n int64) {
		if n < done {
			t.Fatalf("progress falls from %d to %d", done, n)
		}
		done = n
	}
	src := device.DeviceSource(memoryOf(c.source))
	if rapid.Bool().Draw(t, "from stream") {
		src = device.StreamSource(iotest.HalfReader(bytes.NewReader(c.source)))
	}
	sink := device.NewMemory(int64(len(c.want)), 512)
	var stream bytes.Buffer
	toStream := rapid.Bool().Draw(t, "to stream")
	dst := device.DeviceSink(sink)
	if toStream {
		dst = device.StreamSink(&stream)
	} else if !c.o.Fresh {
		sink.WriteAt(bytes.Repeat([]byte{0xee}, len(c.want)), 0)
	}
	stats, err := device.Copy(context.Background(), dst, src, c.o)
	if len(c.want) != len(c.source) && !c.o.Pad {
		if !errors.Is(err, device.ErrPartialUnit) {
			t.Fatalf("source ends inside a unit: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	got := stream.Bytes()
	if !toStream {
		got = make([]byte, sink.Size())
		sink.ReadAt(got, 0)
	}
	if !bytes.Equal(got, c.want) {
		t.Fatalf("the sink differs from a plain transformation: %d bytes, want %d", len(got), len(c.want))
	}
	c.checkStats(t, stats, done, toStream)
}

func (c *copyCase) checkStats(t *rapid.T, s device.CopyStats, done int64, toStream bool) {
	if s.Bytes != int64(len(c.want)) || s.PadBytes != int64(len(c.want)-len(c.source)) || done != int64(len(c.source)) {
		t.Fatalf("stats %+v, progress %d for %d bytes from %d", s, done, len(c.want), len(c.source))
	}
	if !c.o.SourceHoles && s.HoleBytes != 0 || (toStream || !c.o.PunchZeros) && s.ZeroBytes != 0 {
		t.Fatalf("stats %+v with options %+v", s, c.o)
	}
	if !toStream && c.o.PunchZeros && c.o.ChunkSize%4096 == 0 {
		if blocks := zeroBlocks(c.want); s.ZeroBytes < blocks {
			t.Fatalf("%d bytes of zeros became holes; there are %d in whole blocks", s.ZeroBytes, blocks)
		}
	}
	for u := range (len(c.want) + c.o.Unit - 1) / max(c.o.Unit, 1) {
		if n := c.mask.seen[u].Load(); c.o.Transform != nil && n != 1 {
			t.Fatalf("unit %d was transformed %d times", u, n)
		}
	}
}

func zeroBlocks(b []byte) (n int64) {
	for ; len(b) >= 4096; b = b[4096:] {
		if bytes.Equal(b[:4096], make([]byte, 4096)) {
			n += 4096
		}
	}
	return n
}

// Holes of the source must not be read, and must reach the transform as zeros.
func TestCopySourceHoles(t *testing.T) {
	src := device.NewMemory(8<<20, 512)
	write(t, src, bytes.Repeat([]byte{7}, 100_000), 3<<20)
	var mu sync.Mutex
	read := int64(0)
	counted := &countingDevice{Memory: src, read: func(n int) { mu.Lock(); read += int64(n); mu.Unlock() }}
	dst := device.NewMemory(src.Size(), 512)
	m := newMask(512, src.Size())
	stats, err := device.Copy(context.Background(), device.DeviceSink(dst), device.DeviceSource(counted),
		device.CopyOptions{Size: -1, Unit: 512, Transform: m.transform, SourceHoles: true})
	if err != nil {
		t.Fatal(err)
	}
	if read > 200_000 || stats.HoleBytes < 7<<20 {
		t.Errorf("read %d bytes of a source with 100000 bytes of data; stats %+v", read, stats)
	}
	want := readAll(t, src)
	newMask(512, src.Size()).transform(want, want, 0)
	if !bytes.Equal(readAll(t, dst), want) {
		t.Error("the sink is wrong")
	}
}

type countingDevice struct {
	*device.Memory
	read func(n int)
}

func (c *countingDevice) ReadAt(p []byte, off int64) (int, error) {
	c.read(len(p))
	return c.Memory.ReadAt(p, off)
}

// A sparse file stays sparse, into a fresh file and into one full of data, and
// a file that grows gets its whole length although it ends with zeros.
func TestCopySparseFile(t *testing.T) {
	want := make([]byte, 4<<20)
	copy(want[1<<20:], bytes.Repeat([]byte{9}, 50_000))
	for name, fresh := range map[string]bool{"fresh": true, "old": false} {
		for _, size := range []int64{int64(len(want)), -1} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				dir := openDir(t, t.TempDir())
				sink, err := dir.Create("image", device.CreateOptions{Size: size, Sparse: true})
				if err != nil {
					t.Fatal(err)
				}
				defer sink.Close()
				if !fresh {
					write(t, sink, bytes.Repeat([]byte{3}, len(want)), 0)
				}
				o := device.CopyOptions{Size: -1, PunchZeros: true, Fresh: fresh}
				if _, err := device.Copy(context.Background(), device.DeviceSink(sink), device.DeviceSource(memoryOf(want)), o); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(readAll(t, sink), want) {
					t.Fatal("the sink is wrong")
				}
				if used := diskUsage(t, sink.(*device.File)); used > 200_000 {
					t.Errorf("the file takes %d bytes on disk", used)
				}
			})
		}
	}
}

// Zeros become holes in whole blocks of the sink, however chunks lie.
func TestCopyZeroBlocks(t *testing.T) {
	const chunk = 10_000
	source := make([]byte, 64<<10)
	for i := 0; i < len(source); i += 9000 {
		source[i] = 1
	}
	sink := device.NewRecord(device.NewMemory(int64(len(source)), 512))
	o := device.CopyOptions{Size: -1, ChunkSize: chunk, PunchZeros: true}
	if _, err := device.Copy(context.Background(), device.DeviceSink(sink), device.StreamSource(bytes.NewReader(source)), o); err != nil {
		t.Fatal(err)
	}
	for _, op := range sink.Log().Ops() {
		for _, edge := range []int64{op.Off, op.Off + op.Len} {
			if edge%4096 != 0 && edge%chunk != 0 && edge != int64(len(source)) {
				t.Errorf("%s: byte %d is the edge of no block or chunk", op, edge)
			}
		}
	}
	if !bytes.Equal(readAll(t, sink), source) {
		t.Error("the sink is wrong")
	}
}

func TestCopyShrinkingSource(t *testing.T) {
	for name, o := range map[string]device.CopyOptions{
		"read":  {Size: -1},
		"holes": {Size: -1, SourceHoles: true, PunchZeros: true},
	} {
		t.Run(name, func(t *testing.T) {
			src := newFile(t, t.TempDir(), 4<<20, device.FileOptions{})
			defer src.Close()
			write(t, src, bytes.Repeat([]byte{1}, 4<<20), 0)
			o.ChunkSize, o.Workers = 64<<10, 2
			o.Progress = func(done int64) {
				if done == 1<<20 {
					if err := os.Truncate(src.Name(), 2<<20); err != nil {
						t.Error(err)
					}
				}
			}
			stats, err := device.Copy(context.Background(), device.DeviceSink(device.NewMemory(4<<20, 512)), device.DeviceSource(src), o)
			if !errors.Is(err, device.ErrShortSource) || stats.Bytes > 2<<20 {
				t.Errorf("Copy: %+v, %v, want ErrShortSource", stats, err)
			}
		})
	}
}

func TestCopySizes(t *testing.T) {
	src := memoryOf(bytes.Repeat([]byte{1}, 10_000))
	run := func(src device.Source, size int64, o device.CopyOptions) (int, device.CopyStats, error) {
		var out bytes.Buffer
		o.Size = size
		stats, err := device.Copy(context.Background(), device.StreamSink(&out), src, o)
		return out.Len(), stats, err
	}
	stream := func() device.Source { return device.StreamSource(bytes.NewReader(make([]byte, 10_000))) }
	for _, size := range []int64{0, 1, 9_999, 10_000} {
		for _, s := range []device.Source{device.DeviceSource(src), stream()} {
			if n, stats, err := run(s, size, device.CopyOptions{ChunkSize: 4096}); err != nil || int64(n) != size || stats.Bytes != size {
				t.Errorf("size %d: %d bytes, %+v, %v", size, n, stats, err)
			}
		}
	}
	for _, s := range []device.Source{device.DeviceSource(src), stream()} {
		if _, _, err := run(s, 10_001, device.CopyOptions{}); !errors.Is(err, device.ErrShortSource) {
			t.Errorf("more than there is: %v, want ErrShortSource", err)
		}
	}
	if n, _, err := run(device.DeviceSource(src), -1, device.CopyOptions{Unit: 512}); n != 0 || !errors.Is(err, device.ErrPartialUnit) {
		t.Errorf("partial unit of a device: %d bytes, %v; want none and ErrPartialUnit", n, err)
	}
	small := device.DeviceSink(device.NewMemory(9_999, 512))
	if _, err := device.Copy(context.Background(), small, stream(), device.CopyOptions{Size: -1}); !errors.Is(err, device.ErrOutOfRange) {
		t.Errorf("sink too small: %v, want ErrOutOfRange", err)
	}
}

func TestCopyInPlace(t *testing.T) {
	b := bytes.Repeat([]byte{1, 2, 3}, 1<<20)
	d := memoryOf(b)
	m := newMask(1, int64(len(b)))
	if _, err := device.Copy(context.Background(), device.DeviceSink(d), device.DeviceSource(d), device.CopyOptions{Size: -1, Transform: m.transform}); err != nil {
		t.Fatal(err)
	}
	newMask(1, int64(len(b))).transform(b, b, 0)
	if !bytes.Equal(readAll(t, d), b) {
		t.Error("a copy in place is wrong")
	}
}

func TestCopyMisuse(t *testing.T) {
	for _, o := range []device.CopyOptions{{Size: -2}, {Unit: -1}, {ChunkSize: -1}, {Workers: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Copy with %+v does not panic", o)
				}
			}()
			device.Copy(context.Background(), device.StreamSink(io.Discard), device.StreamSource(bytes.NewReader(nil)), o)
		}()
	}
}

// A copy holds a few chunks, however much it moves.
func TestCopyMemory(t *testing.T) {
	src := device.DeviceSource(device.NewMemory(1<<30, 512))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stats, err := device.Copy(context.Background(), device.StreamSink(io.Discard), src, device.CopyOptions{Size: -1, SourceHoles: true})
	runtime.ReadMemStats(&after)
	if err != nil || stats.Bytes != 1<<30 {
		t.Fatalf("%+v, %v", stats, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 24<<20 {
		t.Errorf("a copy of 1 GiB allocates %d bytes", n)
	}
}
