package luks

// Layout is where the parts of a new volume will lie, in bytes.
type Layout struct {
	Version        int    // of LUKS
	Cipher         string // of the data
	KeySize        int    // bytes
	SectorSize     int    // bytes
	MetadataSize   int64  // of one copy of a LUKS2 header; 0: LUKS1
	KeyslotsOffset int64
	KeyslotsSize   int64
	KeyslotSize    int64 // what one keyslot takes of that
	Keyslots       int   // how many there is room for
	HeaderSize     int64 // all in front of the data, or the length of a detached header
	DataOffset     int64
	DataSize       int64 // bytes of data; -1: FormatOptions.DataSize was not known
}

// Plan returns where Prepare would put everything, without doing anything that
// takes time. Errors are those of Check.
func (o FormatOptions) Plan() (Layout, error) {
	l, err := o.complete()
	if err != nil {
		return Layout{}, err
	}
	p := Layout{
		Version: o.Version, Cipher: o.Cipher, KeySize: o.KeySize, SectorSize: o.SectorSize,
		MetadataSize: l.metadata, KeyslotsOffset: 2 * l.metadata, KeyslotsSize: l.keyslots, KeyslotSize: areaSize(o.KeySize),
		HeaderSize: l.size(), DataOffset: l.dataOffset, DataSize: -1,
	}
	p.Keyslots = int(min(l.keyslots/p.KeyslotSize, maxObjects))
	if o.Version == 1 {
		p.KeyslotsOffset, p.Keyslots = luks1AreaAlignment, luks1Slots
	}
	if o.DataSize > 0 {
		p.DataSize = o.DataSize - l.dataOffset
	}
	return p, nil
}
