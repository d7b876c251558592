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
	ivs:      []string{ivPlain, ivPlain64, ivPlain64BE, ivESSIV},
	keySizes: []int{32, 48, 64},
	new:      newXTS,
}

type xtsCipher struct {
	geometry
	xts  *xts.Cipher
	kind xts.TweakKind
	iv   makeIV // of IVs that the engine does not count; else nil
}

func newXTS(s Spec, key []byte, o Options) (Cipher, error) {
	c := &xtsCipher{geometry: newGeometry(o)}
	var err error
	switch s.IV {
	case ivPlain:
		c.kind = xts.Plain
	case ivPlain64:
		c.kind = xts.Plain64
	case ivPlain64BE:
		c.kind = xts.Plain64BE
	default:
		if c.iv, err = newIV(s, key); err != nil {
			return nil, err
		}
	}
	var opts []xts.Option
	if o.Level != "" {
		opts = append(opts, xts.WithLevel(o.Level))
	}
	if o.AllowEqualHalves {
		opts = append(opts, xts.AllowEqualHalves())
	}
	if c.xts, err = xts.NewCipher(key, opts...); err != nil {
		return nil, fmt.Errorf("cipher %s: %w", s, err)
	}
	return c, nil
}

// Encrypt implements Cipher.
func (c *xtsCipher) Encrypt(dst, src []byte, ivSector uint64) {
	if c.iv != nil {
		c.listed(dst, src, ivSector, c.xts.EncryptTweaked)
		return
	}
	c.xts.EncryptRun(dst, src, c.run(len(src), ivSector))
}

// Decrypt implements Cipher.
func (c *xtsCipher) Decrypt(dst, src []byte, ivSector uint64) {
	if c.iv != nil {
		c.listed(dst, src, ivSector, c.xts.DecryptTweaked)
		return
	}
	c.xts.DecryptRun(dst, src, c.run(len(src), ivSector))
}

// Wipe implements Cipher.
func (c *xtsCipher) Wipe() {
	c.xts.Wipe()
	if c.iv != nil {
		c.iv = func(uint64) [blockSize]byte { return [blockSize]byte{} } // the engine panics
	}
}

// run gives the IVs of n bytes from ivSector on.
func (c *xtsCipher) run(n int, ivSector uint64) xts.Run {
	return xts.Run{SectorSize: c.size, Kind: c.kind, First: c.first(n, ivSector), Step: c.step}
}

// listed writes the IVs down first, as many as keep the cost of a call small.
func (c *xtsCipher) listed(dst, src []byte, ivSector uint64, do func(dst, src []byte, sectorSize int, tweaks [][16]byte)) {
	number := c.first(len(src), ivSector)
	if len(src) == 0 {
		do(dst, src, c.size, nil)
		return
	}
	if dst = dst[:len(src)]; partlyOverlap(dst, src) {
		panic("sector: output overlaps input")
	}
	tweaks := make([][blockSize]byte, min(len(src)/c.size, 256))
	for len(src) > 0 {
		tweaks = tweaks[:min(len(src)/c.size, len(tweaks))]
		for i := range tweaks {
			tweaks[i] = c.iv(number)
			number += c.step
		}
		n := len(tweaks) * c.size
		do(dst[:n], src[:n], c.size, tweaks)
		dst, src = dst[n:], src[n:]
	}
}
