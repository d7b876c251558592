package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// setReadDeadline lets device.Copy interrupt a read of r that blocks, where r
// can be interrupted.
func setReadDeadline(r io.Reader, t time.Time) error {
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok {
		return d.SetReadDeadline(t)
	}
	return os.ErrNoDeadline
}

// openStream opens a pipe or the like, which can block until somebody opens
// its other end. When ctx ends first, the open is left behind.
func openStream(ctx context.Context, path string, flags int) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	done := make(chan result, 1)
	go func() {
		f, err := os.OpenFile(path, flags, 0)
		done <- result{f, err}
	}()
	select {
	case got := <-done:
		return got.f, got.err
	case <-ctx.Done():
		go func() {
			if got := <-done; got.err == nil {
				got.f.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// counted counts what was read from a stream.
type counted struct {
	io.Reader
	n atomic.Int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// SetReadDeadline is as os.File's.
func (c *counted) SetReadDeadline(t time.Time) error { return setReadDeadline(c.Reader, t) }

// wholeUnits passes a stream on as far as it consists of whole units, as a
// loop device rounds down the file behind it. What is left over is counted.
type wholeUnits struct {
	r               io.Reader
	unit            int    // bytes
	buf             []byte // of several units
	pos, ready, end int    // buf[pos:ready] is to be passed on, buf[ready:end] less than a unit
	err             error
	over            int // bytes left over, once Read has returned io.EOF
}

func newWholeUnits(r io.Reader, unit int) *wholeUnits {
	return &wholeUnits{r: r, unit: unit, buf: make([]byte, 64<<10)}
}

// Read implements io.Reader.
func (w *wholeUnits) Read(p []byte) (int, error) {
	for idle := 0; w.pos == w.ready; idle++ {
		if w.err != nil {
			w.over = w.end - w.ready
			return 0, w.err
		}
		if idle == 100 {
			return 0, io.ErrNoProgress
		}
		w.end = copy(w.buf, w.buf[w.ready:w.end])
		n, err := w.r.Read(w.buf[w.end:])
		w.end, w.err = w.end+n, err
		w.pos, w.ready = 0, w.end/w.unit*w.unit
	}
	n := copy(p, w.buf[w.pos:w.ready])
	w.pos += n
	return n, nil
}

// SetReadDeadline is as os.File's.
func (w *wholeUnits) SetReadDeadline(t time.Time) error { return setReadDeadline(w.r, t) }

// maxHead bounds what is kept of a stream for its header: both copies at their
// largest and the largest keyslots area (LUKS2 specification, section 2.2, and
// cryptsetup's limits).
const maxHead = 2*4<<20 + 128<<20

// headOf makes the beginning of a stream readable at offsets, by keeping what
// it has read so far. It is not for concurrent use.
type headOf struct {
	ctx  context.Context
	r    io.Reader
	kept []byte
	err  error // of the stream, at len(kept)
}

// ReadAt implements io.ReaderAt.
func (h *headOf) ReadAt(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	if off < 0 || end > maxHead {
		return 0, fmt.Errorf("%w: byte %d of a stream is needed for its header", ErrUnsupported, end)
	}
	h.fill(end)
	n := 0
	if off < int64(len(h.kept)) {
		n = copy(p, h.kept[off:])
	}
	if n < len(p) {
		return n, h.err
	}
	return n, nil
}

func (h *headOf) fill(end int64) {
	for int64(len(h.kept)) < end && h.err == nil {
		// What has to be read at least; the header's places rise slowly.
		n := max(end-int64(len(h.kept)), 64<<10)
		buf := make([]byte, n)
		got, err := readInterruptibly(h.ctx, h.r, buf)
		h.kept = append(h.kept, buf[:got]...)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		h.err = err
	}
}

// readInterruptibly is io.ReadFull that ends when ctx does. A read that cannot
// be interrupted is left behind with its buffer.
func readInterruptibly(ctx context.Context, r io.Reader, p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := io.ReadFull(r, p)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return got.n, got.err
	case <-ctx.Done():
		if setReadDeadline(r, time.Unix(1, 0)) == nil {
			<-done
			_ = setReadDeadline(r, time.Time{})
		}
		return 0, context.Cause(ctx)
	}
}

// from returns the stream from off on. What lies between the end of what was
// kept and off is read and dropped. A stream that ends before gives
// io.ErrUnexpectedEOF.
func (h *headOf) from(off int64) (io.Reader, error) {
	if keep := int64(len(h.kept)); off < keep {
		return &joined{kept: h.kept[off:], headOf: h}, nil
	}
	buf := make([]byte, 64<<10)
	for at := int64(len(h.kept)); at < off && h.err == nil; {
		var n int
		n, h.err = readInterruptibly(h.ctx, h.r, buf[:min(int64(len(buf)), off-at)])
		at += int64(n)
		if at < off && (errors.Is(h.err, io.ErrUnexpectedEOF) || h.err == io.EOF) {
			return nil, fmt.Errorf("the stream ends at byte %d, before the data begins at byte %d: %w", at, off, io.ErrUnexpectedEOF)
		}
	}
	h.kept = nil
	if h.err != nil && h.err != io.EOF {
		return nil, h.err
	}
	return &joined{headOf: h}, nil
}

// joined is the rest of what was kept, then the stream.
type joined struct {
	kept []byte
	*headOf
}

// Read implements io.Reader.
func (j *joined) Read(p []byte) (int, error) {
	if len(j.kept) > 0 {
		n := copy(p, j.kept)
		j.kept = j.kept[n:]
		return n, nil
	}
	if j.headOf.err != nil {
		return 0, j.headOf.err
	}
	return j.r.Read(p)
}

// SetReadDeadline is as os.File's.
func (j *joined) SetReadDeadline(t time.Time) error { return setReadDeadline(j.r, t) }

// atEnd tells that a read was only cut short by the end.
func atEnd(err error) bool { return errors.Is(err, io.EOF) }
