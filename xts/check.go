package xts

import "github.com/xtsdisk/xtsdisk/xts/asm"

// checkUnit panics unless src is a data unit and dst fits it, and returns dst
// cut to the length of src.
func (c *Cipher) checkUnit(dst, src []byte) []byte {
	if len(src) < BlockSize {
		panic("xts: data unit of less than 16 bytes")
	}
	if len(src) > MaxUnitSize {
		panic("xts: data unit of more than 2^20 blocks")
	}
	return c.checkBuffers(dst, src)
}

// checkSectors is checkUnit for a run of sectors, of which there may be none.
func (c *Cipher) checkSectors(dst, src []byte, sectorSize int) []byte {
	if sectorSize <= 0 || sectorSize%BlockSize != 0 {
		panic("xts: sector size is not a positive multiple of 16")
	}
	if sectorSize > MaxUnitSize {
		panic("xts: sector size of more than 2^20 blocks")
	}
	if uint64(len(src))%uint64(sectorSize) != 0 { // unsigned division is quicker
		panic("xts: input is not a whole number of sectors")
	}
	return c.checkBuffers(dst, src)
}

func (c *Cipher) checkBuffers(dst, src []byte) []byte {
	if (*c.key).wiped {
		panic("xts: use after Wipe")
	}
	if len(dst) < len(src) {
		panic("xts: output is shorter than input")
	}
	dst = dst[:len(src)]
	if len(src) > 0 && &dst[0] != &src[0] && asm.Overlap(dst, src) {
		panic("xts: input and output overlap in part")
	}
	return dst
}
