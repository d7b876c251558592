package device

import (
	"context"
	"io"
	"testing"
)

// OpenAligned makes f a file that takes whole sectors only, as the disks of
// FreeBSD do.
func OpenAligned(t *testing.T, f *File, sector int) *File {
	t.Helper()
	f.io = &strictAligned{newAlignedIO(f.f, sector), t, int64(sector)}
	f.io.(*strictAligned).blocks.store = f.io.(*strictAligned)
	f.zeroUnit = int64(sector)
	return f
}

// strictAligned fails the test where the system would refuse.
type strictAligned struct {
	*alignedIO
	t      *testing.T
	sector int64
}

func (s *strictAligned) readBlocks(p []byte, off int64) (int, error) {
	s.check(p, off)
	return s.alignedIO.readBlocks(p, off)
}

func (s *strictAligned) writeBlocks(p []byte, off int64, owned bool) error {
	s.check(p, off)
	return s.alignedIO.writeBlocks(p, off, owned)
}

func (s *strictAligned) check(p []byte, off int64) {
	if off%s.sector != 0 || int64(len(p))%s.sector != 0 {
		s.t.Errorf("access to %d bytes at %d, in sectors of %d", len(p), off, s.sector)
	}
}

// RenameByLink is the way of a Dir from OSDir to rename without replacing
// where the system has no call for it.
func RenameByLink(d Dir, oldName, newName string) error {
	return d.(*osDir).renameByLink(oldName, newName)
}

// BreakFlush makes the next flush of f fail.
func BreakFlush(f *File) { f.f.Close() }

// PooledBytes takes all buffers for n bytes out of their pool and returns
// what they hold.
func PooledBytes(n int) (held []byte) {
	for range 64 {
		b := getBuffer(n)
		held = append(held, b.b[:cap(b.b)]...)
	}
	return held
}

// RangeLock is rangeLock.
type RangeLock struct{ l rangeLock }

// Lock locks [from, to) and returns what unlocks it.
func (r *RangeLock) Lock(from, to int64, exclusive bool) (unlock func()) {
	h := r.l.lock(from, to, exclusive)
	return func() { r.l.unlock(h) }
}

// Len is how many requests hold the lock or wait for it.
func (r *RangeLock) Len() (n int) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	for h := r.l.first; h != nil; h = h.next {
		n++
	}
	return n
}

// PlanPastError asks for chunks of r until there is an error, and once more.
func PlanPastError(r io.Reader, o CopyOptions) (first, second error) {
	ctx := context.Background()
	c := &copier{o: o, src: StreamSource(r), ctx: ctx, turn: make(chan struct{}, 1), in: readStream(ctx, r)}
	defer c.in.close()
	if err := c.prepare(); err != nil {
		return err, err
	}
	buf := getBuffer(c.o.ChunkSize)
	for first == nil {
		_, _, first = c.next(buf)
	}
	_, _, second = c.next(buf)
	return first, second
}

// AbandonRead cancels a read of n bytes once it has begun, and returns what
// the buffer holds after release has let the call, and so the stream, end.
func AbandonRead(r io.Reader, n int, begun <-chan struct{}, release func()) []byte {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-begun; cancel() }()
	s := readStream(ctx, r)
	buf := getBuffer(n)
	if _, lost, _ := s.do(buf, n); !lost {
		panic("the stream did not abandon the call")
	}
	release()
	s.close()
	<-s.ended
	return buf.b
}

// WithoutZeroing makes f one whose system cannot punch holes or, besides, zero
// ranges.
func WithoutZeroing(f *File, zeroRange bool) *File {
	f.noPunch.Store(true)
	f.noZeroRange.Store(zeroRange)
	return f
}

// Reserve is what a copy into a new sparse file does before it writes.
func Reserve(d Device, off, n int64) error {
	f, base := cachedFile(d)
	if f == nil {
		return nil
	}
	return f.reserve(base+off, n)
}
