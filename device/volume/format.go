package volume

import (
	"context"
	"fmt"
	"io"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/internal/sector"
	"github.com/xtsdisk/xtsdisk/luks"
)

// FormatOptions says where Format makes a volume.
type FormatOptions struct {
	Path   string             // of a regular file or block device
	Header string             // path of the file to make for a detached header; "": in Path itself
	Create int64              // bytes of the file to be made; 0: Path exists and is formatted in place
	Luks   luks.FormatOptions // DataSize is ignored; a SectorSize of 0 is the device's own, 512 for files
	Force  bool               // replace an existing file (with Create), overwrite what lies there (without)

	// Prepare, if set, is called once Path has been checked and before anything
	// is derived or written; see EncryptOptions.Prepare. It gets a copy of Luks.
	Prepare  func(context.Context, *luks.FormatOptions) error
	Progress func(Progress)
	Warn     func(string) // gets each of Report.Warnings as it is found; may be nil
}

// Format makes an empty LUKS volume, and returns its header when it is
// durable. With Create it is a new, sparse file. Without, the file or block
// device stays in place, with its data area as it was: only what lies in front
// of that, and what the old contents are recognised by, is overwritten.
//
// Without Force nothing may be recognised there, and all in front of the data
// must be zeros. On errors and when ctx ends before that, what was there stays;
// a crash leaves the old contents, something unrecognisable, or the new volume.
//
// Errors are ErrExists, ErrSize, ErrOptions, ErrPolicy, ErrUnsupported,
// ErrKind, lock.ErrInUse, those of luks.Prepare, and those of the system.
func Format(ctx context.Context, o FormatOptions) (Report, *luks.Header, error) {
	r := &run{system: host, progress: o.Progress, warn: o.Warn}
	header, err := r.format(ctx, o)
	return r.Report, header, err
}

func (r *run) format(ctx context.Context, o FormatOptions) (*luks.Header, error) {
	if o.Create < 0 {
		return nil, fmt.Errorf("%w: a file of %d bytes", ErrOptions, o.Create)
	}
	if o.Header != "" {
		return r.formatApart(ctx, o)
	}
	if o.Create > 0 {
		return r.formatNew(ctx, o)
	}
	if err := r.formattable(o.Path); err != nil {
		return nil, err
	}
	release, err := r.markWritten(o.Path)
	if err != nil {
		return nil, err
	}
	defer release()
	dev, err := r.open(o.Path, device.FileOptions{})
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	return r.formatInPlace(ctx, dev, o)
}

// formatNew makes the file as Encrypt makes one, with no data in it.
func (r *run) formatNew(ctx context.Context, o FormatOptions) (*luks.Header, error) {
	dst, err := r.openTarget(ctx, targetOptions{path: o.Path, force: o.Force})
	if err != nil {
		return nil, err
	}
	defer dst.close()
	if _, ok := dst.(*fileTarget); !ok {
		return nil, fmt.Errorf("%s: %w: it is no regular file, so it has a size already", o.Path, ErrKind)
	}
	header, err := r.prepare(ctx, o, o.Create, 512)
	if err != nil {
		return nil, err
	}
	defer header.Volume().Close()
	err = dst.store(ctx, r, result{
		header: header,
		offset: header.DataOffset(),
		size:   o.Create - header.DataOffset(),
		sparse: true,
		copy:   func(context.Context, device.Sink, bool) error { return nil },
	})
	return header.Volume().Header, err
}

// prepareOn checks that the data may lie on dev, and prepares a header for it.
func (r *run) prepareOn(ctx context.Context, dev device.Device, o FormatOptions) (*luks.Prepared, error) {
	if !o.Force {
		if found := names(probe.Identify(dev, dev.Size())); found != "" {
			return nil, fmt.Errorf("%s: %w and holds %s", o.Path, ErrExists, found)
		}
	}
	size, err := r.wholeSectors(o.Path, dev.Size())
	if err != nil {
		return nil, err
	}
	return r.prepare(ctx, o, size, dev.SectorSize())
}

func (r *run) formatInPlace(ctx context.Context, dev device.Device, o FormatOptions) (*luks.Header, error) {
	header, err := r.prepareOn(ctx, dev, o)
	if err != nil {
		return nil, err
	}
	defer header.Volume().Close()
	if !o.Force {
		if err := blank(dev, header.DataOffset()); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Path, err)
		}
	}
	err = r.sync(func() error {
		if err := clearForHeader(dev, header); err != nil {
			return err
		}
		return header.Write(ctx, dev)
	})
	return header.Volume().Header, err
}

// prepare makes the header of a volume in size bytes. A device of 4096-byte
// sectors gets such a volume: nothing smaller is ever written to it.
func (r *run) prepare(ctx context.Context, o FormatOptions, size int64, deviceSector int) (*luks.Prepared, error) {
	options := o.Luks
	options.DataSize = size
	if err := r.chooseSector(&options, o.Path, size, deviceSector); err != nil {
		return nil, err
	}
	if o.Prepare != nil {
		if err := options.Check(); err != nil {
			return nil, err
		}
		if err := o.Prepare(ctx, &options); err != nil {
			return nil, err
		}
	}
	var header *luks.Prepared
	err := r.timed(PhaseKDF, &r.KDFTime, func() (err error) {
		header, err = luks.Prepare(ctx, options)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	r.SectorSize, r.DataOffset = options.SectorSize, header.DataOffset()
	r.Bytes = size - header.DataOffset()
	return header, nil
}

// wholeSectors returns the size less what is not a whole sector of 512 bytes.
func (r *run) wholeSectors(path string, size int64) (int64, error) {
	if size == 0 {
		return 0, fmt.Errorf("%s: %w: it is empty", path, ErrSize)
	}
	size -= r.leftOver(path, size%sector.UnitSize, sector.UnitSize)
	if size == 0 {
		return 0, fmt.Errorf("%s: %w: it has less than a sector of %d bytes", path, ErrSize, sector.UnitSize)
	}
	return size, nil
}

// chooseSector fills in the sector size if none is given, and says why it is
// that one.
func (r *run) chooseSector(o *luks.FormatOptions, path string, size int64, deviceSector int) error {
	if o.SectorSize == 0 {
		switch o.SectorSize = 512; {
		case o.Version == 1:
			r.SectorReason = "LUKS1 has no other"
		case deviceSector != 4096:
			r.SectorReason = "it serves every machine and guest"
		case size%4096 != 0:
			r.SectorReason = "the device has sectors of 4096, but no whole number of them"
		default:
			o.SectorSize = 4096
			r.SectorReason = "as those of the device"
		}
	}
	if sector.ValidSectorSize(o.SectorSize) {
		return checkMultiple(path, size, o.SectorSize)
	}
	return nil
}

// blank returns ErrExists unless the first n bytes are zeros.
func blank(r io.ReaderAt, n int64) error {
	section := io.NewSectionReader(r, 0, n)
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		got, err := section.Read(buf)
		for i, b := range buf[:got] {
			if b != 0 {
				return fmt.Errorf("%w and holds data at byte %d", ErrExists, off+int64(i))
			}
		}
		off += int64(got)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
