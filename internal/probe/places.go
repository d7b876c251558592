package probe

import (
	"io"
	"slices"
)

// SectorSize is the length, in bytes, of the sectors that Places names.
const SectorSize = 512

// Places returns the offsets, ascending, of the 512-byte sectors by whose
// bytes anything is recognised on r, copies that are kept for the loss of the
// first one included. With zeros in all of them, nothing of it is found any
// more. Arguments are Identify's.
func Places(r io.ReaderAt, size int64) []int64 {
	d := disk{r: r, size: size}
	var at []int64
	for _, f := range Identify(r, size) {
		at = append(at, f.Magic)
		if f.Name == "gpt" {
			at = append(at, 0) // its protective MBR
		}
	}
	at = append(at, d.copies()...)
	for i := range at {
		at[i] &^= SectorSize - 1
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// copies finds what Identify does not ask for once it has found the first one.
func (d disk) copies() []int64 {
	var at []int64
	for _, sector := range []int64{512, 4096} {
		if d.gptAt(sector, 1) {
			at = append(at, sector)
		}
		if d.size%sector == 0 && d.size > sector && d.gptAt(d.size-sector, uint64(d.size/sector-1)) {
			at = append(at, d.size-sector)
		}
	}
	for off := int64(luksSecondaryFirst); off <= luksSecondaryLast; off *= 2 {
		if d.luksSecondaryAt(off) {
			at = append(at, off)
		}
	}
	// btrfs keeps copies of its superblock at these two places (linux,
	// fs/btrfs/disk-io.h: btrfs_sb_offset).
	for _, super := range []int64{64 << 20, 256 << 30} {
		if d.has(super+64, "_BHRfS_M") {
			at = append(at, super+64)
		}
	}
	// ZFS has two labels of 256 KiB at the start and two at the end.
	for _, label := range []int64{0, 256 << 10, d.size&^(256<<10-1) - 512<<10, d.size&^(256<<10-1) - 256<<10} {
		if label >= 0 {
			at = append(at, d.uberblocks(label)...)
		}
	}
	// A filesystem's boot sector can hide a partition table behind it.
	if s := d.at(0, 512); s[510] == 0x55 && s[511] == 0xaa {
		at = append(at, 0)
	}
	return at
}
