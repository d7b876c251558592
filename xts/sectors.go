package xts

import (
	"unsafe"

	"github.com/xtsdisk/xtsdisk/xts/asm"
)

// EncryptRun encrypts a run of sectors with counted tweaks, each sector a data
// unit of r.SectorSize bytes. len(src) must be a multiple of it; dst gets
// len(src) bytes. dst and src must be the same memory or not overlap.
//
// It panics on a sector size that is not a positive multiple of 16 up to
// MaxUnitSize, an invalid r.Kind, a len(src) that is not a multiple of the
// sector size, a dst shorter than src, partial overlap, and after Wipe. It
// never allocates. While it runs, dst may hold intermediate values.
func (c *Cipher) EncryptRun(dst, src []byte, r Run) {
	dst = c.checkSectors(dst, src, r.SectorSize)
	if r.Kind == Plain64 { // at once: of a run of 4 KiB the way here is some percent
		first, step := r.start()
		(*c.key).EncryptRun(dst, src, r.SectorSize, first, step)
		return
	}
	c.run(dst, src, r, encrypting)
}

// DecryptRun is the inverse of EncryptRun, under the same conditions.
func (c *Cipher) DecryptRun(dst, src []byte, r Run) {
	dst = c.checkSectors(dst, src, r.SectorSize)
	if r.Kind == Plain64 {
		first, step := r.start()
		(*c.key).DecryptRun(dst, src, r.SectorSize, first, step)
		return
	}
	c.run(dst, src, r, decrypting)
}

// EncryptTweaked encrypts a run of sectors of sectorSize bytes with one given
// tweak each, before its encryption under K2: tweaks[i] is sector i's. len(src)
// must be len(tweaks)·sectorSize. The conditions and panics are those of
// EncryptRun; in addition it panics if the number of tweaks is not that of the
// sectors or if they overlap dst.
func (c *Cipher) EncryptTweaked(dst, src []byte, sectorSize int, tweaks [][16]byte) {
	c.tweaked(dst, src, sectorSize, tweaks, encrypting)
}

// DecryptTweaked is the inverse of EncryptTweaked, under the same conditions.
func (c *Cipher) DecryptTweaked(dst, src []byte, sectorSize int, tweaks [][16]byte) {
	c.tweaked(dst, src, sectorSize, tweaks, decrypting)
}

type direction bool

const (
	encrypting direction = true
	decrypting direction = false
)

// run is for the kinds other than Plain64, after the checks.
func (c *Cipher) run(dst, src []byte, r Run, dir direction) {
	first, step := r.start()
	switch r.Kind {
	case Plain:
		// The assembly counts in 64 bits, so a run is cut where 32 bits wrap.
		// The step is reduced too, which changes no number modulo 2^32.
		size, first, step := r.SectorSize, uint32(first), uint32(step)
		for len(src) > 0 {
			k := sectorsToWrap(first, step, len(src)/size)
			n := k * size
			c.counted(dst[:n], src[:n], size, uint64(first), uint64(step), dir)
			dst, src, first = dst[n:], src[n:], first+uint32(k)*step
		}
	case Plain64BE:
		c.listed(dst, src, r.SectorSize, r.Kind, first, step, dir)
	default:
		panic("xts: invalid tweak kind")
	}
}

func (c *Cipher) counted(dst, src []byte, sectorSize int, first, step uint64, dir direction) {
	if dir == encrypting {
		(*c.key).EncryptRun(dst, src, sectorSize, first, step)
	} else {
		(*c.key).DecryptRun(dst, src, sectorSize, first, step)
	}
}

// listed is for kinds that the assembly cannot count: the tweaks are written
// down first, as many as keep the cost of a call negligible. Unencrypted
// tweaks are no secret, so they may stay on the stack.
func (c *Cipher) listed(dst, src []byte, sectorSize int, kind TweakKind, first, step uint64, dir direction) {
	var tweaks [64][16]byte
	for len(src) > 0 {
		k := min(len(src)/sectorSize, len(tweaks))
		for i := range tweaks[:k] {
			tweaks[i] = kind.Tweak(first)
			first += step
		}
		n := k * sectorSize
		c.explicit(dst[:n], src[:n], sectorSize, tweaks[:k], dir)
		dst, src = dst[n:], src[n:]
	}
}

func (c *Cipher) tweaked(dst, src []byte, sectorSize int, tweaks [][16]byte, dir direction) {
	dst = c.checkSectors(dst, src, sectorSize)
	if len(tweaks) != len(src)/sectorSize {
		panic("xts: the number of tweaks is not that of the sectors")
	}
	if asm.Overlap(dst, flat(tweaks)) {
		panic("xts: the tweaks overlap the output")
	}
	if len(tweaks) > 0 {
		c.explicit(dst, src, sectorSize, tweaks, dir)
	}
}

func (c *Cipher) explicit(dst, src []byte, sectorSize int, tweaks [][16]byte, dir direction) {
	if dir == encrypting {
		(*c.key).EncryptTweaked(dst, src, sectorSize, flat(tweaks))
	} else {
		(*c.key).DecryptTweaked(dst, src, sectorSize, flat(tweaks))
	}
}

// flat is the same memory as bytes: arrays of bytes lie without gaps.
func flat(tweaks [][16]byte) []byte {
	if len(tweaks) == 0 {
		return nil
	}
	return unsafe.Slice(&tweaks[0][0], len(tweaks)*16)
}
