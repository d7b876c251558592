package luks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// BackupSize returns the length in bytes of the header's backup: both copies
// of a LUKS2 header and the keyslots area; of LUKS1 what its eight keyslots
// take, aligned to 4096.
func (h *Header) BackupSize() int64 {
	if h.luks1 == nil {
		return h.End()
	}
	return alignUp(h.End(), luks1AreaAlignment)
}

// WriteBackup copies the header with its keyslots from r, which it was read
// from, to w: the same bytes that cryptsetup luksHeaderBackup writes. That is
// what lies there, unchanged, but for the bytes between a LUKS1 header and
// 4096, which are zeros. A keyslot in a backup opens for ever with its
// passphrase, so who may not open the volume may not read it either.
func (h *Header) WriteBackup(w io.Writer, r io.ReaderAt) error {
	n, from := h.BackupSize(), int64(0)
	if h.luks1 != nil {
		end := min(luks1AreaAlignment, h.KeyslotsOffset())
		head := make([]byte, end)
		if _, err := readUpTo(r, head[:luks1Size], 0); err != nil {
			return err
		}
		if _, err := w.Write(head); err != nil {
			return err
		}
		from = end
	}
	m, err := io.Copy(w, io.NewSectionReader(r, from, n-from))
	if err == nil && m < n-from {
		err = fmt.Errorf("%w: it ends at byte %d, its header at %d", ErrSize, from+m, n)
	}
	return err
}

// Replacement is a whole header, with its keyslots, that is to take the place
// of what is on a volume: one out of a backup, or a converted one.
type Replacement struct {
	header *Header
	src    io.ReaderAt // what is written, from the first byte on
	size   int64
	copies []int64 // where the parts lie that make it a header, in the order to write them
	lost   []string
}

// ReadBackup checks the backup of a header, size bytes of r, as WriteBackup
// and cryptsetup luksHeaderBackup make them. What it holds besides, up to where
// the data starts, belongs to it. r is read again by Write. Errors are those of
// ReadHeader; one that ends too early is ErrHeaderCorrupt.
func ReadBackup(r io.ReaderAt, size int64) (*Replacement, error) {
	h, err := ReadHeader(r, size)
	if err != nil {
		return nil, err
	}
	if need := h.BackupSize(); size < need {
		return nil, corrupt("the backup has %d bytes of %d", size, need)
	}
	if h.luks1 == nil {
		// A volume shall not get a header that cannot be changed.
		if _, err := readOther(r, size, h); err != nil {
			return nil, fmt.Errorf("the backup: %w", err)
		}
	}
	return newReplacement(h, r, min(size, h.space())), nil
}

func newReplacement(h *Header, src io.ReaderAt, size int64) *Replacement {
	p := &Replacement{header: h, src: src, size: size, copies: []int64{0}}
	if h.luks1 == nil {
		p.copies = []int64{h.Size, 0}
	}
	return p
}

// Header returns the header that is to be written.
func (p *Replacement) Header() *Header { return p.header }

// Size returns how many bytes Write writes, from the start of the volume on.
func (p *Replacement) Size() int64 { return p.size }

// Lost lists what a conversion drops: names, flags and priorities that LUKS1
// has no place for.
func (p *Replacement) Lost() []string { return p.lost }

// Conflicts tells in which of the ways that make a volume unreadable p is not
// a header for the volume with the header old: another UUID, version, start of
// the data, volume key, or a reencryption that one of them is in the middle of.
func (p *Replacement) Conflicts(old *Header) []string {
	var list []string
	differ := func(what string, a, b any) {
		if a != b {
			list = append(list, fmt.Sprintf("%s %v, the volume's is %v", what, a, b))
		}
	}
	differ("UUID", quote(p.header.UUID), quote(old.UUID))
	differ("LUKS version", p.header.Version, old.Version)
	differ("data offset", p.header.firstData(), old.firstData())
	a, okA := p.header.dataKeySize()
	if b, okB := old.dataKeySize(); okA && okB {
		differ("volume key length in bytes", a, b)
	}
	if a, b := p.header.dataDigest(), old.dataDigest(); a != nil && b != nil && !a.sameKey(b) {
		list = append(list, "another volume key, by its digest")
	}
	for _, h := range []*Header{p.header, old} {
		if len(h.Config.Requirements) > 0 { // equal ones have not come equally far
			list = append(list, "requirement "+quote(h.Config.Requirements[0]))
		}
	}
	return list
}

// dataDigest is the digest of the data's key, or nil.
func (h *Header) dataDigest() *Digest {
	s := h.dataSegment()
	if s == nil {
		return nil
	}
	return h.segmentDigest(s.ID)
}

// sameKey tells whether two digests are of one key and made at one time: a
// conversion keeps the salt and may cut the value.
func (d *Digest) sameKey(o *Digest) bool {
	n := min(len(d.Value), len(o.Value))
	return bytes.Equal(d.KDF.Salt, o.KDF.Salt) && bytes.Equal(d.Value[:n], o.Value[:n])
}

// dataKeySize is the length of the data's key in bytes, if the header tells.
func (h *Header) dataKeySize() (int, bool) {
	d := h.dataDigest()
	if d == nil {
		return 0, false
	}
	return h.keySize(d)
}

// space returns how many bytes from the start on are the header's: those in
// front of the data, or up to its own end if the data is elsewhere.
func (h *Header) space() int64 { return max(h.firstData(), h.End()) }

// Write puts the header in the place of what is on st, which is overwritten up
// to Size, and returns once it is durable. A crash meanwhile leaves no header,
// or the new one whole; before the first flush also the old one. So what was
// there is to be kept elsewhere first: writing that again, as a backup, gives
// the old state back.
//
// First the old header is made no header (see invalidate), then
// everything is written but the first sector of each copy, which holds its
// magic and checksum, then those: the secondary's, then the primary's. Each
// step is durable before the next.
func (p *Replacement) Write(ctx context.Context, st Storage) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := invalidate(st, max(p.header.space(), p.size)); err != nil {
		return err
	}
	// From here on nothing breaks it off: what was there is gone.
	heads := make([][]byte, len(p.copies))
	for off := int64(0); off < p.size; off += fillChunk {
		b := make([]byte, min(fillChunk, p.size-off))
		if n, err := readUpTo(p.src, b, off); err != nil || n < len(b) {
			return errors.Join(err, fmt.Errorf("read the new header at offset %d: %d bytes of %d", off, n, len(b)))
		}
		for i, c := range p.copies {
			if at := c - off; at >= 0 && at < int64(len(b)) {
				head := b[at:][:sector.UnitSize]
				heads[i] = append([]byte(nil), head...)
				clear(head)
			}
		}
		if err := writeAt(st, b, off); err != nil {
			return err
		}
	}
	if err := flush(st); err != nil {
		return err
	}
	for i, c := range p.copies {
		if err := writeAt(st, heads[i], c); err != nil {
			return err
		}
		if err := flush(st); err != nil {
			return err
		}
	}
	return nil
}
