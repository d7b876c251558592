package probe

import (
	"math/bits"
	"slices"
)

// filesystems finds everything that is mounted as it is, and swap. Offsets and
// fields are those of the on-disk structures in Linux's headers
// (include/uapi/linux/*_fs.h and the like).
func (d disk) filesystems() []Found {
	var found []Found
	for _, look := range []func(disk) *Found{
		disk.ext, disk.xfs, disk.btrfs, disk.bootSector, disk.iso, disk.squashfs,
		disk.erofs, disk.f2fs, disk.jfs, disk.reiserfs, disk.apfs, disk.hfsplus, disk.swap,
	} {
		if f := look(d); f != nil {
			found = append(found, *f)
		}
	}
	return found
}

// ext tells ext2, ext3 and ext4 apart by feature bits, as blkid does.
func (d disk) ext() *Found {
	const super = 1024
	size := power(d.le32(super+24), 6) << 10
	if d.le16(super+56) != 0xef53 || size == 0 {
		return nil
	}
	const (
		hasJournal    = 0x4  // compatible feature
		journalDev    = 0x8  // incompatible: an external journal
		ext3Incompat  = 0x16 // what ext3 has of these: filetype, recover, meta_bg
		ext3ReadWrite = 0x7  // and of the read-only compatible: sparse_super, large_file, btree_dir
	)
	compat, incompat, readWrite := d.le32(super+92), d.le32(super+96), d.le32(super+100)
	name := "ext2"
	switch {
	case incompat&journalDev != 0:
		name = "jbd"
	case incompat&^ext3Incompat != 0, readWrite&^ext3ReadWrite != 0:
		name = "ext4"
	case compat&hasJournal != 0:
		name = "ext3"
	}
	return &Found{name, super, super + 56, size}
}

// xfs addresses the device in its own sectors (sb_sectsize), which are often
// smaller than its blocks.
func (d disk) xfs() *Found {
	sector := int(d.be16(102))
	if !d.has(0, "XFSB") || sector < 512 || bits.OnesCount(uint(sector)) != 1 {
		return nil
	}
	return &Found{"xfs", 0, 0, sector}
}

func (d disk) btrfs() *Found {
	const super = 64 << 10
	if !d.has(super+64, "_BHRfS_M") {
		return nil
	}
	return &Found{"btrfs", super, super + 64, int(d.le32(super+144)) & (1<<20 - 1)}
}

// bootSector finds the family of FAT, exFAT, NTFS and BitLocker, which share
// the layout of the first sector.
func (d disk) bootSector() *Found {
	s := d.at(0, 512)
	if s[510] != 0x55 || s[511] != 0xaa {
		return nil
	}
	bytesPerSector := int(s[11]) | int(s[12])<<8
	switch string(s[3:11]) {
	case "NTFS    ":
		return &Found{"ntfs", 0, 0, bytesPerSector}
	case "EXFAT   ":
		return &Found{"exfat", 0, 0, power(uint32(s[108]), 12)}
	case "-FVE-FS-":
		return &Found{"bitlocker", 0, 0, bytesPerSector}
	}
	if !slices.Contains([]int{512, 1024, 2048, 4096}, bytesPerSector) ||
		bits.OnesCount8(s[13]) != 1 || // sectors per cluster
		s[14]|s[15] == 0 || // reserved sectors
		s[16] == 0 || s[16] > 2 || // copies of the FAT
		s[21] < 0xf0 { // media
		return nil
	}
	if string(s[82:87]) == "FAT32" || string(s[54:57]) == "FAT" {
		return &Found{"vfat", 0, 0, bytesPerSector}
	}
	return nil
}

func (d disk) iso() *Found {
	const volume = 32 << 10
	switch string(d.at(volume+1, 5)) {
	case "CD001":
		return &Found{"iso9660", volume, volume + 1, 2048}
	case "BEA01", "NSR02", "NSR03":
		return &Found{"udf", volume, volume + 1, 512}
	}
	return nil
}

func (d disk) squashfs() *Found {
	if !d.has(0, "hsqs") || d.le16(28) != 4 { // major version
		return nil
	}
	return &Found{"squashfs", 0, 0, 1024}
}

func (d disk) erofs() *Found {
	const super = 1024
	if d.le32(super) != 0xe0f5e1e2 {
		return nil
	}
	return &Found{"erofs", super, super, power(uint32(d.at(super+12, 1)[0]), 16)}
}

func (d disk) f2fs() *Found {
	const super = 1024
	if d.le32(super) != 0xf2f52010 {
		return nil
	}
	return &Found{"f2fs", super, super, power(d.le32(super+8), 12)}
}

func (d disk) jfs() *Found {
	const super = 32 << 10
	if !d.has(super, "JFS1") {
		return nil
	}
	return &Found{"jfs", super, super, int(d.le32(super+24)) & (1<<20 - 1)} // s_pbsize
}

func (d disk) reiserfs() *Found {
	const super = 64 << 10
	for _, magic := range []string{"ReIsErFs", "ReIsEr2Fs", "ReIsEr3Fs"} {
		if d.has(super+52, magic) {
			return &Found{"reiserfs", super, super + 52, int(d.le16(super + 44))}
		}
	}
	return nil
}

func (d disk) apfs() *Found {
	if !d.has(32, "NXSB") {
		return nil
	}
	return &Found{"apfs", 0, 32, int(d.le32(36)) & (1<<20 - 1)}
}

func (d disk) hfsplus() *Found {
	const volume = 1024
	if version := d.be16(volume + 2); d.has(volume, "H+") && version == 4 || d.has(volume, "HX") && version == 5 {
		return &Found{"hfsplus", volume, volume, 512}
	}
	return nil
}

// swap has its signature at the end of the first page, whose size is the
// machine's that made it.
func (d disk) swap() *Found {
	for page := 4 << 10; page <= 64<<10; page *= 2 {
		if off := int64(page) - 10; d.has(off, "SWAPSPACE2") || d.has(off, "SWAP-SPACE") {
			return &Found{"swap", 0, off, page}
		}
	}
	return nil
}
