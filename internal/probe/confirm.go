package probe

import (
	"hash/crc32"
	"io"
)

// Confirm tells whether what f was found by is right beyond its signature:
// something is looked at that lies elsewhere. What has nothing to look at is
// right.
func (f Found) Confirm(r io.ReaderAt, size int64) bool {
	d := disk{r: r, size: size}
	switch f.Name {
	case "ext2", "ext3", "ext4", "jbd":
		return d.confirmExt()
	case "xfs":
		return d.has(int64(d.be16(102)), "XAGF")
	case "vfat":
		// The first FAT begins with the media byte.
		fat := int64(d.le16(14)) * int64(d.le16(11))
		return d.at(fat, 1)[0] == d.at(21, 1)[0] && d.at(fat+1, 1)[0] == 0xff
	case "gpt":
		t, err := d.gptCopy(int64(f.BlockSize), f.Off, d.le64(f.Off+24))
		return err == nil && t != nil
	case "mbr":
		// A protective one has its GPT behind it.
		return d.at(446+4, 1)[0] != mbrTypeProtective
	}
	return true
}

// confirmExt checks the second half of the superblock: by its checksum where
// there is one, else its reserved words, which are zero.
func (d disk) confirmExt() bool {
	const (
		super            = 1024
		featureROCsum    = 0x400 // metadata_csum
		reserved, offSum = 0x300, 0x3fc
	)
	b := d.at(super, 1024)
	if d.le32(super+100)&featureROCsum != 0 {
		// ext4's CRC32C goes without the last inversion.
		sum := ^crc32.Checksum(b[:offSum], crc32.MakeTable(crc32.Castagnoli))
		return sum == d.le32(super+offSum)
	}
	for _, c := range b[reserved:offSum] {
		if c != 0 {
			return false
		}
	}
	return true
}

// Extent returns how many bytes what was found says that it takes, or 0 if that
// is not known.
func (f Found) Extent(r io.ReaderAt, size int64) int64 {
	d := disk{r: r, size: size}
	var units, unit uint64
	switch f.Name {
	case "ext2", "ext3", "ext4":
		const super, incompat64bit = 1024, 0x80
		units, unit = uint64(d.le32(super+4)), uint64(f.BlockSize)
		if d.le32(super+96)&incompat64bit != 0 {
			units |= uint64(d.le32(super+0x150)) << 32
		}
	case "xfs":
		units, unit = d.be64(8), uint64(be32(d.at(4, 4)))
	case "vfat":
		units, unit = uint64(d.le16(19)), uint64(d.le16(11))
		if units == 0 {
			units = uint64(d.le32(32))
		}
	case "gpt":
		units, unit = max(d.le64(f.Off+24), d.le64(f.Off+32))+1, uint64(f.BlockSize)
	}
	if unit == 0 || units > 1<<62/unit {
		return 0
	}
	return int64(units * unit)
}

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}
