package sector

import (
	"fmt"
	"unsafe"
)

// geometry is how the sectors of a run are counted. dm-crypt numbers sectors
// in 512-byte units and, with iv_large_sectors, shifts that number down to
// sectors; it refuses an IV offset that is not a multiple of the sector size.
type geometry struct {
	size int    // bytes a sector
	unit uint64 // 512-byte units a sector
	step uint64 // IV numbers from one sector to the next
}

func newGeometry(o Options) geometry {
	g := geometry{size: o.SectorSize, unit: uint64(o.SectorSize / UnitSize)}
	g.step = g.unit
	if o.IVLargeSectors {
		g.step = 1
	}
	return g
}

// SectorSize implements Cipher.
func (g geometry) SectorSize() int { return g.size }

// first returns the number that the IV of the first of n bytes is made of. It
// panics on what is no run of whole sectors.
func (g geometry) first(n int, ivSector uint64) uint64 {
	if n%g.size != 0 {
		panic(fmt.Sprintf("sector: length %d is not a multiple of the sector size %d", n, g.size))
	}
	if ivSector%g.unit != 0 {
		panic(fmt.Sprintf("sector: IV sector %d is not a multiple of %d", ivSector, g.unit))
	}
	if g.step == 1 {
		return ivSector / g.unit
	}
	return ivSector
}

// eachSector calls do for every sector of a run, with its IV's number. It
// panics on arguments that Cipher excludes.
func (g geometry) eachSector(dst, src []byte, ivSector uint64, do func(dst, src []byte, number uint64)) {
	number := g.first(len(src), ivSector)
	if len(src) == 0 {
		return
	}
	dst = dst[:len(src)]
	if partlyOverlap(dst, src) {
		panic("sector: output overlaps input")
	}
	for ; len(src) > 0; number += g.step {
		do(dst[:g.size], src[:g.size], number)
		dst, src = dst[g.size:], src[g.size:]
	}
}

// partlyOverlap tells whether two slices of the same length, not empty, share
// memory without being the same.
func partlyOverlap(a, b []byte) bool {
	p, q, n := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0])), uintptr(len(a))
	return p != q && p < q+n && q < p+n
}
