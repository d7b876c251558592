package luks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// The order in which a new header reaches the storage, so that a crash at any
// point leaves no header, or the old one whole, or the new one whole:
//
//  1. Invalidate clears the first sector of every header copy that a program
//     could find, and nothing else, then flushes. A sector is written whole or
//     not at all, and the old keyslots are still there: a crash leaves a whole
//     old header, or none.
//  2. It clears the rest in front of the data: old signatures, old keys.
//  3. Write puts random bytes and the new keyslot into the keyslots area, then
//     flushes: a header must not be found before its keys.
//  4. The secondary copy, then a flush. A torn copy fails its checksum, and
//     with no magic at offset 0 it counts as no header.
//  5. The primary copy, then a flush. If it is torn, the secondary is whole. The
//     flush between them is what makes this so: with both under way at once,
//     both could be torn, and a magic at offset 0 with no whole copy is a
//     damaged volume.

// Invalidate makes sure that no LUKS header is found on st, old copies behind
// the new header's end included, and clears everything in front of the data.
// It is the first step of formatting, apart for callers that write data
// between it and Write; storage that is new and reads as zeros does not need it.
func (p *Prepared) Invalidate(ctx context.Context, st Storage) error {
	if err := invalidate(st, math.MaxInt64); err != nil {
		return err
	}
	return clearRange(ctx, st, 0, p.layout.size())
}

// invalidate makes sure that no header is found on st any more: it clears the
// first sector, and that of every secondary copy that starts before end.
func invalidate(st Storage, end int64) error {
	for _, off := range append([]int64{0}, headerSizes...) {
		if off >= end || off > 0 && !believable(st, off) {
			continue // an old keyslot, or data behind the header
		}
		if err := writeAt(st, make([]byte, sector.UnitSize), off); err != nil {
			return err
		}
	}
	return flush(st)
}

// believable tells whether a secondary copy starts at byteOff, whole or not.
func believable(r io.ReaderAt, byteOff int64) bool {
	b := make([]byte, binarySize)
	n, err := r.ReadAt(b, byteOff)
	if n < len(b) || err != nil && !errors.Is(err, io.EOF) || !hasMagic(b, Secondary) {
		return false
	}
	_, err = parseBinary(b, Secondary, byteOff)
	return err == nil
}

// Write writes the keyslots area and all copies of the header, in that order,
// and returns once they are durable. Invalidate has run before, unless st is
// new and reads as zeros.
func (p *Prepared) Write(ctx context.Context, st Storage) error {
	if p.luks1 != nil {
		return p.writeLUKS1(ctx, st)
	}
	area, end := 2*p.layout.metadata, 2*p.layout.metadata+p.layout.keyslots
	if err := writeAt(st, p.area, area); err != nil {
		return err
	}
	// Random bytes hide which parts of the area are in use, as cryptsetup does.
	for off := area + int64(len(p.area)); off < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := randomBytes(int(min(end-off, fillChunk)))
		if err := writeAt(st, b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	if err := flush(st); err != nil {
		return err
	}
	for _, c := range []struct {
		copy []byte
		off  int64
	}{{p.copies[Secondary], p.layout.metadata}, {p.copies[Primary], 0}} {
		if err := writeAt(st, c.copy, c.off); err != nil {
			return err
		}
		if err := flush(st); err != nil {
			return err
		}
	}
	return nil
}

// WriteTo writes everything in front of the data, HeaderSize bytes, from first
// to last: for a pipe, which the data follows. A pipe has no crash to survive.
func (p *Prepared) WriteTo(w io.Writer) (int64, error) {
	if p.luks1 != nil {
		return p.writeLUKS1To(w)
	}
	var written int64
	put := func(r io.Reader, n int64) error {
		m, err := io.CopyN(w, r, n)
		written += m
		return err
	}
	for _, b := range [][]byte{p.copies[Primary], p.copies[Secondary], p.area} {
		n, err := w.Write(b)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	if err := put(rand.Reader, p.layout.keyslots-int64(len(p.area))); err != nil {
		return written, err
	}
	return written, put(zeroReader{}, p.layout.size()-written)
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// fillChunk is the number of bytes written at a time where many are.
const fillChunk = 1 << 20

// clearRange writes zeros, by the storage's own means where it has them.
func clearRange(ctx context.Context, st Storage, from, to int64) error {
	if z, ok := st.(interface{ WriteZeroes(off, n int64) error }); ok {
		if err := z.WriteZeroes(from, to-from); err != nil {
			return fmt.Errorf("clear %d bytes at %d: %w", to-from, from, err)
		}
		return nil
	}
	zeros := make([]byte, min(to-from, fillChunk))
	for from < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(to-from, fillChunk)
		if err := writeAt(st, zeros[:n], from); err != nil {
			return err
		}
		from += n
	}
	return nil
}

func writeAt(w io.WriterAt, b []byte, byteOff int64) error {
	if _, err := w.WriteAt(b, byteOff); err != nil {
		return fmt.Errorf("write header at offset %d: %w", byteOff, err)
	}
	return nil
}

func flush(st Storage) error {
	if err := st.Flush(); err != nil {
		return fmt.Errorf("flush header: %w", err)
	}
	return nil
}
