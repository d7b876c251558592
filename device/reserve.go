package device

import "errors"

// minReserve is the smallest write, in bytes, whose space is worth a call.
const minReserve = 64 << 10

// reserve gives a range of a sparse regular file its blocks before it is
// written through the page cache: a file system then finds room for it as one,
// instead of counting page by page on what it will need. Contents and size
// stay. Where it cannot be done, or does not help, nothing happens; the error
// is that there is no space.
func (f *File) reserve(off, n int64) error {
	if f.noReserve.Load() {
		return nil
	}
	err := reserveRange(f.f, off, n)
	if errors.Is(err, errors.ErrUnsupported) {
		f.noReserve.Store(true)
		return nil
	}
	return ioError("reserve space in", f.name, off, err)
}
