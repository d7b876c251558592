package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"time"
)

// stream calls a reader or writer from a goroutine of its own, so that a call
// that blocks for ever does not keep a copy from ending.
type stream struct {
	ctx       context.Context
	call      func(p []byte) (int, error)
	interrupt func(time.Time) error // SetReadDeadline or SetWriteDeadline; nil: none
	requests  chan *streamCall
	ended     chan struct{} // closed when the goroutine ends
	abandoned bool          // the goroutine is left in a call
}

// streamCall is one request: fill or write buf.b[:n].
type streamCall struct {
	buf  *buffer
	n    int
	done chan struct{}
	got  int
	err  error
	// taken is set by whoever comes first, the call that ended or the worker
	// that gave up on it. The other of the two then knows what to do.
	taken atomic.Bool
}

// newStream starts the goroutine. call moves a whole buffer.
func newStream(ctx context.Context, call func([]byte) (int, error), interrupt func(time.Time) error) *stream {
	s := &stream{
		ctx:       ctx,
		call:      call,
		interrupt: interrupt,
		requests:  make(chan *streamCall),
		ended:     make(chan struct{}),
	}
	go s.serve()
	return s
}

// readStream returns a stream whose calls read r.
func readStream(ctx context.Context, r io.Reader) *stream {
	var interrupt func(time.Time) error
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok {
		interrupt = d.SetReadDeadline
	}
	return newStream(ctx, func(p []byte) (int, error) {
		return repeat(ctx, p, func(rest []byte, _ int) (int, error) { return r.Read(rest) })
	}, interrupt)
}

// writeStream returns a stream whose calls write w.
func writeStream(ctx context.Context, w io.Writer) *stream {
	var interrupt func(time.Time) error
	if d, ok := w.(interface{ SetWriteDeadline(time.Time) error }); ok {
		interrupt = d.SetWriteDeadline
	}
	return newStream(ctx, func(p []byte) (int, error) {
		return repeat(ctx, p, func(rest []byte, _ int) (int, error) { return w.Write(rest) })
	}, interrupt)
}

func (s *stream) serve() {
	defer close(s.ended)
	for r := range s.requests {
		r.got, r.err = s.call(r.buf.b[:r.n])
		if r.taken.Swap(true) {
			r.buf.wipe()
			return
		}
		close(r.done)
	}
}

// do moves the first n bytes of buf. If it reports the buffer lost, a call
// that is still blocked has it.
func (s *stream) do(buf *buffer, n int) (got int, lost bool, err error) {
	r := &streamCall{buf: buf, n: n, done: make(chan struct{})}
	select {
	case s.requests <- r:
	case <-s.ctx.Done():
		return 0, false, context.Cause(s.ctx)
	}
	select {
	case <-r.done:
		return r.got, false, r.err
	case <-s.ctx.Done():
	}
	if s.interrupt != nil && s.interrupt(time.Unix(1, 0)) == nil {
		<-r.done
		_ = s.interrupt(time.Time{})
		return r.got, false, context.Cause(s.ctx)
	}
	if r.taken.Swap(true) {
		<-r.done
		return r.got, false, context.Cause(s.ctx)
	}
	s.abandoned = true
	return 0, true, context.Cause(s.ctx)
}

// close ends the goroutine and waits for it, unless it is left in a call. It
// must not overlap do.
func (s *stream) close() {
	if s == nil {
		return
	}
	close(s.requests)
	if !s.abandoned {
		<-s.ended
	}
}

// maxIdle is how many calls in a row may do nothing, without an error, before
// that counts as one.
const maxIdle = 100

// repeat calls step with what is left of p until that is nothing. Interrupted
// and short calls are repeated.
func repeat(ctx context.Context, p []byte, step func(rest []byte, done int) (int, error)) (int, error) {
	done, idle := 0, 0
	for done < len(p) {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		n, err := step(p[done:], done)
		if n < 0 || n > len(p)-done {
			return done, fmt.Errorf("a call for %d bytes moved %d", len(p)-done, n)
		}
		done += n
		if done == len(p) {
			break // all there: a reader may say io.EOF along with the last bytes
		}
		if errors.Is(err, syscall.EINTR) {
			err = nil
		}
		if err != nil {
			return done, err
		}
		if idle++; n > 0 {
			idle = 0
		}
		if idle > maxIdle {
			return done, io.ErrNoProgress
		}
	}
	return done, nil
}

// readFullAt fills p from off, or returns io.EOF with what there was.
func readFullAt(ctx context.Context, r io.ReaderAt, p []byte, off int64) (int, error) {
	return repeat(ctx, p, func(rest []byte, done int) (int, error) { return r.ReadAt(rest, off+int64(done)) })
}

// writeFullAt writes p at off.
func writeFullAt(ctx context.Context, w io.WriterAt, p []byte, off int64) (int, error) {
	return repeat(ctx, p, func(rest []byte, done int) (int, error) { return w.WriteAt(rest, off+int64(done)) })
}
