package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
)

// What Copy chooses. A chunk should fit into a core's share of the cache, and
// still be large beside what a call costs.
const (
	defaultChunk = 512 << 10
	maxWorkers   = 32
	defaultBytes = 16 << 20 // chunk size times workers
)

// minHole is the smallest hole, in bytes, that splits a chunk; smaller ones
// are cheaper to read.
const minHole = 64 << 10

// copier is the state of one Copy.
type copier struct {
	o   CopyOptions
	ctx context.Context
	src Source
	dst Sink
	in  *stream // of a stream source
	out *stream // of a stream sink

	turn   chan struct{} // holds a token while a worker plans; what follows belongs to it
	pos    int64         // where the next chunk starts
	size   int64         // bytes of the source; -1: not known yet
	ext    Extent        // of the source, around pos, if known
	prev   chan struct{} // closed when the chunk before the next one is in the stream
	broken error         // what kept the last chunk from being planned

	// The regular file that a sink device is in, behind the page cache, or nil.
	// The system lets only one write at a time into it. Writers spin while they
	// wait, which takes the processor from workers that have something to do.
	cached  *File
	base    int64 // where the sink begins in it
	writing sync.Mutex

	mu    sync.Mutex // for stats and progress
	stats CopyStats
	read  int64
}

// chunk is what a worker is busy with.
type chunk struct {
	off     int64
	n, pad  int // bytes of the source, bytes of padding behind them
	hole    bool
	filled  bool          // already read, from a stream
	after   chan struct{} // wait for this before writing to a stream
	written chan struct{} // close this after
}

// prepare checks and completes the options.
func (c *copier) prepare() error {
	o := &c.o
	if o.Size < -1 || o.Unit < 0 || o.ChunkSize < 0 || o.Workers < 0 {
		panic(fmt.Sprintf("device: Copy with Size %d, Unit %d, ChunkSize %d, Workers %d", o.Size, o.Unit, o.ChunkSize, o.Workers))
	}
	c.cached, c.base = cachedFile(c.dst.dev)
	o.Unit = max(o.Unit, 1)
	if o.ChunkSize == 0 {
		o.ChunkSize = defaultChunk
	}
	o.ChunkSize = int(roundUp(int64(o.ChunkSize), int64(o.Unit)))
	if o.Workers == 0 {
		o.Workers = min(runtime.GOMAXPROCS(0)+1, maxWorkers, max(2, defaultBytes/o.ChunkSize))
	}
	c.size = o.Size
	if d := c.src.dev; d != nil {
		if c.size < 0 {
			c.size = d.Size()
		} else if c.size > d.Size() {
			return fmt.Errorf("source of %d bytes instead of %d: %w", d.Size(), c.size, ErrShortSource)
		}
	}
	if c.size < 0 {
		return nil
	}
	o.Workers = int(max(1, min(int64(o.Workers), (c.size+int64(o.ChunkSize)-1)/int64(o.ChunkSize))))
	return c.checkUnit(c.size)
}

func (c *copier) checkUnit(size int64) error {
	if !c.o.Pad && size%int64(c.o.Unit) != 0 {
		return fmt.Errorf("source of %d bytes, in units of %d: %w", size, c.o.Unit, ErrPartialUnit)
	}
	return nil
}

// errEnd tells a worker that there is no further chunk.
var errEnd = errors.New("end of source")

// work is a worker: it moves chunks until there is none left.
func (c *copier) work() error {
	buf := getBuffer(c.o.ChunkSize)
	lost := false
	defer func() {
		if !lost {
			buf.wipe()
		}
	}()
	for {
		var k chunk
		var err error
		if k, lost, err = c.next(buf); err != nil {
			if err == errEnd {
				return nil
			}
			return err
		}
		if lost, err = c.move(k, buf); err != nil {
			return err
		}
	}
}

// next plans the next chunk, and reads it if the source is a stream.
func (c *copier) next(buf *buffer) (k chunk, lost bool, err error) {
	select {
	case c.turn <- struct{}{}:
	case <-c.ctx.Done():
		return k, false, context.Cause(c.ctx)
	}
	defer func() { <-c.turn }()
	if c.ctx.Err() != nil {
		return k, false, context.Cause(c.ctx)
	}
	if c.broken != nil { // the worker that found it has not cancelled the others yet
		return k, false, c.broken
	}
	if c.pos == c.size {
		return k, false, errEnd
	}
	k = chunk{off: c.pos}
	if c.in != nil {
		lost, err = c.readChunk(&k, buf)
	} else {
		err = c.planChunk(&k)
	}
	if err != nil {
		c.broken = err
		return k, lost, err
	}
	k.pad = int(roundUp(int64(k.n), int64(c.o.Unit))) - k.n
	c.pos += int64(k.n)
	if c.out != nil {
		k.after, k.written = c.prev, make(chan struct{})
		c.prev = k.written
	}
	return k, false, nil
}

// readChunk fills buf from the source stream.
func (c *copier) readChunk(k *chunk, buf *buffer) (lost bool, err error) {
	want := c.o.ChunkSize
	if c.size >= 0 {
		want = int(min(int64(want), c.size-c.pos))
	}
	k.n, lost, err = c.in.do(buf, want)
	k.filled = true
	switch {
	case err != io.EOF && err != nil:
		return lost, fmt.Errorf("read source at byte %d: %w", c.pos+int64(k.n), err)
	case k.n == want:
		return false, nil
	case c.size >= 0:
		return false, shortSource(c.pos+int64(k.n), c.size)
	}
	c.size = c.pos + int64(k.n)
	if k.n == 0 {
		return false, errEnd
	}
	return false, c.checkUnit(c.size)
}

func shortSource(got, size int64) error {
	return fmt.Errorf("source of %d bytes ended after %d: %w", size, got, ErrShortSource)
}

// planChunk chooses the next chunk of a source device: as long as it may be,
// but hole or data throughout.
func (c *copier) planChunk(k *chunk) error {
	unit := int64(c.o.Unit)
	end := min(c.pos+int64(c.o.ChunkSize), c.size)
	if c.o.SourceHoles {
		for next := c.pos; next < end; next = c.ext.Off + c.ext.Len {
			if err := c.extentAt(next); err != nil {
				return err
			}
			if !c.ext.Hole || c.ext.Len < minHole {
				continue
			}
			// Only whole units inside a hole are zeros without reading.
			from, to := roundUp(next, unit), c.ext.Off+c.ext.Len
			if to < c.size {
				to = roundDown(to, unit)
			}
			if from >= to {
				continue
			}
			if k.hole = from == c.pos; k.hole {
				end = min(end, to)
			} else {
				end = min(end, from)
			}
			break
		}
	}
	k.n = int(end - c.pos)
	return nil
}

// extentAt sets c.ext to what surrounds off, at best without asking again.
func (c *copier) extentAt(off int64) error {
	if c.ext.Off <= off && off < c.ext.Off+c.ext.Len {
		return nil
	}
	e, err := nextExtent(c.src.dev, off)
	if err != nil {
		return err
	}
	if e.Off != off || e.Len <= 0 {
		return fmt.Errorf("extent at byte %d: the device tells of %d bytes at byte %d", off, e.Len, e.Off)
	}
	c.ext = e
	return nil
}

// move takes a chunk from its place in the source to its place in the sink.
func (c *copier) move(k chunk, buf *buffer) (lost bool, err error) {
	out := buf.b[:k.n+k.pad]
	if k.hole && c.o.Transform == nil && c.o.PunchZeros && c.out == nil {
		err = c.zeros(k.off, int64(len(out)))
	} else {
		if err = c.fill(k, out); err == nil {
			lost, err = c.write(k, out, buf)
		}
	}
	if err != nil {
		return lost, err
	}
	c.count(k)
	return false, nil
}

// fill puts the transformed chunk into out.
func (c *copier) fill(k chunk, out []byte) error {
	data := out[:k.n]
	switch {
	case k.hole:
		clear(data)
	case !k.filled:
		n, err := readFullAt(c.ctx, c.src.dev, data, k.off)
		if err == io.EOF {
			err = shortSource(k.off+int64(n), c.size)
		}
		if err != nil {
			return err
		}
	}
	clear(out[k.n:])
	if c.o.Transform == nil {
		return nil
	}
	return c.o.Transform(out, out, k.off)
}

// count notes that the chunk is done.
func (c *copier) count(k chunk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Bytes += int64(k.n + k.pad)
	c.stats.PadBytes += int64(k.pad)
	if k.hole {
		c.stats.HoleBytes += int64(k.n)
	}
	c.read += int64(k.n)
	if c.o.Progress != nil {
		c.o.Progress(c.read)
	}
}
