package volume

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/internal/sector"
	"github.com/xtsdisk/xtsdisk/luks"
)

// EncryptOptions says what Encrypt copies and what volume it makes.
type EncryptOptions struct {
	// Src and Dst are paths of regular files, block devices or named pipes.
	// "-" is Stdin or Stdout.
	Src, Dst string
	Stdin    io.Reader
	Stdout   io.Writer

	Header string // path of the file to make for a detached LUKS header; "": in Dst

	// Exactly one of Luks and Plain is set. A Luks.SectorSize of 0 is chosen;
	// see SectorSizeFor. Luks.DataSize is ignored. Plain.Size is a limit for
	// what the source may have.
	Luks  *luks.FormatOptions
	Plain *PlainOptions

	// Prepare, if set, is called once source and target have been checked and
	// before anything is derived or written: the time to ask for a passphrase
	// and to measure the KDF. It gets a copy of *Luks or *Plain, the other
	// being nil, and completes it; an error ends Encrypt.
	Prepare func(context.Context, *luks.FormatOptions, *PlainOptions) error

	Pad      bool // fill the last sector with zeros, if the source ends inside it
	Force    bool // replace an existing file; overwrite a block device
	Direct   bool // bypass the page cache on both sides (O_DIRECT)
	Workers  int  // 0: chosen by the number of processors
	Progress func(Progress)
	Warn     func(string) // gets each of Report.Warnings as it is found; may be nil
}

// Encrypt copies Src into a new volume Dst, and returns when it is durable.
//
// Holes of the source are not read and become encrypted zeros: the target shows
// nothing of what was empty, and takes the full size. The source is marked as
// being read, and is not changed.
//
// An existing file is replaced as a whole (with Force), whatever
// Plain.Offset says; in a block device a plain volume changes nothing in front
// of its offset. On errors and when ctx ends a file under its final name is as
// it was before; a block device may hold a part of the new data, but neither
// its old contents nor the new volume can be opened.
//
// Errors are ErrExists, ErrSame, ErrSize, ErrSourceChanged, ErrOptions,
// ErrPolicy, ErrUnsupported, ErrNoSpace, ErrKind, lock.ErrInUse, those of
// luks.Prepare, the cause of ctx's end, and those of the system.
func Encrypt(ctx context.Context, o EncryptOptions) (Report, error) {
	r := &run{system: host, workers: o.Workers, progress: o.Progress, warn: o.Warn}
	err := r.encrypt(ctx, o)
	return r.Report, err
}

// SectorSizeFor returns the encryption sector size that Encrypt chooses for the
// size bytes of r: 4096 if size is a multiple of it and what lies on r can be
// used from a block device with sectors of 4096 bytes, since the opened volume
// will be such a device; else 512. A partition table counted in 512 bytes, a
// FAT, an XFS made for 512-byte sectors or an ext4 with blocks of 1 KiB would
// become unusable at 4096; and where nothing is recognised 512 is safe.
func SectorSizeFor(r io.ReaderAt, size int64) int {
	if size%4096 != 0 {
		return 512
	}
	return probe.LogicalSector(r, size)
}

// chooseSector is SectorSizeFor with the reason, for LUKS of a version.
func (s *source) chooseSector(version int) (int, string) {
	switch {
	case version == 1:
		return 512, "LUKS1 has no other"
	case s.dev == nil:
		return 512, "what a stream holds is not known beforehand"
	case s.size%4096 != 0:
		return 512, "the size is no multiple of 4096"
	case SectorSizeFor(s.dev, s.size) == 4096:
		return 4096, "what is on it, " + held(s.dev, s.size) + ", can be used with these"
	}
	if found := names(probe.Identify(s.dev, s.size)); found != "" {
		return 512, "what is on it, " + found + ", may need these"
	}
	return 512, "nothing known is on it, and these always work"
}

func (r *run) encrypt(ctx context.Context, o EncryptOptions) error {
	if (o.Luks == nil) == (o.Plain == nil) {
		return fmt.Errorf("%w: either a LUKS or a plain volume is to be made", ErrOptions)
	}
	src, err := r.openSource(ctx, o.Src, o.Stdin, o.Direct)
	if err != nil {
		return err
	}
	defer src.close()
	if src.size == 0 {
		return fmt.Errorf("%s: %w: it is empty", src.path, ErrSize)
	}
	dst, err := r.openTarget(ctx, targetOptions{
		path: o.Dst, stdin: o.Stdin, stdout: o.Stdout, force: o.Force, direct: o.Direct,
		inputs: []string{o.Src},
	})
	if err != nil {
		return err
	}
	defer dst.close()
	if o.Plain != nil {
		return r.encryptPlain(ctx, dst, src, o)
	}
	if o.Header == "" {
		return r.encryptLuks(ctx, dst, src, o, nil)
	}
	file, err := r.openHeaderFile(ctx, o.Header, o.Force, o.Src, o.Dst)
	if err != nil {
		return err
	}
	defer file.close()
	if err := r.encryptLuks(ctx, dst, src, o, file); err != nil {
		return errors.Join(err, file.undo())
	}
	return nil
}

func (r *run) encryptPlain(ctx context.Context, dst target, src *source, o EncryptOptions) error {
	options := *o.Plain
	if o.Prepare != nil {
		if _, err := options.check(); err != nil {
			return err
		}
		if err := o.Prepare(ctx, nil, &options); err != nil {
			return err
		}
	}
	p, err := options.payload(true)
	if err != nil {
		return err
	}
	defer p.cipher.Wipe()
	return r.encryptTo(ctx, dst, src, p, nil, o.Pad)
}

// encryptLuks makes the header in memory first: what can be wrong with the
// options shows before anything is written, and the key derivation is timed
// apart. file is where a detached header goes, or nil.
func (r *run) encryptLuks(ctx context.Context, dst target, src *source, o EncryptOptions, file *headerFile) error {
	options := *o.Luks
	options.DataSize, options.Detached = 0, file != nil
	if err := checkDataOffset(options.DataOffset, max(src.size, 0)); err != nil {
		return err
	}
	if options.SectorSize == 0 {
		options.SectorSize, r.SectorReason = src.chooseSector(options.Version)
	}
	if src.dev != nil {
		if !o.Pad && sector.ValidSectorSize(options.SectorSize) {
			if err := checkMultiple(src.path, src.size, options.SectorSize); err != nil {
				return err
			}
		}
		if found := probe.Identify(src.dev, src.size); len(found) > 0 && (found[0].Name == "luks1" || found[0].Name == "luks2") {
			r.warnf("%s is an encrypted volume already (%s); it is encrypted a second time", src.path, found[0].Name)
		}
	}
	if o.Prepare != nil {
		if err := options.Check(); err != nil {
			return err
		}
		if err := o.Prepare(ctx, &options, nil); err != nil {
			return err
		}
	}
	var header *luks.Prepared
	err := r.timed(PhaseKDF, &r.KDFTime, func() (err error) {
		header, err = luks.Prepare(ctx, options)
		return err
	})
	if err != nil {
		return err
	}
	defer header.Volume().Close()
	p, err := luksPayload(header.Volume(), true)
	if err != nil {
		return err
	}
	defer p.cipher.Wipe()
	if file == nil {
		return r.encryptTo(ctx, dst, src, p, header, o.Pad)
	}
	// The header is durable before the data can be found under its name.
	late := &afterCopy{target: dst, after: func() error { return file.write(ctx, r, header) }}
	return r.encryptTo(ctx, late, src, p, nil, o.Pad)
}

// afterCopy is a target that does something once the data is there.
type afterCopy struct {
	target
	after func() error
}

func (t *afterCopy) store(ctx context.Context, r *run, res result) error {
	do := res.copy
	res.copy = func(ctx context.Context, sink device.Sink, fresh bool) error {
		if err := do(ctx, sink, fresh); err != nil {
			return err
		}
		return t.after()
	}
	return t.target.store(ctx, r, res)
}

// encryptTo is the data phase.
func (r *run) encryptTo(ctx context.Context, dst target, src *source, p *payload, header *luks.Prepared, pad bool) error {
	unit := p.sectorSize()
	size := src.size
	if size >= 0 {
		if !pad {
			if err := checkMultiple(src.path, size, unit); err != nil {
				return err
			}
		}
		size = (size + int64(unit) - 1) / int64(unit) * int64(unit)
		if limit := p.ivLimit(); size > limit {
			return p.tooLong(size)
		}
	}
	if err := p.checkRoom(src.path, size); err != nil {
		return err
	}
	if err := checkDataOffset(p.offset, max(size, 0)); err != nil {
		return err
	}
	r.SectorSize, r.DataOffset = unit, p.offset
	return dst.store(ctx, r, result{
		header: header,
		offset: p.offset,
		size:   size,
		copy: func(ctx context.Context, sink device.Sink, _ bool) error {
			return r.encryptCopy(ctx, sink, src, p, pad)
		},
	})
}

// checkRoom holds the source against the size that the volume is to have.
func (p *payload) checkRoom(path string, size int64) error {
	if p.size >= 0 && size > p.size {
		return fmt.Errorf("%s: %w: %d bytes for a volume of %d", path, ErrSize, size, p.size)
	}
	return nil
}

func (r *run) encryptCopy(ctx context.Context, sink device.Sink, src *source, p *payload, pad bool) error {
	count := &counted{Reader: src.stream}
	from := device.StreamSource(count)
	if src.dev != nil {
		from = device.DeviceSource(src.dev)
	}
	stats, err := r.copy(ctx, sink, from, device.CopyOptions{
		Size:        src.size,
		Unit:        p.sectorSize(),
		Pad:         pad,
		SourceHoles: true,
		Transform: func(dst, src []byte, off int64) error {
			if err := p.checkRoom("the source", off+int64(len(src))); err != nil {
				return err
			}
			return p.encrypt(dst, src, off)
		},
	})
	if err != nil {
		return src.copied(err, count.n.Load(), p.sectorSize())
	}
	if stats.Bytes == 0 {
		return fmt.Errorf("%s: %w: it is empty", src.path, ErrSize)
	}
	return r.checkUnchanged(src)
}
