package device

import (
	"errors"
	"fmt"
	"io"
)

// Patch replaces a range of a device by what Read gives.
type Patch struct {
	Off, Len int64 // bytes of the device; Len is a multiple of Unit
	Unit     int   // bytes: Read is called for whole units
	// Read fills p, whole units, from byte off of the patch on. It may be called
	// from several goroutines at once, and may read the device below.
	Read func(p []byte, off int64) error
}

// overlay is a device with patches, read-only.
type overlay struct {
	d       Device
	patches []Patch
}

// NewOverlay returns d as it would be with patches applied, which may be
// changes that are too large to keep or not all known beforehand: they are made
// when they are read, and nothing is kept or written. It can only be read;
// writes give ErrReadOnly. What of a patch lies behind the end of d is left
// out. Closing it closes d.
//
// NewOverlay panics if the patches are not in order and apart, or have ranges
// or units that make no sense.
func NewOverlay(d Device, patches ...Patch) Device {
	end := int64(0)
	for _, p := range patches {
		if p.Unit <= 0 || p.Off < end || p.Len < 0 || p.Len%int64(p.Unit) != 0 || p.Len > maxOffset-p.Off {
			panic(fmt.Sprintf("device: NewOverlay with a patch of %d bytes at byte %d in units of %d", p.Len, p.Off, p.Unit))
		}
		end = p.Off + p.Len
	}
	return &overlay{d, patches}
}

// piece returns where the piece ends that off lies in, and its patch; nil if
// that is the device itself.
func (v *overlay) piece(off int64) (end int64, patch *Patch) {
	for i := range v.patches {
		p := &v.patches[i]
		if off < p.Off {
			return p.Off, nil
		}
		if off < p.Off+p.Len {
			return p.Off + p.Len, p
		}
	}
	return maxOffset, nil
}

// ReadAt implements Device.
func (v *overlay) ReadAt(p []byte, off int64) (int, error) {
	n, end := clampRead("read overlay", len(p), off, v.d.Size())
	if n == 0 {
		return 0, end
	}
	for done := 0; done < n; {
		at := off + int64(done)
		stop, patch := v.piece(at)
		part := p[done:min(int64(n), stop-off)]
		got, err := 0, error(nil)
		if patch == nil {
			got, err = v.d.ReadAt(part, at)
			if got == len(part) && errors.Is(err, io.EOF) {
				err = nil
			}
		} else if err = patch.read(part, at-patch.Off); err == nil {
			got = len(part)
		}
		done += got
		if err != nil {
			return done, err
		}
		if got < len(part) {
			return done, io.ErrNoProgress
		}
	}
	return n, end
}

// read fills p from byte off of the patch, which may be inside units.
func (x *Patch) read(p []byte, off int64) error {
	unit := int64(x.Unit)
	for len(p) > 0 {
		if skip := off % unit; skip != 0 || int64(len(p)) < unit {
			n, err := x.readPart(p, off-skip, skip)
			if err != nil {
				return err
			}
			p, off = p[n:], off+int64(n)
			continue
		}
		n := int64(len(p)) / unit * unit
		if err := x.Read(p[:n], off); err != nil {
			return err
		}
		p, off = p[n:], off+n
	}
	return nil
}

// readPart copies what p takes of the unit at off, without its first bytes.
func (x *Patch) readPart(p []byte, off, skip int64) (int, error) {
	buf := getBuffer(x.Unit)
	defer buf.wipe()
	if err := x.Read(buf.b, off); err != nil {
		return 0, err
	}
	return copy(p, buf.b[skip:]), nil
}

// WriteAt implements Device.
func (v *overlay) WriteAt(p []byte, off int64) (int, error) {
	return 0, v.refuse("write overlay", off, int64(len(p)))
}

func (v *overlay) refuse(op string, off, n int64) error {
	if err := checkRange(op, off, n, v.d.Size()); err != nil {
		return err
	}
	return fmt.Errorf("%s at byte %d: %w", op, off, ErrReadOnly)
}

// Size implements Device.
func (v *overlay) Size() int64 { return v.d.Size() }

// SectorSize implements Device.
func (v *overlay) SectorSize() int { return v.d.SectorSize() }

// Flush implements Device.
func (v *overlay) Flush() error { return v.d.Flush() }

// Discard implements Device.
func (v *overlay) Discard(off, n int64) error { return v.refuse("discard overlay", off, n) }

// WriteZeroes implements Device.
func (v *overlay) WriteZeroes(off, n int64) error { return v.refuse("zero overlay", off, n) }

// NextExtent implements Extenter as far as the device below does. A patch is
// data.
func (v *overlay) NextExtent(off int64) (Extent, error) {
	size := v.d.Size()
	if err := checkRange("extent of overlay", off, 1, size); err != nil {
		return Extent{}, err
	}
	stop, patch := v.piece(off)
	e := Extent{Off: off, Len: size - off}
	if patch == nil {
		var err error
		if e, err = nextExtent(v.d, off); err != nil {
			return Extent{}, err
		}
	}
	e.Len = min(e.Len, stop-off)
	return e, nil
}

// Close implements Device.
func (v *overlay) Close() error { return v.d.Close() }
