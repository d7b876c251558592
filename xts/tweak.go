package xts

import "encoding/binary"

// TweakKind is how the number of a sector becomes the 16 bytes of its tweak,
// named as Linux's dm-crypt names its initialisation vectors (kernel file
// drivers/md/dm-crypt.c).
type TweakKind uint8

const (
	// Plain64 is the number in 64 bits, little-endian, and 8 bytes of zeros.
	// It wraps at 2^64 without a carry into the zeros.
	Plain64 TweakKind = iota
	// Plain is the number's low 32 bits, little-endian, and 12 bytes of zeros.
	// It repeats after 2^32 sectors: 2 TiB of 512 bytes.
	Plain
	// Plain64BE is 8 bytes of zeros and the number in 64 bits, big-endian.
	Plain64BE
)

// String returns dm-crypt's name: plain64, plain, plain64be.
func (k TweakKind) String() string {
	switch k {
	case Plain64:
		return "plain64"
	case Plain:
		return "plain"
	case Plain64BE:
		return "plain64be"
	}
	return "invalid"
}

// Tweak returns the unencrypted tweak of the sector numbered number. It
// panics on a kind that is not defined here.
func (k TweakKind) Tweak(number uint64) (tweak [16]byte) {
	switch k {
	case Plain64:
		binary.LittleEndian.PutUint64(tweak[:8], number)
	case Plain:
		binary.LittleEndian.PutUint32(tweak[:4], uint32(number))
	case Plain64BE:
		binary.BigEndian.PutUint64(tweak[8:], number)
	default:
		panic("xts: invalid tweak kind")
	}
	return tweak
}

// Run describes a run of sectors whose tweaks are counted. Sector i has the
// number First + Offset + i·Step, in 64 bits with wrap-around, from which Kind
// makes the tweak.
//
// dm-crypt counts in 512-byte units whatever the sector size, so its step is
// SectorSize/512, unless the mapping has iv_large_sectors: then First counts
// sectors and the step is 1.
type Run struct {
	SectorSize int       // bytes, a positive multiple of 16, at most MaxUnitSize
	Kind       TweakKind // how a number becomes a tweak
	First      uint64    // number of the first sector, before Offset
	Step       uint64    // from one sector's number to the next; 0 means 1
	Offset     uint64    // added to First (dm-crypt's iv_offset)
}

// start returns the number of the first sector and the step. Its receiver is a
// pointer because the copy of a Run is made by halves that are loaded whole,
// which stalls for 40 cycles.
func (r *Run) start() (first, step uint64) {
	step = r.Step
	if step == 0 {
		step = 1
	}
	return r.First + r.Offset, step
}

// sectorsToWrap returns how many of n sectors from number first on come before
// the 32-bit number wraps. It is at least 1 for n ≥ 1.
func sectorsToWrap(first, step uint32, n int) int {
	if step == 0 {
		return n
	}
	left := (uint64(1)<<32 - uint64(first) + uint64(step) - 1) / uint64(step)
	return int(min(left, uint64(n)))
}
