package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Errors on which callers decide. They come wrapped: test with errors.Is.
var (
	// ErrOutOfRange tells of a request that is not inside the device.
	ErrOutOfRange = errors.New("range outside the device")
	// ErrReadOnly tells of a write to a device opened for reading.
	ErrReadOnly = errors.New("device is read-only")
	// ErrNoSpace tells that the file system, quota or medium is full.
	ErrNoSpace = errors.New("no space left")
	// ErrShortSource tells that a source ended before the size that it had,
	// or was said to have, when the copy began.
	ErrShortSource = errors.New("source ended early")
	// ErrPartialUnit tells that a source is not a whole number of units long.
	ErrPartialUnit = errors.New("source ends inside a unit")
	// ErrFlushFailed tells that a flush failed earlier, so that writes before
	// it may be lost although flushing again would report success.
	ErrFlushFailed = errors.New("an earlier flush failed")
)

// spaceError lets errors.Is find ErrNoSpace beside the system's own error.
type spaceError struct{ err error }

func (e *spaceError) Error() string        { return e.err.Error() }
func (e *spaceError) Unwrap() error        { return e.err }
func (e *spaceError) Is(target error) bool { return target == ErrNoSpace }

// ioError adds to err, from the system, what was done, where and to what. The
// paths that os errors carry are dropped: name has them already.
func ioError(op, name string, off int64, err error) error {
	if err == nil {
		return nil
	}
	switch e := err.(type) {
	case *fs.PathError:
		err = e.Err
	case *os.LinkError:
		err = e.Err
	}
	if isNoSpace(err) {
		err = &spaceError{err}
	}
	if off < 0 {
		return fmt.Errorf("%s %s: %w", op, name, err)
	}
	return fmt.Errorf("%s %s at byte %d: %w", op, name, off, err)
}

// checkRange returns nil if [off, off+n) lies inside [0, size).
func checkRange(op string, off, n, size int64) error {
	if off < 0 || n < 0 || off > size || n > size-off {
		return fmt.Errorf("%s of %d bytes at byte %d of %d: %w", op, n, off, size, ErrOutOfRange)
	}
	return nil
}

// closedError is what a device returns after Close.
func closedError(op string) error { return fmt.Errorf("%s: %w", op, os.ErrClosed) }
