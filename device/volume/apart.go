package volume

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/luks"
)

// headerFile is the file of a detached header that is to be made.
type headerFile struct {
	target *fileTarget
	made   bool
}

// openHeaderFile checks that the file may be made; others are files that it
// must not be.
func (r *run) openHeaderFile(ctx context.Context, path string, force bool, others ...string) (*headerFile, error) {
	t, err := r.openTarget(ctx, targetOptions{path: path, force: force, inputs: others})
	if err != nil {
		return nil, err
	}
	file, ok := t.(*fileTarget)
	if !ok {
		t.close()
		return nil, fmt.Errorf("%s: %w: a detached header is made in a regular file", path, ErrKind)
	}
	return &headerFile{target: file}, nil
}

func (f *headerFile) close() { f.target.close() }

// write makes the file: it appears when it is whole and durable.
func (f *headerFile) write(ctx context.Context, r *run, header *luks.Prepared) error {
	err := f.target.store(ctx, r, result{
		header: header, offset: header.HeaderSize(), sparse: true,
		copy: func(context.Context, device.Sink, bool) error { return nil },
	})
	f.made = err == nil
	return err
}

// undo removes the file after what it was made for has failed.
func (f *headerFile) undo() error {
	if !f.made || f.target.replace {
		return nil
	}
	return errors.Join(f.target.dir.Remove(f.target.name), f.target.dir.Sync())
}

// formatApart makes a volume whose header is in a file of its own. Nothing is
// written to where the data will be, but for a new file with Create.
func (r *run) formatApart(ctx context.Context, o FormatOptions) (*luks.Header, error) {
	file, err := r.openHeaderFile(ctx, o.Header, o.Force, o.Path)
	if err != nil {
		return nil, err
	}
	defer file.close()
	o.Luks.Detached = true
	if o.Create > 0 {
		return r.formatNewApart(ctx, o, file)
	}
	if err := r.formattable(o.Path); err != nil {
		return nil, err
	}
	if err := r.checkWrite(o.Path); err != nil {
		return nil, err
	}
	dev, err := r.open(o.Path, device.FileOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	header, err := r.prepareOn(ctx, dev, o)
	if err != nil {
		return nil, err
	}
	defer header.Volume().Close()
	return header.Volume().Header, file.write(ctx, r, header)
}

// formatNewApart makes both files, the header last.
func (r *run) formatNewApart(ctx context.Context, o FormatOptions, file *headerFile) (*luks.Header, error) {
	dst, err := r.openTarget(ctx, targetOptions{path: o.Path, force: o.Force})
	if err != nil {
		return nil, err
	}
	defer dst.close()
	data, ok := dst.(*fileTarget)
	if !ok {
		return nil, fmt.Errorf("%s: %w: it is no regular file, so it has a size already", o.Path, ErrKind)
	}
	header, err := r.prepare(ctx, o, o.Create, 512)
	if err != nil {
		return nil, err
	}
	defer header.Volume().Close()
	err = data.store(ctx, r, result{
		size: o.Create, sparse: true,
		copy: func(context.Context, device.Sink, bool) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	if err := file.write(ctx, r, header); err != nil {
		if !data.replace {
			err = errors.Join(err, data.dir.Remove(data.name))
		}
		return nil, err
	}
	return header.Volume().Header, nil
}

// formattable says what keeps path, which is to exist, from being formatted.
func (r *run) formattable(path string) error {
	st, err := r.state(path)
	switch {
	case err != nil:
		return err
	case st.kind == missing:
		return &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
	case st.kind == stream:
		return fmt.Errorf("%s: %w: a volume cannot be made in a pipe", path, ErrKind)
	}
	return nil
}

// Plan tells where Format would put everything. It looks at Path, or takes
// Create for its size, and writes nothing; neither passphrase nor KDF matter.
func Plan(o FormatOptions) (luks.Layout, Report, error) {
	r := &run{system: host, warn: o.Warn}
	l, err := r.plan(o)
	return l, r.Report, err
}

func (r *run) plan(o FormatOptions) (luks.Layout, error) {
	size, unit := o.Create, 512
	if o.Create < 0 {
		return luks.Layout{}, fmt.Errorf("%w: a file of %d bytes", ErrOptions, o.Create)
	}
	if size == 0 {
		if err := r.formattable(o.Path); err != nil {
			return luks.Layout{}, err
		}
		dev, err := r.open(o.Path, device.FileOptions{ReadOnly: true})
		if err != nil {
			return luks.Layout{}, err
		}
		defer dev.Close()
		if size, err = r.wholeSectors(o.Path, dev.Size()); err != nil {
			return luks.Layout{}, err
		}
		unit = dev.SectorSize()
	}
	options := o.Luks
	options.DataSize, options.Detached = size, o.Header != ""
	if err := r.chooseSector(&options, o.Path, size, unit); err != nil {
		return luks.Layout{}, err
	}
	return options.Plan()
}

// FileSize returns how large a file must be for usable bytes of data, as
// options have it. usable is a multiple of the sector size.
func FileSize(options luks.FormatOptions, usable int64) (int64, error) {
	if usable <= 0 || usable > maxDataOffset {
		return 0, fmt.Errorf("%w: %d usable bytes", ErrOptions, usable)
	}
	options.DataSize = 0
	l, err := options.Plan()
	if err != nil {
		return 0, err
	}
	if usable%int64(l.SectorSize) != 0 {
		return 0, fmt.Errorf("%w: %d usable bytes are not a multiple of the sector size %d", ErrSize, usable, l.SectorSize)
	}
	return l.DataOffset + usable, checkDataOffset(l.DataOffset, usable)
}
