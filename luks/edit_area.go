package luks

import (
	"cmp"
	"fmt"
	"slices"
)

// freeArea returns the offset in bytes of the first gap of the keyslots area
// that holds size bytes.
func (e *Editor) freeArea(size int64) (int64, error) {
	h := e.header
	areas := slices.Clone(h.Keyslots)
	slices.SortFunc(areas, func(a, b Keyslot) int { return cmp.Compare(a.Area.Offset, b.Area.Offset) })
	end := h.End()
	if e.size >= 0 {
		end = min(end, e.size)
	}
	at, largest := alignUp(h.KeyslotsOffset(), areaAlignment), int64(0)
	for _, k := range append(areas, Keyslot{Area: Area{Offset: end}}) {
		if gap := k.Area.Offset - at; gap >= size {
			return at, nil
		} else if gap > largest {
			largest = gap
		}
		at = max(at, alignUp(k.Area.Offset+k.Area.Size, areaAlignment))
	}
	return 0, fmt.Errorf("%w: a new keyslot takes %d bytes of the keyslots area of %d, and the largest free part has %d",
		ErrSize, size, h.Config.KeyslotsSize, largest)
}

// freeID returns the lowest ID below most that is not among ids, or -1.
func freeID(ids []string, most int) int {
	used := map[int]bool{}
	for _, s := range ids {
		if id, ok := parseID(s); ok {
			used[id] = true
		}
	}
	for id := range most {
		if !used[id] {
			return id
		}
	}
	return -1
}

// writeArea writes the contents of a keyslot's area, fills the rest of it with
// random bytes, and makes that durable.
func (e *Editor) writeArea(area []byte, byteOff, size int64) error {
	whole := append(slices.Clip(area), randomBytes(int(size)-len(area))...)
	if err := writeAt(e.st, whole, byteOff); err != nil {
		return err
	}
	return flush(e.st)
}

// wipeArea overwrites a keyslot's area with random bytes, as cryptsetup does,
// and makes that durable. What a disk keeps elsewhere of overwritten sectors is
// out of its reach.
func (e *Editor) wipeArea(a Area) error {
	for off := a.Offset; off < a.Offset+a.Size; off += fillChunk {
		n := min(a.Offset+a.Size-off, fillChunk)
		if e.size >= 0 {
			n = min(n, e.size-off)
		}
		if n <= 0 {
			break
		}
		if err := writeAt(e.st, randomBytes(int(n)), off); err != nil {
			return err
		}
	}
	return flush(e.st)
}
