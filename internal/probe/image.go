package probe

// images finds formats of virtual disks: their contents are not sectors of a
// disk, so that a block device made of one shows nothing that can be mounted.
func (d disk) images() []Found {
	for _, f := range []struct {
		name  string
		off   int64
		magic string
	}{
		{"qcow2", 0, "QFI\xfb"},
		{"vmdk", 0, "KDMV"},
		{"vhdx", 0, "vhdxfile"},
		{"vdi", 64, "\x7f\x10\xda\xbe"},
	} {
		if d.has(f.off, f.magic) {
			return []Found{{f.name, 0, f.off, 512}}
		}
	}
	return nil
}
