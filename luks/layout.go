package luks

import (
	"fmt"
	"slices"
)

// Defaults of cryptsetup 2.6 for where things lie, in bytes.
const (
	defaultMetadataSize = 16 << 10
	defaultHeaderSize   = 16 << 20 // both copies and the keyslots area
	dataAlignment       = 1 << 20
	areaAlignment       = 4096 // of the keyslots area, of areas in it, and of the data
)

// layout is where the parts of a new volume lie, in bytes.
type layout struct {
	metadata   int64 // size of one header copy
	keyslots   int64 // size of the keyslots area, at 2*metadata
	dataOffset int64
	detached   int64 // length of a header whose data lies elsewhere, or 0
}

// size returns how many bytes from the start on are the header's.
func (l layout) size() int64 {
	if l.detached > 0 {
		return l.detached
	}
	return l.dataOffset
}

// newLayout follows cryptsetup 2.6: the keyslots area takes what the data
// offset leaves, or else the rest of 16 MiB; a given size is cut to what a
// given data offset leaves; a data offset that is not given is the end of the
// keyslots area, aligned to 1 MiB.
func newLayout(o *FormatOptions) (layout, error) {
	l := layout{metadata: o.MetadataSize, keyslots: o.KeyslotsSize, dataOffset: o.DataOffset}
	if l.metadata == 0 {
		l.metadata = defaultMetadataSize
	}
	if !slices.Contains(headerSizes, l.metadata) {
		return l, fmt.Errorf("%w: metadata size %d is not a power of two from 16 KiB to 4 MiB", ErrOption, l.metadata)
	}
	if l.keyslots < 0 || l.keyslots > maxKeyslotsSize || l.keyslots%areaAlignment != 0 {
		return l, fmt.Errorf("%w: keyslots size %d is not a multiple of 4096 bytes up to 128 MiB", ErrOption, l.keyslots)
	}
	if l.dataOffset < 0 || l.dataOffset%areaAlignment != 0 {
		return l, fmt.Errorf("%w: data offset %d is not a multiple of 4096 bytes", ErrOption, l.dataOffset)
	}
	start := 2 * l.metadata
	if l.dataOffset > 0 {
		room := l.dataOffset - start
		if room < 0 {
			return l, fmt.Errorf("%w: data offset %d lies inside the header, which has %d bytes without keyslots", ErrOption, l.dataOffset, start)
		}
		if l.keyslots == 0 || l.keyslots > room {
			l.keyslots = min(room, maxKeyslotsSize)
		}
	} else {
		if l.keyslots == 0 {
			l.keyslots = defaultHeaderSize - start
		}
		if !o.Detached {
			l.dataOffset = alignUp(start+l.keyslots, dataAlignment)
		}
	}
	if o.Detached {
		l.detached = start + l.keyslots
	}
	return l, l.checkRoom(o)
}

// checkRoom makes sure that a keyslot fits, and some data behind the header.
func (l layout) checkRoom(o *FormatOptions) error {
	if need := areaSize(o.KeySize); need > l.keyslots {
		return fmt.Errorf("%w: keyslots area of %d bytes; one keyslot takes %d", ErrOption, l.keyslots, need)
	}
	if o.DataSize == 0 {
		return nil
	}
	data := o.DataSize - l.dataOffset
	if data <= 0 {
		return fmt.Errorf("%w: %d bytes hold no data behind a header of %d bytes", ErrSize, o.DataSize, l.dataOffset)
	}
	if data%int64(o.SectorSize) != 0 {
		return fmt.Errorf("%w: %d bytes behind the header are not a multiple of the sector size %d", ErrSize, data, o.SectorSize)
	}
	return nil
}

// afStripes is the number of stripes of keyslots: "for historical reasons only
// the 4000 value is supported" (specification, section 3.2.4).
const afStripes = 4000

// areaSize is the size in bytes of the area for a key of n bytes.
func areaSize(n int) int64 { return alignUp(int64(n)*afStripes, areaAlignment) }

func alignUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
