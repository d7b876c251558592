package device

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
)

// FileOptions says how a file or block device is opened.
type FileOptions struct {
	// ReadOnly opens for reading; every write then gives ErrReadOnly.
	ReadOnly bool
	// Direct bypasses the page cache (O_DIRECT; F_NOCACHE on macOS). Requests
	// of any alignment work; those that are not whole blocks of 4096 bytes at
	// an address that is a multiple of 4096 are slower. A file system or
	// system that cannot do it gives errors.ErrUnsupported.
	Direct bool
	// Grow lets WriteAt and WriteZeroes extend a regular file past its end.
	Grow bool
	// Exclusive makes opening a block device fail with EBUSY while the system
	// uses it (mounted, part of a mapping). Linux only.
	Exclusive bool
}

// regularSector is the SectorSize of a regular file read through the page
// cache: any size would do, and this one suits every volume format.
const regularSector = 512

// File is a regular file or a block device of the system.
type File struct {
	f      *os.File // also used for everything but reading and writing
	io     fileIO   // reads and writes
	name   string
	size   atomic.Int64
	sector int
	block  bool // a block device
	o      FileOptions
	closed atomic.Bool

	flushFailed          atomic.Bool
	zeroUnit             int64       // what the system zeroes and discards, bytes
	noPunch, noZeroRange atomic.Bool // the system said so once
	noReserve            atomic.Bool
}

// fileIO reads and writes ranges that lie inside the file, or extend it. Both
// calls are complete or return an error.
type fileIO interface {
	io.ReaderAt
	io.WriterAt
	// exclude keeps writes out of a range whose contents are about to change
	// by other means, until release is called.
	exclude(off, n int64) (release func())
	Close() error
}

// OpenFile opens an existing regular file or block device. Other kinds of
// files give errors.ErrUnsupported; they are not opened, so that a named pipe
// does not block.
//
// A file that somebody else truncates keeps its Size here; reads beyond its
// new end then return io.EOF early.
func OpenFile(path string, o FileOptions) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, ioError("open", path, -1, err)
	}
	if !info.Mode().IsRegular() && !isBlockDevice(info) {
		return nil, fmt.Errorf("open %s: neither a regular file nor a block device: %w", path, errors.ErrUnsupported)
	}
	flags := os.O_RDWR
	if o.ReadOnly {
		flags = os.O_RDONLY
	}
	if o.Exclusive && isBlockDevice(info) {
		flags |= exclusiveFlag
	}
	return openFile(path, flags, o, func(flags int) (*os.File, error) {
		return os.OpenFile(path, flags, 0)
	})
}

// openFile makes a File of what open returns; open is called a second time,
// with fewer flags, where direct I/O needs a second descriptor.
func openFile(name string, flags int, o FileOptions, open func(flags int) (*os.File, error)) (_ *File, err error) {
	if o.Direct && directFlag < 0 {
		return nil, fmt.Errorf("open %s: direct I/O: %w", name, errors.ErrUnsupported)
	}
	f, err := open(flags)
	if err != nil {
		return nil, ioError("open", name, -1, err)
	}
	file := &File{f: f, name: name, o: o, io: plainIO{f}, sector: regularSector, zeroUnit: 1}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, ioError("stat", name, -1, err)
	}
	size := info.Size()
	align := 1
	if file.block = isBlockDevice(info); file.block {
		if size, file.sector, align, err = blockDevice(f); err != nil {
			return nil, ioError("size of", name, -1, err)
		}
		file.zeroUnit = int64(file.sector)
	}
	file.size.Store(size)
	if align > 1 {
		file.io = newAlignedIO(f, align)
	}
	if o.Direct {
		err = file.openDirect(info, flags&^(os.O_CREATE|os.O_EXCL), open)
	}
	return file, err
}

// openDirect puts direct I/O in the place of file.io.
func (f *File) openDirect(info fs.FileInfo, flags int, open func(flags int) (*os.File, error)) error {
	if directFlag == 0 { // a setting of the descriptor instead
		return ioError("direct I/O on", f.name, -1, setDirect(f.f))
	}
	d, err := open(flags | directFlag)
	if err != nil {
		if isInvalid(err) {
			err = errors.ErrUnsupported
		}
		return ioError("direct I/O on", f.name, -1, err)
	}
	if di, err := d.Stat(); err != nil || !os.SameFile(info, di) {
		return errors.Join(fmt.Errorf("direct I/O on %s: the file was replaced while it was opened", f.name), err, d.Close())
	}
	unit, err := directUnit(d)
	if err != nil {
		return errors.Join(ioError("direct I/O on", f.name, -1, err), d.Close())
	}
	f.io = &directIO{direct: d, cached: f.io, unit: int64(unit)}
	f.sector, f.zeroUnit = unit, int64(unit)
	return nil
}

// Name is the path that the file was opened by.
func (f *File) Name() string { return f.name }

// OSFile is the descriptor, for locks and the like; not for reading, writing
// or closing.
func (f *File) OSFile() *os.File { return f.f }

// ReadAt implements Device.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	n, end := clampRead("read "+f.name, len(p), off, f.size.Load())
	if n == 0 {
		return 0, end
	}
	got, err := f.io.ReadAt(p[:n], off)
	if got == n {
		return got, end
	}
	if err != io.EOF {
		err = ioError("read", f.name, off, err)
	}
	return got, err
}

// WriteAt implements Device.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if err := f.checkWrite("write", off, int64(len(p))); err != nil || len(p) == 0 {
		return 0, err
	}
	n, err := f.io.WriteAt(p, off)
	f.grew(off + int64(n))
	return n, ioError("write", f.name, off, err)
}

// checkWrite returns nil if [off, off+n) may be written.
func (f *File) checkWrite(op string, off, n int64) error {
	size := f.size.Load()
	if f.o.Grow && !f.block {
		size = maxOffset
	}
	switch {
	case f.closed.Load():
		return closedError(op + " " + f.name)
	case f.o.ReadOnly:
		return fmt.Errorf("%s %s: %w", op, f.name, ErrReadOnly)
	}
	return checkRange(op+" "+f.name, off, n, size)
}

// grew notes that the file reaches at least to end.
func (f *File) grew(end int64) {
	for {
		size := f.size.Load()
		if end <= size || f.size.CompareAndSwap(size, end) {
			return
		}
	}
}

// Size implements Device.
func (f *File) Size() int64 { return f.size.Load() }

// SectorSize implements Device: the logical sector of a block device, 4096 or
// more for direct I/O, else 512.
func (f *File) SectorSize() int { return f.sector }

// Flush implements Device. After a failure every later Flush fails too: the
// system reports lost pages only once.
func (f *File) Flush() error {
	if f.closed.Load() {
		return closedError("flush " + f.name)
	}
	if f.o.ReadOnly {
		return nil
	}
	if f.flushFailed.Load() {
		return fmt.Errorf("flush %s: %w", f.name, ErrFlushFailed)
	}
	if err := flushFile(f.f, f.block); err != nil {
		f.flushFailed.Store(true)
		return ioError("flush", f.name, -1, err)
	}
	return nil
}

// NextExtent implements Extenter. A block device is one extent of data.
func (f *File) NextExtent(off int64) (Extent, error) {
	size := f.size.Load()
	if err := checkRange("extent of "+f.name, off, 1, size); err != nil {
		return Extent{}, err
	}
	if f.block {
		return Extent{Off: off, Len: size - off}, nil
	}
	e, err := nextFileExtent(f.f, off, size)
	if err != nil {
		return Extent{}, ioError("find holes of", f.name, off, err)
	}
	e.Len = min(e.Len, size-off)
	return e, nil
}

// Close implements Device.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	return ioError("close", f.name, -1, f.io.Close())
}
