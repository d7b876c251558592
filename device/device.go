// Package device gives files, block devices, memory and views of them one
// shape, a Device of bytes at offsets, and moves data between them.
//
//   - File, Memory, Section: where bytes lie.
//   - Crypt: the view that encrypts on writing and decrypts on reading.
//   - Copy: read, transform and write overlapped, from and to devices or streams.
//   - Output, Dir: a new file that appears complete and durable, or not at all.
//   - Record, RecordDir: a log of writes and flushes, for tests of crashes.
//
// The package moves bytes; it knows no volume format and makes no promise
// about their authenticity. Package device/devicetest holds the conformance
// suite that every Device passes.
package device

import "io"

// Device is storage of a fixed size, addressed in bytes.
//
// Units and alignment: every offset and length is in bytes. Any range inside
// [0, Size) is served, aligned or not; ranges of whole sectors need no read
// before a write and are fastest. Size need not be a multiple of SectorSize.
//
// Concurrency: all methods may be called from several goroutines at once,
// except that Close must not overlap other calls. Writes to ranges that do
// not overlap never disturb each other, even inside one sector. Of writes to
// the same bytes at the same time each byte keeps what one of them wrote; a
// read meanwhile sees old or new bytes, in any mixture.
//
// Errors: a range that starts below zero or reaches past the end gives
// ErrOutOfRange and changes nothing (reads at the end follow io.ReaderAt
// instead). Writing a device opened for reading gives ErrReadOnly, a full
// file system ErrNoSpace, use after Close an error that is os.ErrClosed.
// After any other error the range written may hold old bytes, new bytes or
// a mixture.
//
// Aliasing: buffers are not kept after a call returns, and WriteAt does not
// change its buffer, not even for a moment.
type Device interface {
	// ReadAt fills p from off. As io.ReaderAt says, a read that reaches the
	// end returns the bytes before it and io.EOF; a full read up to exactly
	// the end may return nil or io.EOF.
	io.ReaderAt
	// WriteAt writes all of p at off or returns an error. It never extends
	// the device (but see FileOptions.Grow).
	io.WriterAt
	// Size is the number of bytes of the device. It costs no system call.
	Size() int64
	// SectorSize is the granularity, in bytes, at which a write needs no read
	// before it.
	SectorSize() int
	// Flush returns nil only when every write that had returned before Flush
	// was called is durable. Once it has failed it may keep failing: data may
	// have been lost that no later flush brings back.
	Flush() error
	// Discard tells that the n bytes from off are no longer needed; what they
	// read as afterwards is undefined. It is a hint: a device that cannot
	// discard, or not in these units, does nothing and returns nil.
	Discard(off, n int64) error
	// WriteZeroes makes the n bytes from off read as zeros, which may be
	// cheaper than writing them and may release the space they took.
	WriteZeroes(off, n int64) error
	// Close releases the device and those below it. It does not flush. A
	// second Close does nothing and returns nil.
	Close() error
}

// Extent is a range of a device that is data throughout or a hole throughout.
type Extent struct {
	Off, Len int64 // bytes
	Hole     bool  // never written or released: it reads as zeros
}

// Extenter is implemented by devices that know where their holes are.
type Extenter interface {
	// NextExtent returns the extent that starts at off and reaches as far as
	// is known; off lies in [0, Size), and the extent ends at Size at most.
	// Where holes cannot be told, the rest of the device is one extent of
	// data. A range may turn from hole to data at any time if somebody writes.
	NextExtent(off int64) (Extent, error)
}
