package volume

import (
	"fmt"
	"math"

	"github.com/xtsdisk/xtsdisk/internal/sector"
	"github.com/xtsdisk/xtsdisk/luks"
)

// payload is the encrypted data of a volume: where it lies and how its sectors
// are encrypted.
type payload struct {
	cipher   sector.Cipher
	spec     sector.Spec
	offset   int64  // bytes from the start of the file or device
	size     int64  // bytes; -1: to the end
	ivSector uint64 // IV sector number of the first byte, in 512-byte units
	wideIV   bool   // the IV counts sectors of the cipher's size
	ifShort  error  // what is wrong if the file ends before the data: what says where that is, or the file
	parts    []*part
	hot      *hotZone // what a reencryption was broken off at
}

// luksPayload is the payload of an unlocked volume. creating refuses keys that
// nobody should start to use.
func luksPayload(v *luks.Volume, creating bool) (*payload, error) {
	plan, err := v.Header.Reencryption()
	if err != nil {
		return nil, err
	}
	if plan != nil {
		return reencryptPayload(v, plan)
	}
	segments, err := v.Segments()
	if err != nil {
		return nil, err
	}
	if len(segments) > 1 {
		return partsPayload(segments, v.SegmentKey, creating)
	}
	return segmentPayload(segments[0], v.Key(), creating)
}

// segmentPayload is the payload of one segment.
func segmentPayload(s luks.Segment, key []byte, creating bool) (*payload, error) {
	p := &payload{offset: s.Offset, size: s.Size, ivSector: s.IVTweak, ifShort: ErrTruncated}
	if s.Offset < 0 || s.Size >= 0 && s.Offset > math.MaxInt64-s.Size {
		return nil, fmt.Errorf("%w: segment %d: %d bytes at offset %d", luks.ErrHeaderCorrupt, s.ID, s.Size, s.Offset)
	}
	if s.Type == "linear" {
		return p, nil
	}
	return p, p.setCipher(s.Cipher, key, s.SectorSize, creating)
}

// setCipher makes the cipher. Where a volume is only read, a key with two
// equal halves is taken: dm-crypt takes it, too.
func (p *payload) setCipher(name string, key []byte, sectorSize int, creating bool) error {
	var err error
	if p.spec, err = sector.Parse(name); err != nil {
		return classify(err, ErrUnsupported, sector.ErrUnsupported)
	}
	if why := p.spec.ReadOnly(); why != "" && creating {
		return fmt.Errorf("%w: nothing is encrypted anew with cipher %s, which %s", ErrPolicy, p.spec, why)
	}
	p.cipher, err = p.spec.New(key, sector.Options{
		SectorSize:       sectorSize,
		IVLargeSectors:   p.wideIV,
		AllowEqualHalves: !creating,
	})
	return err
}

// sectorSize is the length in bytes of a sector, the largest of the parts'.
func (p *payload) sectorSize() int {
	size := sector.UnitSize
	if p.cipher != nil {
		size = p.cipher.SectorSize()
	}
	for _, one := range p.parts {
		size = max(size, one.sectorSize())
	}
	return size
}

// encrypt is a device.Transform; off counts from the start of the payload.
func (p *payload) encrypt(dst, src []byte, off int64) error {
	if limit := p.ivLimit(); off > limit-int64(len(src)) {
		return p.tooLong(off + int64(len(src)))
	}
	p.cipher.Encrypt(dst, src, p.ivSector+uint64(off)/sector.UnitSize)
	return nil
}

// decrypt is a device.Transform.
func (p *payload) decrypt(dst, src []byte, off int64) error {
	if p.parts != nil {
		return p.decryptParts(dst, src, off)
	}
	p.cipher.Decrypt(dst, src, p.ivSector+uint64(off)/sector.UnitSize)
	return nil
}

// ivLimit is how many bytes the payload can have before its IVs repeat: the
// "plain" generator has 32 bits (Linux, drivers/md/dm-crypt.c), so that at 512
// bytes a number everything beyond 2 TiB is encrypted with IVs used before.
func (p *payload) ivLimit() int64 {
	for _, one := range p.parts {
		if limit := one.ivLimit(); limit < math.MaxInt64-one.start {
			return one.start + limit
		}
	}
	if p.spec.IV != "plain" {
		return math.MaxInt64
	}
	first, unit := p.ivSector, uint64(sector.UnitSize)
	if p.wideIV {
		unit = uint64(p.sectorSize())
		first /= unit / sector.UnitSize
	}
	if first >= 1<<32 {
		return 0
	}
	return int64((1<<32 - first) * unit)
}

func (p *payload) tooLong(size int64) error {
	return fmt.Errorf("%w: cipher %s has 2^32 IVs, which %d bytes from IV sector %d on would use twice; plain64 in place of plain has more",
		ErrPolicy, p.spec, size, p.ivSector)
}

// maxDataOffset is the farthest, in bytes, that data may begin. No file reaches
// it, and what is added to it fits into 63 bits.
const maxDataOffset = 1 << 62

// checkDataOffset returns ErrOptions if n bytes of data cannot begin at off.
func checkDataOffset(off, n int64) error {
	if off > maxDataOffset || n > math.MaxInt64-off {
		return fmt.Errorf("%w: data at offset %d: no file or device reaches so far", ErrOptions, off)
	}
	return nil
}

// checkMultiple returns ErrSize, with the nearest sizes, unless size is a
// multiple of the sector size.
func checkMultiple(path string, size int64, sectorSize int) error {
	rest := size % int64(sectorSize)
	if rest == 0 {
		return nil
	}
	below, above := size-rest, size-rest+int64(sectorSize)
	nearest := fmt.Sprintf("the nearest are %d and %d", below, above)
	switch {
	case below == 0:
		nearest = fmt.Sprintf("the nearest is %d", above)
	case above < 0: // 2^63
		nearest = fmt.Sprintf("the nearest is %d", below)
	}
	return fmt.Errorf("%s: %w: %d bytes are not a multiple of the sector size %d; %s", path, ErrSize, size, sectorSize, nearest)
}
