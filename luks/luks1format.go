package luks

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// luks1AreaAlignment is what cryptsetup aligns the areas of keyslots to, in
// bytes: the first one, too, which leaves 4096 for the header.
const luks1AreaAlignment = 4096

// checkLUKS1 refuses what a LUKS1 header has no room for.
func (o *FormatOptions) checkLUKS1() error {
	switch {
	case o.SectorSize != sector.UnitSize:
		return fmt.Errorf("%w: sector size %d: LUKS1 has only %d", ErrOption, o.SectorSize, sector.UnitSize)
	case o.Label != "":
		return fmt.Errorf("%w: label %s: LUKS1 has none", ErrOption, quote(o.Label))
	case o.Subsystem != "":
		return fmt.Errorf("%w: subsystem %s: LUKS1 has none", ErrOption, quote(o.Subsystem))
	case o.MetadataSize != 0:
		return fmt.Errorf("%w: metadata size %d: LUKS1 has only one", ErrOption, o.MetadataSize)
	case o.KeyslotsSize != 0:
		return fmt.Errorf("%w: keyslots size %d: LUKS1 has only one", ErrOption, o.KeyslotsSize)
	}
	name, mode, _ := strings.Cut(o.Cipher, "-")
	for _, s := range []string{name, mode, o.Hash} {
		if len(s) >= luks1NameSize {
			return fmt.Errorf("%w: %s has %d bytes, LUKS1 has room for %d", ErrOption, quote(s), len(s), luks1NameSize-1)
		}
	}
	return nil
}

// checkLUKS1KDF fills in and checks the KDF: there is no other than PBKDF2, and
// one hash for everything in the header.
func (o *FormatOptions) checkLUKS1KDF() error {
	if o.KDF.Type != KDFPBKDF2 {
		return fmt.Errorf("%w: KDF %s: LUKS1 has only %s", ErrOption, o.KDF.Type, KDFPBKDF2)
	}
	if setDefault(&o.KDF.Hash, o.Hash); o.KDF.Hash != o.Hash {
		return fmt.Errorf("%w: KDF hash %s: LUKS1 has one hash, which is %s", ErrOption, quote(o.KDF.Hash), quote(o.Hash))
	}
	return nil
}

// newLUKS1Layout follows cryptsetup 2.6: eight areas of equal size, and the
// data behind them, aligned to 1 MiB unless a place is given.
func newLUKS1Layout(o *FormatOptions) (layout, error) {
	if err := o.checkLUKS1(); err != nil {
		return layout{}, err
	}
	end := int64(luks1AreaAlignment) + luks1Slots*areaSize(o.KeySize)
	l := layout{keyslots: end - luks1AreaAlignment, dataOffset: o.DataOffset}
	if o.Detached {
		l.detached = end
	}
	switch {
	case l.dataOffset == 0 && o.Detached:
	case l.dataOffset == 0:
		l.dataOffset = alignUp(end, dataAlignment)
	case l.dataOffset < 0 || l.dataOffset%areaAlignment != 0:
		return l, fmt.Errorf("%w: data offset %d is not a multiple of 4096 bytes", ErrOption, l.dataOffset)
	case l.dataOffset < end:
		return l, fmt.Errorf("%w: data offset %d lies inside the header, which has %d bytes", ErrOption, l.dataOffset, end)
	case l.dataOffset > math.MaxUint32*sector.UnitSize:
		return l, fmt.Errorf("%w: data offset %d is more than LUKS1 can hold, 2 TiB", ErrOption, l.dataOffset)
	}
	return l, l.checkRoom(o)
}

// newLUKS1 describes a new volume with no active keyslot.
func newLUKS1(o *FormatOptions, l layout) *luks1Header {
	h := &luks1Header{
		hash:             o.Hash,
		payload:          uint32(l.dataOffset / sector.UnitSize),
		keyBytes:         o.KeySize,
		digestIterations: o.DigestIterations,
		digestSalt:       [luks1SaltSize]byte(randomBytes(luks1SaltSize)),
		uuid:             o.UUID,
	}
	h.cipher, h.mode, _ = strings.Cut(o.Cipher, "-")
	for i := range h.slots {
		h.slots[i].stripes = afStripes
		h.slots[i].material = uint32((luks1AreaAlignment + int64(i)*areaSize(o.KeySize)) / sector.UnitSize)
	}
	return h
}

// buildLUKS1 derives and encrypts, then encodes the header and reads it back,
// as build does for LUKS2.
func (p *Prepared) buildLUKS1(ctx context.Context, o *FormatOptions) error {
	if err := o.chooseDigest(ctx, luks1DigestSize); err != nil {
		return err
	}
	l := newLUKS1(o, p.layout)
	digest := KDF{Type: KDFPBKDF2, Hash: o.Hash, Iterations: o.DigestIterations, Salt: l.digestSalt[:]}
	sum, err := digest.derive(ctx, p.volume.Key(), luks1DigestSize)
	if err != nil {
		return err
	}
	copy(l.digest[:], sum)
	if o.KDF.Salt == nil {
		o.KDF.Salt = randomBytes(luks1SaltSize)
	}
	l.activate(0, o.KDF.Iterations, [luks1SaltSize]byte(o.KDF.Salt))
	k := l.keyslot(0)
	if err := p.fillArea(ctx, &k, o.Passphrase); err != nil {
		return err
	}
	p.luks1 = l
	p.volume.Header, err = parseLUKS1(l.encode(), -1)
	return err
}

// writeLUKS1 is Write: the keyslots' areas, then the header.
func (p *Prepared) writeLUKS1(ctx context.Context, st Storage) error {
	for i := range p.luks1.slots {
		if err := ctx.Err(); err != nil {
			return err
		}
		off, n := p.luks1.area(i)
		b := p.area
		if i > 0 {
			b = randomBytes(int(n)) // as cryptsetup: what is in use does not show
		}
		if err := writeAt(st, b, off); err != nil {
			return err
		}
	}
	return p.luks1.write(st) // flushes before the magic is written
}

// write writes the header over the old one, and returns once it is durable.
// Its end, which lies in another sector of 512 bytes, comes first: without the
// magic it is nothing, and of a header that is changed it holds keyslot 7 and
// a part of keyslot 6. So a crash leaves the old header or the new one, but
// for a keyslot 6 whose salt is new already: whoever activates it writes it
// inactive with the new salt first, and whoever clears it destroys its area
// first.
func (l *luks1Header) write(st Storage) error {
	b := l.encode()
	for _, part := range []struct {
		bytes []byte
		off   int64
	}{{b[sector.UnitSize:], sector.UnitSize}, {b[:sector.UnitSize], 0}} {
		if err := writeAt(st, part.bytes, part.off); err != nil {
			return err
		}
		if err := flush(st); err != nil {
			return err
		}
	}
	return nil
}

// writeLUKS1To is WriteTo.
func (p *Prepared) writeLUKS1To(w io.Writer) (written int64, err error) {
	put := func(r io.Reader, n int64) {
		if err == nil {
			var m int64
			m, err = io.CopyN(w, r, n)
			written += m
		}
	}
	whole := func(b []byte) {
		if err == nil {
			var m int
			m, err = w.Write(b)
			written += int64(m)
		}
	}
	whole(p.luks1.encode())
	for i := range p.luks1.slots {
		off, n := p.luks1.area(i)
		put(zeroReader{}, off-written)
		if i == 0 {
			whole(p.area)
		} else {
			put(rand.Reader, n)
		}
	}
	put(zeroReader{}, p.layout.size()-written)
	return written, err
}
