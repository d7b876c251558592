package probe

// The second header of a LUKS2 volume lies at one of these offsets, behind a
// first header of that size (LUKS2 On-Disk Format Specification 1.1, section 2).
const luksSecondaryFirst, luksSecondaryLast = 16 << 10, 4 << 20

// luks finds a volume by its first header.
func (d disk) luks() []Found {
	if d.has(0, "LUKS\xba\xbe") {
		switch d.be16(6) {
		case 1:
			return []Found{{"luks1", 0, 0, 512}}
		case 2:
			return []Found{{"luks2", 0, 0, 512}}
		}
	}
	return nil
}

// luksSecondary finds LUKS2 by its second header, which names its own offset
// at 256 (hdr_offset): a filesystem that contains volumes does not count, nor
// does something newer whose maker left the old second header in place, which
// is why this is asked only where nothing else is found.
func (d disk) luksSecondary() []Found {
	for off := int64(luksSecondaryFirst); off <= luksSecondaryLast; off *= 2 {
		if d.luksSecondaryAt(off) {
			return []Found{{"luks2", off, off, 512}}
		}
	}
	return nil
}

func (d disk) luksSecondaryAt(off int64) bool {
	return d.has(off, "SKUL\xba\xbe") && d.be64(off+256) == uint64(off)
}
