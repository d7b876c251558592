package luks

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// CopyState is what became of one copy of a header.
type CopyState struct {
	Copy   Copy   // which one
	Offset int64  // bytes
	Epoch  uint64 // its sequence number; 0 if it cannot be read, and for LUKS1
	Err    error  // nil: it is whole
}

// InspectCopies reads each copy of a header by itself: the one of LUKS1, or
// both of LUKS2. With the first one damaged the second is looked for at all of
// its possible offsets; there is no row for a copy of which nothing is found,
// unless the other one is there.
func InspectCopies(r io.ReaderAt, size int64) []CopyState {
	if _, found, err := readLUKS1(r, size); found {
		return []CopyState{{Primary, 0, 0, err}}
	}
	first, err := readCopy(r, size, Primary, 0)
	state := CopyState{Copy: Primary, Err: err}
	if err == nil {
		state.Epoch = first.SeqID
		second := CopyState{Copy: Secondary, Offset: first.Size}
		h, err := readCopy(r, size, Secondary, first.Size)
		if second.Err = err; err == nil {
			second.Epoch = h.SeqID
		}
		return []CopyState{state, second}
	}
	for _, off := range headerSizes {
		h, err := readCopy(r, size, Secondary, off)
		if errors.Is(err, ErrNotLUKS) {
			continue
		}
		second := CopyState{Copy: Secondary, Offset: off, Err: err}
		if err == nil {
			second.Epoch = h.SeqID
		}
		return []CopyState{state, second}
	}
	if errors.Is(state.Err, ErrNotLUKS) {
		return nil
	}
	return []CopyState{state}
}

// AreaState is what the bytes of a keyslot's area look like. What lies there is
// encrypted, so its bytes must be spread evenly; see damagedChi2.
type AreaState struct {
	Slot     int     // number of the keyslot
	Offset   int64   // bytes
	Sectors  int     // of 512 bytes, that hold the key
	Damaged  []Range // of sectors that cannot hold encrypted data, the first few
	Bad      int     // how many sectors that are in all
	Missing  int64   // bytes that lie behind the end of the file
	MaxChi2  float64 // the largest χ² of a sector; for encrypted data about 255, and never above 600
	Entropy  float64 // bits a byte, of the whole area; close to 8
	Measured int64   // bytes
}

// Range is some bytes in a row.
type Range struct {
	Offset int64 // from the start of the header
	Size   int64 // at least 1
}

// maxMeasured bounds how much of an area is read, in bytes: twice what the
// largest key takes in 4000 stripes.
const maxMeasured = 4 << 20

// maxRanges bounds AreaState.Damaged.
const maxRanges = 16

// InspectArea measures the area of a keyslot; ErrNoKeyslot if it has none that
// holds a key. Errors otherwise are those of r.
func (h *Header) InspectArea(r io.ReaderAt, slot int) (AreaState, error) {
	k := h.keyslot(slot)
	if k == nil || !k.holdsKey() {
		return AreaState{}, fmt.Errorf("%w: there is no keyslot %d that holds a key", ErrNoKeyslot, slot)
	}
	total := min(k.areaBytes(), maxMeasured)
	s := AreaState{Slot: slot, Offset: k.Area.Offset, Sectors: int(total / keyslotSector)}
	var count [256]int64
	buf := make([]byte, min(scanChunk, total))
	for at := int64(0); at < total; {
		part := buf[:min(int64(len(buf)), total-at)]
		n, err := readUpTo(r, part, k.Area.Offset+at)
		if err != nil {
			return s, err
		}
		for _, c := range part[:n] {
			count[c]++
		}
		s.sectors(part[:n], k.Area.Offset+at)
		s.Measured += int64(n)
		if at += int64(len(part)); n < len(part) {
			break
		}
	}
	s.Missing = total - s.Measured
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(s.Measured)
			s.Entropy -= p * math.Log2(p)
		}
	}
	return s, nil
}

// sectors measures the whole sectors of b, which lies at byteOff.
func (s *AreaState) sectors(b []byte, byteOff int64) {
	for ; len(b) >= keyslotSector; b, byteOff = b[keyslotSector:], byteOff+keyslotSector {
		x := chi2(b[:keyslotSector])
		s.MaxChi2 = max(s.MaxChi2, x)
		if x <= damagedChi2 {
			continue
		}
		s.Bad++
		if n := len(s.Damaged); n > 0 && s.Damaged[n-1].Offset+s.Damaged[n-1].Size == byteOff {
			s.Damaged[n-1].Size += keyslotSector
		} else if n < maxRanges {
			s.Damaged = append(s.Damaged, Range{byteOff, keyslotSector})
		}
	}
}
