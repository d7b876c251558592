package devicetest

import "github.com/xtsdisk/xtsdisk/device"

// Action is what a Call asks for.
type Action uint8

// The actions of a Device.
const (
	Read Action = iota
	Write
	Zero
	Discard
	Flush
)

// Call is a request to a Fault device.
type Call struct {
	Action Action // what is asked for
	Off    int64  // byte at which the range begins; 0 of a Flush
	N      int    // bytes; 0 of a Flush
}

// Fault is a Device that goes wrong on request.
type Fault struct {
	device.Device
	// Before decides what becomes of a call: n bytes of it are carried out,
	// and err returned. n < c.N with no error is a short call, which the
	// contract forbids and pipes and network drivers commit all the same.
	// Zeroing, discarding and flushing are carried out only if err is nil. It
	// is called from several goroutines at once.
	Before func(c Call) (n int, err error)
}

// ReadAt implements device.Device.
func (f *Fault) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.Before(Call{Read, off, len(p)})
	got, readErr := f.Device.ReadAt(p[:n], off)
	if err == nil {
		err = readErr
	}
	return got, err
}

// WriteAt implements device.Device.
func (f *Fault) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.Before(Call{Write, off, len(p)})
	got, writeErr := f.Device.WriteAt(p[:n], off)
	if err == nil {
		err = writeErr
	}
	return got, err
}

// WriteZeroes implements device.Device.
func (f *Fault) WriteZeroes(off, n int64) error {
	if _, err := f.Before(Call{Zero, off, int(n)}); err != nil {
		return err
	}
	return f.Device.WriteZeroes(off, n)
}

// Discard implements device.Device.
func (f *Fault) Discard(off, n int64) error {
	if _, err := f.Before(Call{Discard, off, int(n)}); err != nil {
		return err
	}
	return f.Device.Discard(off, n)
}

// Flush implements device.Device.
func (f *Fault) Flush() error {
	if _, err := f.Before(Call{Action: Flush}); err != nil {
		return err
	}
	return f.Device.Flush()
}
