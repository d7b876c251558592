package device

import "fmt"

// section is a window of a device.
type section struct {
	d      Device
	off, n int64 // n < 0: to the end of d, wherever that is
}

// NewSection returns the n bytes of d from off as a device; offset 0 of it is
// off of d. With n = -1 it reaches to the end of d and grows with it. A range
// that d does not have gives ErrOutOfRange when it is used. NewSection panics
// if off is negative or n is below -1. Closing a section closes d.
func NewSection(d Device, off, n int64) Device {
	if off < 0 || n < -1 || n > 0 && off > maxOffset-n {
		panic(fmt.Sprintf("device: NewSection of %d bytes at byte %d", n, off))
	}
	if s, ok := d.(*section); ok && s.n < 0 { // a window of an open window: one step less for each request
		return &section{s.d, s.off + off, n}
	}
	return &section{d, off, n}
}

// maxOffset is the largest offset that a file can have.
const maxOffset = 1<<63 - 1

// ReadAt implements Device.
func (s *section) ReadAt(p []byte, off int64) (int, error) {
	n, err := clampRead("read section", len(p), off, s.Size())
	if n == 0 {
		return 0, err
	}
	got, readErr := s.d.ReadAt(p[:n], s.off+off)
	if got < n {
		return got, readErr
	}
	return got, err
}

// WriteAt implements Device.
func (s *section) WriteAt(p []byte, off int64) (int, error) {
	if err := s.check("write section", off, int64(len(p))); err != nil {
		return 0, err
	}
	return s.d.WriteAt(p, s.off+off)
}

// check leaves the end of an open window to the device below, which may grow.
func (s *section) check(op string, off, n int64) error {
	size := s.n
	if size < 0 {
		size = maxOffset - s.off
	}
	return checkRange(op, off, n, size)
}

// Size implements Device.
func (s *section) Size() int64 {
	rest := max(0, s.d.Size()-s.off)
	if s.n < 0 {
		return rest
	}
	return s.n
}

// SectorSize implements Device: it is smaller than that of the device below
// where the section does not begin at a sector.
func (s *section) SectorSize() int {
	size := s.d.SectorSize()
	for size > 1 && s.off%int64(size) != 0 {
		size /= 2
	}
	return size
}

// Flush implements Device.
func (s *section) Flush() error { return s.d.Flush() }

// Discard implements Device.
func (s *section) Discard(off, n int64) error {
	if err := s.check("discard section", off, n); err != nil {
		return err
	}
	return s.d.Discard(s.off+off, n)
}

// WriteZeroes implements Device.
func (s *section) WriteZeroes(off, n int64) error {
	if err := s.check("zero section", off, n); err != nil {
		return err
	}
	return s.d.WriteZeroes(s.off+off, n)
}

// NextExtent implements Extenter as far as the device below does.
func (s *section) NextExtent(off int64) (Extent, error) {
	size := s.Size()
	if err := checkRange("extent of section", off, 1, size); err != nil {
		return Extent{}, err
	}
	e, err := nextExtent(s.d, s.off+off)
	if err != nil {
		return Extent{}, err
	}
	return Extent{Off: off, Len: min(e.Len, size-off), Hole: e.Hole}, nil
}

// Close implements Device.
func (s *section) Close() error { return s.d.Close() }

// nextExtent asks d, or takes all of it for data if it cannot tell.
func nextExtent(d Device, off int64) (Extent, error) {
	if x, ok := d.(Extenter); ok {
		return x.NextExtent(off)
	}
	if err := checkRange("extent", off, 1, d.Size()); err != nil {
		return Extent{}, err
	}
	return Extent{Off: off, Len: d.Size() - off}, nil
}
