package volume

import (
	"context"
	"fmt"
	"io"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// DecryptOptions says what Decrypt opens and where the plaintext goes.
type DecryptOptions struct {
	// Src and Dst are paths of regular files, block devices or named pipes.
	// "-" is Stdin or Stdout.
	Src, Dst string
	Open     OpenOptions // Writable, Direct and Warn are ignored
	Stdin    io.Reader
	Stdout   io.Writer

	Force    bool // replace an existing file; overwrite a block device
	Direct   bool // bypass the page cache on both sides (O_DIRECT)
	Workers  int  // 0: chosen by the number of processors
	Progress func(Progress)
	Warn     func(string) // gets each of Report.Warnings as it is found; may be nil
}

// Decrypt copies the plaintext of volume Src to Dst, and returns when it is
// durable. Zeros of plaintext become holes of a file. What follows the last
// whole sector of the source is left out, with a warning, as the kernel does.
// Holes of the source decrypt to noise, with a warning.
//
// The source is marked as being read, and is not changed. On errors and when
// ctx ends, a file under its final name is as it was before; a block device
// may hold a part of the plaintext, but nothing on it is recognised. Into a
// pipe the plaintext goes as it comes.
//
// A volume without authentication has no way to tell that its data was
// changed: what was damaged decrypts to noise, without an error.
//
// Errors are ErrExists, ErrSame, ErrSourceChanged, ErrNoSpace and those of Open.
func Decrypt(ctx context.Context, o DecryptOptions) (Report, error) {
	r := &run{system: host, workers: o.Workers, progress: o.Progress, warn: o.Warn}
	err := r.decrypt(ctx, o)
	return r.Report, err
}

func (r *run) decrypt(ctx context.Context, o DecryptOptions) error {
	src, err := r.openSource(ctx, o.Src, o.Stdin, o.Direct)
	if err != nil {
		return err
	}
	defer src.close()
	dst, err := r.openTarget(ctx, targetOptions{
		path: o.Dst, stdin: o.Stdin, stdout: o.Stdout, force: o.Force, direct: o.Direct,
		inputs: []string{o.Src, o.Open.Header},
	})
	if err != nil {
		return err
	}
	defer dst.close()
	if src.dev == nil {
		return r.decryptStream(ctx, dst, src, o.Open)
	}
	data, err := r.inside(src.path, src.dev, o.Open.Inside)
	if err != nil {
		return err
	}
	src.dev, src.size = data, data.Size()
	v := &opened{}
	defer v.close()
	if err := r.openPayload(ctx, v, src.path, src.dev, src.size, o.Open); err != nil {
		return err
	}
	size, err := r.fit(v.payload, src.path, src.size)
	if err != nil {
		return err
	}
	r.warnHoles(src, v.payload, size)
	return r.decryptTo(ctx, dst, v.payload, size, func(ctx context.Context, sink device.Sink, copyOptions device.CopyOptions) error {
		data := v.payload.section(src.dev, size)
		if _, err := r.copy(ctx, sink, device.DeviceSource(data), copyOptions); err != nil {
			return src.copied(err, 0, v.payload.sectorSize())
		}
		return r.checkUnchanged(src)
	})
}

// decryptTo stores what copy reads, size bytes or -1, decrypted by p.
func (r *run) decryptTo(ctx context.Context, dst target, p *payload, size int64,
	copy func(context.Context, device.Sink, device.CopyOptions) error) error {
	r.SectorSize, r.DataOffset = p.sectorSize(), p.offset
	return dst.store(ctx, r, result{
		size:   size,
		sparse: true,
		copy: func(ctx context.Context, sink device.Sink, fresh bool) error {
			return copy(ctx, sink, device.CopyOptions{
				Size:       size,
				Unit:       p.sectorSize(),
				Transform:  p.decrypt,
				PunchZeros: true,
				Fresh:      fresh,
			})
		},
	})
}

// decryptStream keeps the beginning of the stream until the header is read.
func (r *run) decryptStream(ctx context.Context, dst target, src *source, o OpenOptions) error {
	if err := o.Inside.skipTo(src.path, src.stream); err != nil {
		return err
	}
	head := &headOf{ctx: ctx, r: src.stream}
	v := &opened{}
	defer v.close()
	if err := r.openPayload(ctx, v, src.path, head, -1, o); err != nil {
		return err
	}
	p := v.payload
	if !p.contiguous() {
		return fmt.Errorf("%s: %w: its segments do not lie in the order of the data, which a stream needs", src.path, ErrUnsupported)
	}
	rest, err := head.from(p.offset)
	if err != nil {
		return fmt.Errorf("%s: %w", src.path, classify(err, p.ifShort, io.ErrUnexpectedEOF))
	}
	whole := newWholeUnits(rest, p.sectorSize())
	return r.decryptTo(ctx, dst, p, p.size, func(ctx context.Context, sink device.Sink, copyOptions device.CopyOptions) error {
		stats, err := r.copy(ctx, sink, device.StreamSource(whole), copyOptions)
		if err != nil {
			return src.copied(err, stats.Bytes, p.sectorSize())
		}
		if stats.Bytes == 0 {
			return fmt.Errorf("%s: %w: it ends where its data would begin, at byte %d", src.path, p.ifShort, p.offset)
		}
		r.leftOver(src.path, int64(whole.over), p.sectorSize())
		if stats.Bytes > p.ivLimit() {
			r.warnf("%s has %d bytes with cipher %s: its IVs repeat every %d bytes, as dm-crypt's do", src.path, stats.Bytes, p.spec, int64(1)<<32*sector.UnitSize)
		}
		return nil
	})
}
