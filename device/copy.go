package device

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
)

// The pipeline. Each worker takes the next chunk of the source, fills its
// buffer with it, transforms it there and writes it, so that a chunk stays in
// the cache of one processor from reading to writing, and the reading of one
// chunk overlaps the transformation and writing of others.
//
//	plan        one worker at a time: where the next chunk lies, data or hole;
//	            a stream is also read here, for it has an order
//	fill        in parallel, from a device
//	transform   in parallel
//	write       in parallel, to a device, but one at a time where the system
//	            would make them wait anyway; to a stream in the order of the
//	            chunks, each waiting for the one before it
//
// Nothing is queued: a slow sink keeps the workers busy, and the source waits.

// Transform turns the bytes src, which lie off bytes after the start of the
// copy, into dst of the same length. dst and src are the same slice or
// disjoint, and src must not be changed in the latter case. Lengths and
// offsets are whole units of CopyOptions.Unit. It is called from several
// goroutines at once, in no order, and exactly once for every unit.
type Transform func(dst, src []byte, off int64) error

// CopyOptions says what Copy does on the way. The zero value copies the whole
// source unchanged.
type CopyOptions struct {
	// Size is how many bytes to copy; a source that ends earlier gives
	// ErrShortSource. -1 means all: a device's size when the copy begins, or
	// a stream up to its end. 0 copies nothing.
	Size int64
	// Unit is the length, in bytes, of which the copy must be a multiple, or
	// ErrPartialUnit; 0 means 1. With Pad the last unit is filled with zeros,
	// before Transform, instead.
	Unit int
	Pad  bool
	// ChunkSize (bytes, rounded up to a multiple of Unit) is how much a worker
	// reads, transforms and writes at a time, Workers how many workers there
	// are. 0 chooses. The copy holds ChunkSize*Workers bytes of data.
	ChunkSize, Workers int
	// Transform is applied to every chunk; nil copies.
	Transform Transform
	// SourceHoles lets holes of the source be taken for zeros without being
	// read. Right when encrypting; wrong when decrypting, since a hole of
	// ciphertext does not stand for zeros of plaintext.
	SourceHoles bool
	// PunchZeros turns zeros, after Transform, into holes of a device sink, in
	// blocks of 4096 bytes; Fresh says that the sink reads as zeros already,
	// so that zeros need no writing at all. A stream gets all bytes.
	PunchZeros bool
	Fresh      bool
	// Progress is called with the number of bytes done, from one goroutine at
	// a time; the number never falls. It delays the copy while it runs.
	Progress func(done int64)
}

// CopyStats counts what a copy did, in bytes.
type CopyStats struct {
	Bytes     int64 // delivered to the sink, padding included
	PadBytes  int64 // of these, padding
	HoleBytes int64 // holes of the source that were not read
	ZeroBytes int64 // zeros that became holes of the sink
}

// Source is where a copy reads.
type Source struct {
	dev    Device
	stream io.Reader
}

// Sink is where a copy writes.
type Sink struct {
	dev    Device
	stream io.Writer
}

// DeviceSource reads d from offset 0, by several workers at once; use
// NewSection to start elsewhere.
func DeviceSource(d Device) Source { return Source{dev: d} }

// StreamSource reads r in order, by one goroutine.
//
// A Read that blocks is interrupted when the copy ends early if r has a
// SetReadDeadline that works, as pipes and sockets opened by this process
// have. Otherwise Copy does not wait for it: that one goroutine ends when
// Read returns, and what it read is lost.
func StreamSource(r io.Reader) Source { return Source{stream: r} }

// DeviceSink writes d from offset 0, in any order.
func DeviceSink(d Device) Sink { return Sink{dev: d} }

// StreamSink writes w in order, by one goroutine. What StreamSource says of a
// Read that blocks holds for Write and SetWriteDeadline.
func StreamSink(w io.Writer) Sink { return Sink{stream: w} }

// Copy moves the bytes of src to dst. It does not flush.
//
// The first error ends the copy and is returned, with the sink left as far as
// it got; the end of ctx does so too, with its cause. No goroutine is left
// behind (but see StreamSource). The data held in memory is cleared.
//
// Copying a device to itself works in place, since every chunk is read and
// written at one offset by one worker. Copy panics if an option is negative,
// other than Size -1.
func Copy(ctx context.Context, dst Sink, src Source, o CopyOptions) (CopyStats, error) {
	c := &copier{o: o, src: src, dst: dst, turn: make(chan struct{}, 1)}
	if err := c.prepare(); err != nil {
		return CopyStats{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.ctx = ctx
	if src.stream != nil {
		c.in = readStream(ctx, src.stream)
	}
	if dst.stream != nil {
		c.out = writeStream(ctx, dst.stream)
	}
	var workers sync.WaitGroup
	var failed atomic.Bool
	for range c.o.Workers {
		workers.Go(func() {
			if err := c.work(); err != nil {
				failed.Store(true)
				cancel(err) // the first cause is kept
			}
		})
	}
	workers.Wait()
	c.in.close()
	c.out.close()
	if failed.Load() {
		return c.stats, context.Cause(ctx)
	}
	return c.stats, c.finish()
}
