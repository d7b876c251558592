package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf16"
)

// Fields of a GPT header and of its entries (UEFI specification, section 5.3).
const (
	gptHeaderMin = 92
	gptEntryMin  = 128
	gptEntryMax  = 4096
	gptArrayMax  = 1 << 20 // bytes of all entries: 64 times what programs make

	gptSize, gptCRC, gptMyLBA          = 12, 16, 24
	gptEntriesLBA, gptEntries          = 72, 80
	gptEntrySize, gptEntriesCRC        = 84, 88
	gptEntryFirst, gptEntryLast        = 32, 40
	gptEntryName, gptEntryNameEnd      = 56, 128
	gptGUIDSize                        = 16
	mbrTypeProtective             byte = 0xee
)

// readGPT returns the table of a GPT disk, nil if it is none, or ErrTable if
// no copy can be believed. The size of the sectors shows in where the first
// copy lies; the last sector holds the other one.
func (d disk) readGPT() (*Table, error) {
	var damage error
	try := func(sector, off int64, lba uint64) (*Table, error) {
		t, err := d.gptCopy(sector, off, lba)
		if err != nil && !errors.Is(err, ErrTable) {
			return nil, err
		}
		if damage == nil {
			damage = err
		}
		return t, nil
	}
	for _, sector := range []int64{512, 4096} {
		if t, err := try(sector, sector, 1); t != nil || err != nil {
			return t, err
		}
	}
	for _, sector := range []int64{512, 4096} {
		if d.size <= 2*sector || d.size%sector != 0 {
			continue
		}
		first := damage
		t, err := try(sector, d.size-sector, uint64(d.size/sector-1))
		if err != nil {
			return nil, err
		}
		if t != nil {
			if first == nil {
				first = errors.New("it is not there")
			}
			t.warn("primary GPT: %v; the backup at offset %d is used", first, d.size-sector)
			return t, nil
		}
	}
	return nil, damage
}

// gptCopy returns the table whose header is at off; nil if there is none.
func (d disk) gptCopy(sector, off int64, lba uint64) (*Table, error) {
	h, err := d.read(off, int(sector))
	if errors.Is(err, io.EOF) || err == nil && string(h[:len(gptMagic)]) != gptMagic {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	size := le.Uint32(h[gptSize:])
	if size < gptHeaderMin || int64(size) > sector {
		return nil, badGPT(off, "size of the header: %d bytes", size)
	}
	sum := le.Uint32(h[gptCRC:])
	clear(h[gptCRC:][:4])
	if got := crc32.ChecksumIEEE(h[:size]); got != sum {
		return nil, badGPT(off, "checksum 0x%08x of the header, not 0x%08x", got, sum)
	}
	if at := le.Uint64(h[gptMyLBA:]); at != lba {
		return nil, badGPT(off, "it is for sector %d, not %d", at, lba)
	}
	entries, entrySize, err := d.gptArray(h, sector, off)
	if err != nil {
		return nil, err
	}
	t := &Table{Kind: "gpt", SectorSize: int(sector)}
	for i := 0; i < len(entries); i += entrySize {
		t.addGPT(i/entrySize+1, entries[i:][:entrySize], d.size)
	}
	return t, nil
}

func badGPT(off int64, format string, args ...any) error {
	return fmt.Errorf("%w: GPT at offset %d: %s", ErrTable, off, fmt.Sprintf(format, args...))
}

// gptArray returns the entries that the header h names.
func (d disk) gptArray(h []byte, sector, off int64) (entries []byte, entrySize int, err error) {
	le := binary.LittleEndian
	lba, n, each := le.Uint64(h[gptEntriesLBA:]), le.Uint32(h[gptEntries:]), le.Uint32(h[gptEntrySize:])
	if each < gptEntryMin || each > gptEntryMax || each&(each-1) != 0 {
		return nil, 0, badGPT(off, "entries of %d bytes", each)
	}
	if n > gptArrayMax/each {
		return nil, 0, badGPT(off, "%d entries of %d bytes", n, each)
	}
	if lba > uint64(d.size/sector) {
		return nil, 0, badGPT(off, "entries at sector %d, behind the end of the disk", lba)
	}
	entries, err = d.read(int64(lba)*sector, int(n*each))
	if errors.Is(err, io.EOF) {
		return nil, 0, badGPT(off, "%d entries at sector %d reach behind the end of the disk", n, lba)
	}
	if err != nil {
		return nil, 0, err
	}
	if got, sum := crc32.ChecksumIEEE(entries), le.Uint32(h[gptEntriesCRC:]); got != sum {
		return nil, 0, badGPT(off, "checksum 0x%08x of the entries, not 0x%08x", got, sum)
	}
	return entries, int(each), nil
}

func (t *Table) addGPT(number int, e []byte, diskSize int64) {
	if [gptGUIDSize]byte(e) == [gptGUIDSize]byte{} {
		return
	}
	le := binary.LittleEndian
	first, last := le.Uint64(e[gptEntryFirst:]), le.Uint64(e[gptEntryLast:])
	n := uint64(0)
	if last >= first {
		n = last - first + 1
	}
	t.add(Partition{Number: number, Type: guid(e), Name: utf16Name(e[gptEntryName:gptEntryNameEnd])}, first, n, diskSize)
}

// guid writes a GUID: its first three parts are little-endian numbers.
func guid(b []byte) string {
	le := binary.LittleEndian
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), b[8:10], b[10:16])
}

func utf16Name(b []byte) string {
	var units []uint16
	for ; len(b) >= 2; b = b[2:] {
		u := binary.LittleEndian.Uint16(b)
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return string(utf16.Decode(units))
}
