package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/lock"
)

// source is what a job reads: a device, or bytes in order.
type source struct {
	path    string
	state   fileState
	dev     device.Device // nil: a stream
	stream  io.ReadCloser
	size    int64  // bytes; -1: a stream, not known
	release func() // of the mark that it is being read
}

// openSource opens path for reading. What makes the copy doubtful, but does
// not keep from it, becomes a warning.
func (r *run) openSource(ctx context.Context, path string, stdin io.Reader, direct bool) (*source, error) {
	if path == stdStream {
		if stdin == nil {
			return nil, fmt.Errorf("%w: the source is standard input and there is none", ErrOptions)
		}
		return &source{path: "standard input", stream: nopCloser{stdin}, size: -1}, nil
	}
	st, err := r.state(path)
	if err != nil {
		return nil, err
	}
	switch st.kind {
	case missing:
		return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
	case stream:
		f, err := openStream(ctx, path, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		return &source{path: path, stream: f, size: -1, state: st}, nil
	}
	s := &source{path: path, state: st}
	if s.release, err = r.markRead(path); err != nil {
		return nil, err
	}
	if s.dev, err = r.open(path, device.FileOptions{ReadOnly: true, Direct: direct}); err != nil {
		s.release()
		return nil, err
	}
	s.size = s.dev.Size()
	return s, nil
}

// markRead tells others that path is being read, and warns if somebody writes
// to it already.
func (r *run) markRead(path string) (release func(), err error) {
	if err := r.checkRead(path); errors.Is(err, lock.ErrInUse) {
		r.warnf("%v; what is read may mix states of different moments", err)
	} else if err != nil {
		return nil, err
	}
	release, err = r.hold(path, false)
	if errors.Is(err, lock.ErrInUse) {
		return func() {}, nil // the warning has been given
	}
	return release, err
}

func (s *source) close() {
	if s.dev != nil {
		s.dev.Close()
	}
	if s.stream != nil {
		s.stream.Close()
	}
	if s.release != nil {
		s.release()
	}
}

// checkUnchanged looks again at a regular file after it was read. A file that
// is being written to can change without this showing; lock.CheckRead and the
// mark on it are for those who take part.
func (r *run) checkUnchanged(s *source) error {
	if s.state.kind != regular {
		return nil
	}
	now, err := r.state(s.path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSourceChanged, err)
	}
	if now.kind != regular || now.size != s.state.size {
		return fmt.Errorf("%s: %w: %d bytes at the beginning, %d at the end", s.path, ErrSourceChanged, s.state.size, now.size)
	}
	if !now.changed.Equal(s.state.changed) {
		r.warnf("%s was written to while it was read; the copy may mix states of different moments", s.path)
	}
	return nil
}

// warnHoles warns if the n bytes of ciphertext of p have holes. They read as
// zeros, which no encryption made: what comes out for them is noise.
func (r *run) warnHoles(s *source, p *payload, n int64) {
	dev, ok := s.dev.(device.Extenter)
	if !ok {
		return
	}
	holes := int64(0)
	if p.parts == nil {
		holes = holesIn(dev, p.offset, n)
	}
	for _, one := range p.parts {
		if one.cipher != nil {
			holes += holesIn(dev, one.offset, one.sizeIn(n))
		}
	}
	if holes > 0 {
		r.warnf("%s has holes: %d bytes of it were never written, and decrypt to noise, not to zeros", s.path, holes)
	}
}

// holesIn counts the bytes of holes among the n from off.
func holesIn(dev device.Extenter, off, n int64) (holes int64) {
	for end := off + n; off < end; {
		e, err := dev.NextExtent(off)
		if err != nil || e.Len <= 0 {
			return holes // the copy will meet what is wrong, and say it
		}
		e.Len = min(e.Len, end-off)
		if e.Hole {
			holes += e.Len
		}
		off += e.Len
	}
	return holes
}

// copied turns the errors of device.Copy about its source into this package's.
// read is how much was read of a stream.
func (s *source) copied(err error, read int64, sectorSize int) error {
	switch {
	case errors.Is(err, device.ErrShortSource):
		return fmt.Errorf("%s: %w: %w", s.path, ErrSourceChanged, err)
	case errors.Is(err, device.ErrPartialUnit):
		return checkMultiple(s.path, read, sectorSize)
	}
	return err
}
