package device

import (
	"errors"
	"io"
)

// concat is several devices behind each other.
type concat struct {
	parts  []Device
	starts []int64 // of each part, and the end of all
}

// NewConcat returns the devices behind each other, in order, as one. A device
// that changes its size afterwards gives ErrOutOfRange or io.EOF where the
// parts do not meet. Closing it closes all of them.
func NewConcat(parts ...Device) Device {
	c := &concat{parts: parts}
	at := int64(0)
	for _, d := range parts {
		c.starts = append(c.starts, at)
		at += d.Size()
	}
	c.starts = append(c.starts, at)
	return c
}

// each calls f for the pieces of n bytes from off, as far as they go: the part
// they lie in, where in it, and which of the n bytes they are.
func (c *concat) each(off, n int64, f func(d Device, at, from, to int64) error) error {
	end := off + n
	for i, d := range c.parts {
		from, to := max(off, c.starts[i]), min(end, c.starts[i+1])
		if from >= to {
			continue
		}
		if err := f(d, from-c.starts[i], from-off, to-off); err != nil {
			return err
		}
	}
	return nil
}

// ReadAt implements Device.
func (c *concat) ReadAt(p []byte, off int64) (int, error) {
	n, err := clampRead("read", len(p), off, c.Size())
	if n == 0 {
		return 0, err
	}
	done := 0
	readErr := c.each(off, int64(n), func(d Device, at, from, to int64) error {
		got, err := d.ReadAt(p[from:to], at)
		done += got
		if int64(got) == to-from && errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	})
	if readErr != nil {
		return done, readErr
	}
	return done, err
}

// WriteAt implements Device.
func (c *concat) WriteAt(p []byte, off int64) (int, error) {
	if err := checkRange("write", off, int64(len(p)), c.Size()); err != nil {
		return 0, err
	}
	done := 0
	err := c.each(off, int64(len(p)), func(d Device, at, from, to int64) error {
		n, err := d.WriteAt(p[from:to], at)
		done += n
		return err
	})
	return done, err
}

// Size implements Device.
func (c *concat) Size() int64 { return c.starts[len(c.parts)] }

// SectorSize implements Device: the largest of the parts', smaller where a
// part does not begin at such a sector.
func (c *concat) SectorSize() int {
	size := 1
	for _, d := range c.parts {
		size = max(size, d.SectorSize())
	}
	for _, at := range c.starts[:len(c.parts)] {
		for size > 1 && at%int64(size) != 0 {
			size /= 2
		}
	}
	return size
}

// Flush implements Device.
func (c *concat) Flush() error {
	for _, d := range c.parts {
		if err := d.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Discard implements Device.
func (c *concat) Discard(off, n int64) error {
	if err := checkRange("discard", off, n, c.Size()); err != nil {
		return err
	}
	return c.each(off, n, func(d Device, at, from, to int64) error { return d.Discard(at, to-from) })
}

// WriteZeroes implements Device.
func (c *concat) WriteZeroes(off, n int64) error {
	if err := checkRange("zero", off, n, c.Size()); err != nil {
		return err
	}
	return c.each(off, n, func(d Device, at, from, to int64) error { return d.WriteZeroes(at, to-from) })
}

// NextExtent implements Extenter as far as the parts do. An extent ends where
// its part does.
func (c *concat) NextExtent(off int64) (e Extent, err error) {
	if err := checkRange("extent", off, 1, c.Size()); err != nil {
		return Extent{}, err
	}
	err = c.each(off, 1, func(d Device, at, _, _ int64) error {
		e, err = nextExtent(d, at)
		e.Off += off - at
		return err
	})
	return e, err
}

// Close implements Device.
func (c *concat) Close() error {
	var errs []error
	for _, d := range c.parts {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
