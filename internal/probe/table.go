package probe

const gptMagic = "EFI PART"

// tables finds GPT and MBR. A GPT's header lies in logical sector 1 (UEFI
// specification, section 5.3), so its place tells the sector size it was made
// for; the copy at the end lies in the last sector.
func (d disk) tables() []Found {
	for _, sector := range []int{512, 4096} {
		if d.gptAt(int64(sector), 1) {
			return []Found{{"gpt", int64(sector), int64(sector), sector}}
		}
	}
	for _, sector := range []int64{512, 4096} {
		if d.size%sector == 0 && d.size > sector && d.gptAt(d.size-sector, uint64(d.size/sector-1)) {
			return []Found{{"gpt", d.size - sector, d.size - sector, int(sector)}}
		}
	}
	if d.mbr() {
		return []Found{{"mbr", 0, 510, 512}}
	}
	return nil
}

// gptAt checks the signature and the header's own number (MyLBA, at 24).
func (d disk) gptAt(off int64, lba uint64) bool {
	return d.has(off, gptMagic) && d.le64(off+24) == lba
}

// mbr tells a partition table from the boot sector of a filesystem, which ends
// in the same two bytes: the boot indicators are 0 or 0x80, and at least one
// entry has a type and a length.
func (d disk) mbr() bool {
	s := d.at(0, 512)
	if s[510] != 0x55 || s[511] != 0xaa || d.bootSector() != nil {
		return false
	}
	used := 0
	for e := s[446:510]; len(e) > 0; e = e[16:] {
		if e[0]&0x7f != 0 {
			return false
		}
		if e[4] != 0 && (e[12]|e[13]|e[14]|e[15]) != 0 {
			used++
		}
	}
	return used > 0
}
