package volume

import (
	"context"
	"errors"
	"fmt"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/luks"
)

// HeaderFile is the header of a volume, open for changing: see luks.Editor.
type HeaderFile struct {
	*luks.Editor
	file *headerStorage
}

// Close closes the file. A second Close does nothing.
func (h *HeaderFile) Close() error { return h.file.close() }

// EditHeader opens the header of the volume at path for changing, or that at
// o.Header; of the other options Inside and Warn count. Until a change is made the file is only
// read, and no lock is held. For each change the header is locked as cryptsetup
// locks it, waiting for others who have it; then the file must not be in use:
// mounted, mapped, locked, open for writing elsewhere.
//
// Errors are those of luks.Edit, ErrKind, and those of the system; of changes
// also lock.ErrInUse.
func EditHeader(ctx context.Context, path string, o OpenOptions) (*HeaderFile, error) {
	r := &run{system: host, warn: o.Warn}
	in := o.Inside
	if o.Header != "" {
		path, in = o.Header, Inside{}
	}
	return r.editHeader(ctx, path, in)
}

func (r *run) editHeader(ctx context.Context, path string, in Inside) (_ *HeaderFile, err error) {
	dev, err := r.openInside(path, in)
	if err != nil {
		return nil, err
	}
	file := &headerStorage{run: r, path: path, in: in, read: dev}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.close())
		}
	}()
	// Says what is there instead, and what is odd about it.
	if _, err := r.readHeader(ctx, path, dev, dev.Size()); err != nil {
		return nil, err
	}
	release, err := r.holdHeader(ctx, path)
	if err != nil {
		return nil, err
	}
	defer release()
	e, err := luks.Edit(ctx, file, dev.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	e.SetLock(file.lock)
	return &HeaderFile{Editor: e, file: file}, nil
}

// ReadHeader returns the header of the volume at path, or that at o.Header.
// Errors are those of Unlock.
func ReadHeader(ctx context.Context, path string, o OpenOptions) (*luks.Header, error) {
	r := &run{system: host, warn: o.Warn}
	path, d, err := r.openHeaderOf(path, o)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return r.readHeader(ctx, path, d, d.Size())
}

// headerStorage is a file that is open for writing only while its header is
// locked: who waits for the lock must not look like somebody who writes.
type headerStorage struct {
	run    *run
	path   string
	in     Inside // where in the file the header is
	read   device.Device
	write  device.Device // nil: not locked
	grow   bool          // a header in a file of its own may become longer
	closed bool
}

func (s *headerStorage) device() device.Device {
	if s.write != nil {
		return s.write
	}
	return s.read
}

// ReadAt implements luks.Storage.
func (s *headerStorage) ReadAt(p []byte, off int64) (int, error) { return s.device().ReadAt(p, off) }

// WriteAt implements luks.Storage.
func (s *headerStorage) WriteAt(p []byte, off int64) (int, error) { return s.device().WriteAt(p, off) }

// Flush implements luks.Storage.
func (s *headerStorage) Flush() error { return s.device().Flush() }

func (s *headerStorage) lock(ctx context.Context) (func() error, error) {
	unlock, err := s.run.lockHeader(ctx, s.path)
	if err != nil {
		return nil, err
	}
	err = s.run.checkHeld(s.path)
	if err == nil {
		s.write, err = s.openToWrite()
	}
	if err != nil {
		s.write = nil
		unlock()
		return nil, err
	}
	return func() error {
		err := s.write.Close()
		s.write = nil
		unlock()
		return err
	}, nil
}

// openToWrite opens the file again. A partition may have moved since its header
// was read; luks.Editor finds another header there then.
func (s *headerStorage) openToWrite() (device.Device, error) {
	whole, err := s.run.open(s.path, device.FileOptions{Grow: s.grow})
	if err != nil {
		return nil, err
	}
	quiet := &run{system: s.run.system} // what there is to warn of was said
	d, err := quiet.inside(s.path, whole, s.in)
	if err != nil {
		whole.Close()
		return nil, err
	}
	return d, nil
}

func (s *headerStorage) close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	return s.read.Close()
}
