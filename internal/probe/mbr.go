package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// An MBR's table: four entries of 16 bytes at 446, each with a type at 4, the
// first sector at 8 and the number of sectors at 12.
const (
	mbrEntries, mbrEntrySize     = 446, 16
	mbrType, mbrFirst, mbrLength = 4, 8, 12

	// maxLogical bounds the chain of extended partitions, in which each table
	// points to the next. fdisk makes 60 partitions at most.
	maxLogical = 256
)

type mbrEntry struct {
	kind     byte
	first, n uint32 // sectors
}

func (e mbrEntry) used() bool { return e.kind != 0 && e.n != 0 }

func (e mbrEntry) extended() bool { return slices.Contains([]byte{0x05, 0x0f, 0x85}, e.kind) }

func mbrTable(b []byte) (list [4]mbrEntry) {
	le := binary.LittleEndian
	for i := range list {
		e := b[mbrEntries+i*mbrEntrySize:]
		list[i] = mbrEntry{e[mbrType], le.Uint32(e[mbrFirst:]), le.Uint32(e[mbrLength:])}
	}
	return list
}

// readMBR reads the table with 512-byte sectors, and also with 4096-byte ones,
// which count if the partitions begin with something known only then.
func (d disk) readMBR() (*Table, error) {
	small, err := d.mbrBySector(512)
	if err != nil {
		return nil, err
	}
	if d.size%4096 != 0 {
		return small, nil
	}
	large, err := d.mbrBySector(4096)
	if err != nil {
		return nil, err
	}
	if large.known(d.r) > small.known(d.r) {
		return large, nil
	}
	return small, nil
}

func (d disk) mbrBySector(sector int) (*Table, error) {
	b, err := d.read(0, 512)
	if err != nil {
		return nil, err
	}
	t := &Table{Kind: "mbr", SectorSize: sector}
	next := 5
	for i, e := range mbrTable(b) {
		switch {
		case !e.used():
		case e.kind == mbrTypeProtective:
			return nil, fmt.Errorf("%w: the MBR says that there is a GPT, and there is none", ErrTable)
		case e.extended():
			if next, err = d.logical(t, e, next); err != nil {
				return nil, err
			}
		default:
			t.add(Partition{Number: i + 1, Type: fmt.Sprintf("%02x", e.kind)}, uint64(e.first), uint64(e.n), d.size)
		}
	}
	slices.SortFunc(t.Partitions, func(a, b Partition) int { return a.Number - b.Number })
	return t, nil
}

// logical follows the chain of an extended partition: in each of its tables
// the first entry is a partition, counted from that table, and the second the
// next table, counted from the extended partition. It returns the next number.
func (d disk) logical(t *Table, extended mbrEntry, number int) (int, error) {
	base, at := uint64(extended.first), uint64(extended.first)
	seen := map[uint64]bool{}
	for {
		if seen[at] || len(seen) == maxLogical {
			t.warn("the chain of logical partitions does not end: partition %d is the last one taken", number-1)
			return number, nil
		}
		seen[at] = true
		b, err := d.read(int64(at)*int64(t.SectorSize), 512)
		if err != nil && !errors.Is(err, io.EOF) {
			return number, err
		}
		if err != nil || b[510] != 0x55 || b[511] != 0xaa {
			t.warn("there is no table of logical partitions at sector %d", at)
			return number, nil
		}
		list := mbrTable(b)
		if e := list[0]; e.used() && !e.extended() {
			t.add(Partition{Number: number, Type: fmt.Sprintf("%02x", e.kind)}, at+uint64(e.first), uint64(e.n), d.size)
			number++
		}
		if !list[1].used() || !list[1].extended() {
			return number, nil
		}
		at = base + uint64(list[1].first)
	}
}
