package sector

import (
	"fmt"

	"github.com/xtsdisk/xtsdisk/xts"
)

// aesXTS is AES in XTS mode. A key of 48 bytes is AES-192: Linux takes it,
// IEEE 1619 does not name it.
var aesXTS = family{
	cipher:   "aes",
	mode:     "xts",
	ivs:      []string{"plain", "plain64", "plain64be"},
	keySizes: []int{32, 48, 64},
	new:      newXTS,
}

type xtsCipher struct {
	xts  *xts.Cipher
	kind xts.TweakKind
	size int    // bytes a sector
	unit uint64 // 512-byte units a sector
	step uint64 // IV numbers from one sector to the next
}

func newXTS(s Spec, key []byte, o Options) (Cipher, error) {
	c := &xtsCipher{size: o.SectorSize, unit: uint64(o.SectorSize / UnitSize)}
	c.step = c.unit
	if o.IVLargeSectors {
		c.step = 1
	}
	switch s.IV {
	case "plain":
		c.kind = xts.Plain
	case "plain64":
		c.kind = xts.Plain64
	case "plain64be":
		c.kind = xts.Plain64BE
	default:
		return nil, s.unsupported()
	}
	var opts []xts.Option
	if o.Level != "" {
		opts = append(opts, xts.WithLevel(o.Level))
	}
	if o.AllowEqualHalves {
		opts = append(opts, xts.AllowEqualHalves())
	}
	var err error
	if c.xts, err = xts.NewCipher(key, opts...); err != nil {
		return nil, fmt.Errorf("cipher %s: %w", s, err)
	}
	return c, nil
}

func (c *xtsCipher) SectorSize() int { return c.size }

func (c *xtsCipher) Encrypt(dst, src []byte, ivSector uint64) {
	c.xts.EncryptRun(dst, src, c.run(len(src), ivSector))
}

func (c *xtsCipher) Decrypt(dst, src []byte, ivSector uint64) {
	c.xts.DecryptRun(dst, src, c.run(len(src), ivSector))
}

func (c *xtsCipher) Wipe() { c.xts.Wipe() }

// run gives the IVs of n bytes from ivSector on. dm-crypt numbers sectors in
// 512-byte units and, with iv_large_sectors, shifts that number down to
// sectors; it refuses an IV offset that is not a multiple of the sector size.
func (c *xtsCipher) run(n int, ivSector uint64) xts.Run {
	if n%c.size != 0 {
		panic(fmt.Sprintf("sector: length %d is not a multiple of the sector size %d", n, c.size))
	}
	if ivSector%c.unit != 0 {
		panic(fmt.Sprintf("sector: IV sector %d is not a multiple of %d", ivSector, c.unit))
	}
	if c.step == 1 {
		ivSector /= c.unit
	}
	return xts.Run{SectorSize: c.size, Kind: c.kind, First: ivSector, Step: c.step}
}
