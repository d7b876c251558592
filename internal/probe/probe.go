// Package probe recognises what lies on a disk image or block device by its
// signatures: partition tables, filesystems, swap, RAID and volume members,
// encryption headers, image formats. It reads a few fixed places, believes
// nothing beyond the fields it names, and writes nothing.
package probe

import (
	"encoding/binary"
	"io"
)

// Found is one signature.
type Found struct {
	// Name is in lower case: "gpt", "mbr", "ext4", "xfs", "vfat", "luks2", ...
	Name string
	// Off is where the structure that holds the signature begins, in bytes.
	Off int64
	// Magic is where the signature's own bytes begin.
	Magic int64
	// BlockSize is the largest logical sector size, in bytes, that a block
	// device may have for this to stay usable on it: an ext4 of 1024-byte
	// blocks cannot be mounted from a device of 4096-byte sectors. 0: not
	// known, which is to be taken for 512.
	BlockSize int
}

// Identify returns the signatures found on the size bytes of r, partition
// tables first, then in a fixed order; nil if there is none. Places that r
// does not have, or cannot read, hold no signature. A negative size means
// unknown: nothing is looked for at the end then.
func Identify(r io.ReaderAt, size int64) []Found {
	d := disk{r: r, size: size}
	found := d.tables()
	for _, look := range []func(disk) []Found{
		disk.luks, disk.filesystems, disk.members, disk.images,
	} {
		found = append(found, look(d)...)
	}
	if len(found) == 0 {
		found = d.luksSecondary()
	}
	return found
}

// LogicalSector returns the larger of 512 and 4096 at which what lies on r
// stays usable when r becomes a block device with logical sectors of that
// size. A partition table decides alone: it counts in sectors, and finding one
// by 512 or by 4096 means that it was made so. Where nothing is known to allow
// 4096 the answer is 512, which always works.
func LogicalSector(r io.ReaderAt, size int64) int {
	found := Identify(r, size)
	if len(found) == 0 {
		return 512
	}
	if t := found[0]; t.Name == "gpt" || t.Name == "mbr" {
		return t.BlockSize
	}
	for _, f := range found {
		if f.BlockSize < 4096 {
			return 512
		}
	}
	return 4096
}

// disk reads small fields of what is probed.
type disk struct {
	r    io.ReaderAt
	size int64 // negative: unknown
}

// at returns the n bytes at off, or zeros if they are not all there.
func (d disk) at(off int64, n int) []byte {
	b := make([]byte, n)
	if off < 0 || d.size >= 0 && off > d.size-int64(n) {
		return b
	}
	if got, _ := d.r.ReadAt(b, off); got < n {
		clear(b)
	}
	return b
}

func (d disk) has(off int64, magic string) bool { return string(d.at(off, len(magic))) == magic }

func (d disk) le16(off int64) uint16 { return binary.LittleEndian.Uint16(d.at(off, 2)) }
func (d disk) le32(off int64) uint32 { return binary.LittleEndian.Uint32(d.at(off, 4)) }
func (d disk) le64(off int64) uint64 { return binary.LittleEndian.Uint64(d.at(off, 8)) }
func (d disk) be16(off int64) uint16 { return binary.BigEndian.Uint16(d.at(off, 2)) }
func (d disk) be64(off int64) uint64 { return binary.BigEndian.Uint64(d.at(off, 8)) }

// power returns 1<<shift if shift is at most most, else 0.
func power(shift uint32, most uint32) int {
	if shift > most {
		return 0
	}
	return 1 << shift
}
