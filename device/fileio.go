package device

import (
	"errors"
	"os"
	"unsafe"
)

// plainIO leaves everything to the system, which takes any range. (Package os
// repeats interrupted and short calls.)
type plainIO struct{ *os.File }

func (plainIO) exclude(off, n int64) func() { return func() {} }

// alignedIO serves any range of a device that takes whole sectors only, as
// the disks of FreeBSD and the raw disks of macOS.
type alignedIO struct {
	*os.File
	blocks blockIO
}

func newAlignedIO(f *os.File, sector int) *alignedIO {
	a := &alignedIO{File: f}
	a.blocks = blockIO{block: int64(sector), store: a}
	return a
}

func (a *alignedIO) readBlocks(p []byte, off int64) (int, error) { return a.File.ReadAt(p, off) }

func (a *alignedIO) writeBlocks(p []byte, off int64, _ bool) error {
	_, err := a.File.WriteAt(p, off)
	return err
}

// ReadAt implements fileIO.
func (a *alignedIO) ReadAt(p []byte, off int64) (int, error) { return a.blocks.read(p, off) }

// WriteAt implements fileIO.
func (a *alignedIO) WriteAt(p []byte, off int64) (int, error) {
	if err := a.blocks.write(p, off, int64(len(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (a *alignedIO) exclude(off, n int64) func() {
	r := a.blocks.lock(off, n, true)
	return func() { a.blocks.locks.unlock(r) }
}

// directIO reads and writes whole units of a range past the page cache, and
// what is left at the edges through it.
//
// The system keeps the two coherent as long as nobody uses the cache of a
// page while it is written directly. So a unit is no smaller than a page, and
// units are locked while they are read (shared) or written (exclusively).
type directIO struct {
	direct *os.File
	cached fileIO
	unit   int64
	locks  rangeLock
}

// directChunk is the size of the aligned buffer through which whole units go
// when the caller's memory is not aligned.
const directChunk = 1 << 20

// ReadAt implements fileIO.
func (d *directIO) ReadAt(p []byte, off int64) (int, error) {
	defer d.locks.unlock(d.lock(off, int64(len(p)), false))
	return d.split(p, off, d.cached.ReadAt, d.readUnits)
}

// WriteAt implements fileIO.
func (d *directIO) WriteAt(p []byte, off int64) (int, error) {
	defer d.locks.unlock(d.lock(off, int64(len(p)), true))
	return d.split(p, off, d.cached.WriteAt, d.writeUnits)
}

func (d *directIO) lock(off, n int64, exclusive bool) *lockedRange {
	return d.locks.lock(off/d.unit, roundUp(off+n, d.unit)/d.unit, exclusive)
}

func (d *directIO) exclude(off, n int64) func() {
	r := d.lock(off, n, true)
	return func() { d.locks.unlock(r) }
}

// split hands the partial unit at the head of p, the whole units and the
// partial unit at the tail to edge, units and edge.
func (d *directIO) split(p []byte, off int64, edge, units func([]byte, int64) (int, error)) (done int, err error) {
	n := int64(len(p))
	first := min(roundUp(off, d.unit)-off, n)
	last := max(roundDown(off+n, d.unit)-off, first)
	for _, part := range []struct {
		from, to int64
		call     func([]byte, int64) (int, error)
	}{{0, first, edge}, {first, last, units}, {last, n, edge}} {
		if part.from == part.to {
			continue
		}
		got, err := part.call(p[part.from:part.to], off+part.from)
		done += got
		if int64(got) < part.to-part.from {
			return done, err
		}
	}
	return done, nil
}

// readUnits reads whole units, through a buffer if p is not aligned.
func (d *directIO) readUnits(p []byte, off int64) (int, error) {
	if aligned(p) {
		return d.direct.ReadAt(p, off)
	}
	buf := getBuffer(min(len(p), directChunk))
	defer buf.wipe()
	for done := 0; done < len(p); {
		want := min(len(p)-done, len(buf.b))
		n, err := d.direct.ReadAt(buf.b[:want], off+int64(done))
		done += copy(p[done:], buf.b[:n])
		if n < want {
			return done, err
		}
	}
	return len(p), nil
}

// writeUnits writes whole units, through a buffer if p is not aligned.
func (d *directIO) writeUnits(p []byte, off int64) (int, error) {
	if aligned(p) {
		return d.direct.WriteAt(p, off)
	}
	buf := getBuffer(min(len(p), directChunk))
	defer buf.wipe()
	for done := 0; done < len(p); {
		n, err := d.direct.WriteAt(buf.b[:copy(buf.b, p[done:])], off+int64(done))
		done += n
		if err != nil {
			return done, err
		}
	}
	return len(p), nil
}

// Close implements fileIO.
func (d *directIO) Close() error { return errors.Join(d.direct.Close(), d.cached.Close()) }

// aligned reports whether p begins where direct I/O can take it.
func aligned(p []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(p)))%bufferAlign == 0
}
