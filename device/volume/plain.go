package volume

import (
	"fmt"
	"io"
	"math"

	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// PlainOptions are the parameters of a volume without a header, as in
// cryptsetup's plain type and dm-crypt's table. Nothing of it is stored, so
// nothing has a default: Cipher, Key and SectorSize must be set, and a wrong
// value shows only as noise.
type PlainOptions struct {
	Cipher         string // as in "aes-xts-plain64"
	Key            []byte // from PlainKey, or a key file's bytes; of a length that Cipher takes
	SectorSize     int    // bytes: 512, 1024, 2048 or 4096
	IVLargeSectors bool   // the IV counts sectors of SectorSize, not of 512 bytes

	Offset int64 // where the data starts in its file or device, bytes; a multiple of 512
	Skip   int64 // what the IV counts the first byte of the data as, bytes; a multiple of SectorSize
	Size   int64 // of the data, bytes, a multiple of SectorSize; 0: to the end
}

// payload checks the options. Errors are ErrOptions and ErrUnsupported.
func (o *PlainOptions) payload(creating bool) (*payload, error) {
	spec, err := o.check()
	if err != nil {
		return nil, err
	}
	if !spec.ValidKeySize(len(o.Key)) {
		return nil, fmt.Errorf("%w: a key of %d bytes; cipher %s takes %v", ErrOptions, len(o.Key), spec, spec.KeySizes())
	}
	p := &payload{
		spec:     spec,
		offset:   o.Offset,
		size:     o.Size,
		ivSector: uint64(o.Skip) / sector.UnitSize,
		wideIV:   o.IVLargeSectors,
		ifShort:  ErrSize,
	}
	if o.Size == 0 {
		p.size = -1
	}
	if err := p.setCipher(o.Cipher, o.Key, o.SectorSize, creating); err != nil {
		return nil, err
	}
	return p, nil
}

// check looks at all but the key, which may be asked for when the rest is known
// to be right.
func (o *PlainOptions) check() (sector.Spec, error) {
	if o.Cipher == "" || o.SectorSize == 0 {
		return sector.Spec{}, fmt.Errorf("%w: a plain volume stores nothing: its cipher and sector size must be given", ErrOptions)
	}
	spec, err := sector.Parse(o.Cipher)
	if err != nil {
		return spec, classify(err, ErrUnsupported, sector.ErrUnsupported)
	}
	switch {
	case !sector.ValidSectorSize(o.SectorSize):
		err = fmt.Errorf("%w: sector size %d is not 512, 1024, 2048 or 4096", ErrOptions, o.SectorSize)
	case o.Offset < 0 || o.Offset%sector.UnitSize != 0:
		err = fmt.Errorf("%w: offset %d is not a multiple of 512 bytes", ErrOptions, o.Offset)
	case o.Skip < 0 || o.Skip%int64(o.SectorSize) != 0:
		// dm-crypt refuses an IV offset inside a sector.
		err = fmt.Errorf("%w: skip %d is not a multiple of the sector size %d", ErrOptions, o.Skip, o.SectorSize)
	case o.Size < 0 || o.Size%int64(o.SectorSize) != 0:
		err = fmt.Errorf("%w: size %d is not a multiple of the sector size %d", ErrOptions, o.Size, o.SectorSize)
	default:
		err = checkDataOffset(o.Offset, o.Size)
	}
	return spec, err
}

// refuseLUKS returns ErrIsLUKS if a LUKS header lies at the start of r or at
// the offset where a plain volume is to begin: that volume's data is not where
// a plain one's would be, and its key is not a plain one's.
func refuseLUKS(path string, r io.ReaderAt, size, offset int64) error {
	for _, off := range []int64{0, offset} {
		if size >= 0 && off >= size {
			continue
		}
		rest := int64(-1)
		if size >= 0 {
			rest = size - off
		}
		for _, f := range probe.Identify(io.NewSectionReader(r, off, math.MaxInt64-off), rest) {
			if f.Name == "luks1" || f.Name == "luks2" {
				return fmt.Errorf("%s: %w (%s, at byte %d), so it is no plain volume", path, ErrIsLUKS, f.Name, off+f.Off)
			}
		}
	}
	return nil
}
