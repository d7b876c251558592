package device

import "errors"

// WriteZeroes implements Device: by a hole, else by a range that the file
// system or disk knows to be zero, else by writing zeros.
func (f *File) WriteZeroes(off, n int64) error {
	if err := f.checkWrite("zero", off, n); err != nil || n == 0 {
		return err
	}
	end, size := off+n, f.size.Load()
	if off < size {
		if err := f.zero(off, min(end, size)); err != nil {
			return ioError("zero", f.name, off, err)
		}
	}
	if end > size { // a hole already; a write, unlike truncating, never makes a file shorter
		if err := f.writeZeros(end-1, end); err != nil {
			return ioError("zero", f.name, end-1, err)
		}
		f.grew(end)
	}
	return nil
}

// zero makes [off, end), inside the file, zero: whole units at once and the
// edges by writing.
func (f *File) zero(off, end int64) error {
	start, stop := roundUp(off, f.zeroUnit), roundDown(end, f.zeroUnit)
	if start >= stop {
		return f.writeZeros(off, end)
	}
	err := f.zeroUnits(start, stop)
	if errors.Is(err, errors.ErrUnsupported) {
		return f.writeZeros(off, end)
	}
	if err != nil {
		return err
	}
	if err := f.writeZeros(off, start); err != nil {
		return err
	}
	return f.writeZeros(stop, end)
}

// zeroUnits tries the ways that the system may have, and remembers which it
// has not.
func (f *File) zeroUnits(off, end int64) error {
	defer f.io.exclude(off, end-off)()
	err := errors.ErrUnsupported
	if !f.noPunch.Load() {
		err = punchHole(f.f, off, end-off)
		f.noPunch.Store(errors.Is(err, errors.ErrUnsupported))
	}
	if errors.Is(err, errors.ErrUnsupported) && !f.noZeroRange.Load() {
		err = zeroRange(f.f, off, end-off)
		f.noZeroRange.Store(errors.Is(err, errors.ErrUnsupported))
	}
	return err
}

// writeZeros writes zeros to [off, end).
func (f *File) writeZeros(off, end int64) error {
	if off >= end {
		return nil
	}
	buf := getBuffer(int(min(end-off, blockChunk)))
	defer buf.put()
	clear(buf.b)
	for off < end {
		n, err := f.io.WriteAt(buf.b[:min(end-off, int64(len(buf.b)))], off)
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// Discard implements Device: a hole in a regular file, a TRIM of whole sectors
// of a disk.
func (f *File) Discard(off, n int64) error {
	if err := f.checkWrite("discard", off, n); err != nil {
		return err
	}
	discard := punchHole
	if f.block {
		discard = discardSectors
	}
	start, stop := roundUp(off, f.zeroUnit), roundDown(min(off+n, f.size.Load()), f.zeroUnit)
	if start >= stop {
		return nil
	}
	defer f.io.exclude(start, stop-start)()
	err := discard(f.f, start, stop-start)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return ioError("discard", f.name, off, err)
}
