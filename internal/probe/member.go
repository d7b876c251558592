package probe

// members finds what is a part of something larger, or a layer below a
// filesystem. What size of sector the upper layer needs is not to be seen
// from here, so BlockSize is 512.
func (d disk) members() []Found {
	var found []Found
	add := func(name string, off int64) { found = append(found, Found{name, off, off, 512}) }
	for sector := int64(0); sector < 4; sector++ {
		if off := sector * 512; d.has(off, "LABELONE") && d.has(off+24, "LVM2 001") {
			add("lvm2", off)
		}
	}
	for _, off := range d.raidPlaces() {
		if d.le32(off) == 0xa92b4efc {
			add("linux_raid", off)
		}
	}
	if d.has(4096+24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81") {
		add("bcache", 4096)
	}
	if d.has(0, "integrt\x00") {
		add("dm-integrity", 0)
	}
	if d.has(0, "verity\x00\x00") {
		add("dm-verity", 0)
	}
	// The ring of uberblocks of the first ZFS label.
	for _, off := range d.uberblocks(0) {
		add("zfs", off)
		break
	}
	return found
}

// uberblocks returns the offsets of the valid entries in the ring of the ZFS
// label at off: 128 KiB behind its beginning, and at least 1 KiB each.
func (d disk) uberblocks(off int64) []int64 {
	var found []int64
	for at := off + 128<<10; at < off+256<<10; at += 1024 {
		if m := d.le64(at); m == 0x00bab10c || m == 0x0cb1ba0000000000 {
			found = append(found, at)
		}
	}
	return found
}

// raidPlaces are the offsets of md superblocks: versions 1.1, 1.2, 1.0, 0.90
// (md(4) and include/uapi/linux/raid/md_p.h).
func (d disk) raidPlaces() []int64 {
	places := []int64{0, 4096}
	if d.size >= 128<<10 {
		places = append(places, d.size&^4095-8192, d.size&^65535-65536)
	}
	return places
}
