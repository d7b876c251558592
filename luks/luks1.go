package luks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// The header of LUKS1 (LUKS1 On-Disk Format Specification 1.2.3, section 2.2):
// 592 bytes, big-endian, at the start of the volume, with eight keyslots in a
// table at its end. There is one copy of it, and it has no checksum. Offsets
// in it count sectors of 512 bytes.
const (
	typeLUKS1 = "luks1"

	luks1Size       = 592
	luks1Slots      = 8
	luks1SlotSize   = 48
	luks1NameSize   = 32 // of the strings that name cipher, mode and hash
	luks1DigestSize = 20
	luks1SaltSize   = 32

	off1Cipher           = 8
	off1Mode             = 40
	off1Hash             = 72
	off1Payload          = 104
	off1KeyBytes         = 108
	off1Digest           = 112
	off1DigestSalt       = 132
	off1DigestIterations = 164
	off1UUID             = 168
	off1Slots            = 208

	// Within a keyslot of the table.
	off1SlotState      = 0
	off1SlotIterations = 4
	off1SlotSalt       = 8
	off1SlotMaterial   = 40
	off1SlotStripes    = 44

	luks1Active   = 0x00ac71f3
	luks1Inactive = 0x0000dead
)

// luks1Header is the header of LUKS1 in Go's terms.
type luks1Header struct {
	raw [luks1Size]byte // as it was read: what lies behind a string's NUL stays

	cipher, mode, hash string
	payload            uint32 // where the data starts, in sectors; 0: in another file
	keyBytes           int    // length of the volume key
	digest             [luks1DigestSize]byte
	digestSalt         [luks1SaltSize]byte
	digestIterations   int
	uuid               string
	slots              [luks1Slots]luks1Slot
}

// luks1Slot is one row of the table of keyslots. An inactive one has its place
// too, with iterations and salt 0.
type luks1Slot struct {
	active     bool
	iterations int
	salt       [luks1SaltSize]byte
	material   uint32 // where its area starts, in sectors
	stripes    int
}

// isLUKS1 tells whether b starts as a header of version 1 does.
func isLUKS1(b []byte) bool {
	return len(b) >= offVersion+2 && hasMagic(b, Primary) && binary.BigEndian.Uint16(b[offVersion:]) == 1
}

// readLUKS1 returns the header if r starts with that of a LUKS1 volume, or the
// reason why it cannot be believed; found tells whether it is one at all.
func readLUKS1(r io.ReaderAt, size int64) (h *Header, found bool, err error) {
	b := make([]byte, luks1Size)
	n, err := readUpTo(r, b, 0)
	if err != nil || !isLUKS1(b[:n]) {
		return nil, false, nil // the reader of LUKS2 headers says what is there
	}
	h, err = parseLUKS1(b[:n], size)
	return h, true, err
}

// parseLUKS1 checks the header that b starts with, and returns it. size is the
// length of the file or device in bytes, or negative if it is not known.
func parseLUKS1(b []byte, size int64) (*Header, error) {
	if len(b) < luks1Size {
		return nil, corrupt("LUKS1 header has %d of its %d bytes", len(b), luks1Size)
	}
	l, err := decodeLUKS1(b)
	if err != nil {
		return nil, err
	}
	if err := l.validate(size); err != nil {
		return nil, err
	}
	return l.header(), nil
}

// decodeLUKS1 reads the fields, each for itself.
func decodeLUKS1(b []byte) (*luks1Header, error) {
	l := &luks1Header{
		raw:        [luks1Size]byte(b),
		payload:    binary.BigEndian.Uint32(b[off1Payload:]),
		digest:     [luks1DigestSize]byte(b[off1Digest:]),
		digestSalt: [luks1SaltSize]byte(b[off1DigestSalt:]),
	}
	for _, f := range []struct {
		name      string
		off, size int
		to        *string
		least     int
	}{
		{"cipher-name", off1Cipher, luks1NameSize, &l.cipher, 1},
		{"cipher-mode", off1Mode, luks1NameSize, &l.mode, 1},
		{"hash-spec", off1Hash, luks1NameSize, &l.hash, 1},
		{"uuid", off1UUID, uuidSize, &l.uuid, 0},
	} {
		field := b[f.off:][:f.size]
		*f.to = cString(field)
		if len(*f.to) == f.size {
			return nil, corrupt("LUKS1 %s at offset %d has no final NUL", f.name, f.off)
		}
		if len(*f.to) < f.least {
			return nil, corrupt("LUKS1 %s at offset %d is empty", f.name, f.off)
		}
	}
	var err error
	if l.keyBytes, err = luks1Int(b, "key-bytes", off1KeyBytes, 1, maxKeySize); err != nil {
		return nil, err
	}
	if l.digestIterations, err = luks1Int(b, "mk-digest-iter", off1DigestIterations, 1, maxIterations); err != nil {
		return nil, err
	}
	for i := range l.slots {
		if l.slots[i], err = decodeLUKS1Slot(b, i); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// decodeLUKS1Slot reads row i of the table.
func decodeLUKS1Slot(b []byte, i int) (luks1Slot, error) {
	off := off1Slots + i*luks1SlotSize
	name := func(field string) string { return fmt.Sprintf("keyslot %d %s", i, field) }
	s := luks1Slot{
		salt:     [luks1SaltSize]byte(b[off+off1SlotSalt:]),
		material: binary.BigEndian.Uint32(b[off+off1SlotMaterial:]),
	}
	switch state := binary.BigEndian.Uint32(b[off+off1SlotState:]); state {
	case luks1Active:
		s.active = true
	case luks1Inactive:
	default:
		return s, corrupt("LUKS1 %s at offset %d: 0x%08x is neither active nor inactive", name("state"), off+off1SlotState, state)
	}
	// Nothing reads an inactive keyslot's iterations.
	var err error
	if s.active {
		s.iterations, err = luks1Int(b, name("iterations"), off+off1SlotIterations, 1, maxIterations)
	}
	if err == nil {
		s.stripes, err = luks1Int(b, name("stripes"), off+off1SlotStripes, 1, maxStripes)
	}
	return s, err
}

// luks1Int returns the number at off, from least to most.
func luks1Int(b []byte, name string, off int, least, most uint32) (int, error) {
	n := binary.BigEndian.Uint32(b[off:])
	if n < least || n > most {
		return 0, corrupt("LUKS1 %s at offset %d: %d is not from %d to %d", name, off, n, least, most)
	}
	return int(n), nil
}

// validate checks that the areas of all keyslots, active or not, lie behind
// the header, in front of the data, in the file, and apart from each other:
// whoever adds a key writes to the area of an inactive one.
func (l *luks1Header) validate(size int64) error {
	order := make([]int, luks1Slots)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(int64(l.slots[a].material) - int64(l.slots[b].material)) })
	end, last := alignUp(luks1Size, sector.UnitSize), -1
	for _, i := range order {
		off, n := l.area(i)
		switch {
		case off < end && last < 0:
			return corrupt("LUKS1 keyslot %d: its area at offset %d lies in the header, which has %d bytes", i, off, luks1Size)
		case off < end:
			return corrupt("LUKS1 keyslot %d: its area of %d bytes at offset %d overlaps that of keyslot %d", i, n, off, last)
		case l.payload > 0 && off+n > l.payloadOffset():
			return corrupt("LUKS1 keyslot %d: its area of %d bytes at offset %d overlaps the data, which starts at %d", i, n, off, l.payloadOffset())
		case size >= 0 && off+n > size:
			return corrupt("LUKS1 keyslot %d: its area of %d bytes at offset %d ends behind the file, which has %d bytes", i, n, off, size)
		}
		end, last = off+n, i
	}
	return nil
}

// area returns where the area of a keyslot lies, active or not, in bytes: all
// of the sectors that the split key takes.
func (l *luks1Header) area(slot int) (byteOff, size int64) {
	s := &l.slots[slot]
	return int64(s.material) * sector.UnitSize, alignUp(int64(s.stripes)*int64(l.keyBytes), sector.UnitSize)
}

// areas returns where the first area starts and the last one ends, in bytes.
func (l *luks1Header) areas() (start, end int64) {
	for i := range l.slots {
		off, n := l.area(i)
		if i == 0 || off < start {
			start = off
		}
		end = max(end, off+n)
	}
	return start, end
}

// payloadOffset returns where the data starts, in bytes; 0 if it lies in
// another file.
func (l *luks1Header) payloadOffset() int64 { return int64(l.payload) * sector.UnitSize }

// spec returns the cipher string.
func (l *luks1Header) spec() string { return l.cipher + "-" + l.mode }

// freeSlot returns the first inactive keyslot, or -1.
func (l *luks1Header) freeSlot() int {
	return slices.IndexFunc(l.slots[:], func(s luks1Slot) bool { return !s.active })
}

// activate makes a keyslot one that is opened by a KDF with these iterations
// and this salt. Its place does not change.
func (l *luks1Header) activate(slot, iterations int, salt [luks1SaltSize]byte) {
	s := &l.slots[slot]
	s.active, s.iterations, s.salt = true, iterations, salt
}

// deactivate clears a keyslot. Its place does not change.
func (l *luks1Header) deactivate(slot int) {
	s := &l.slots[slot]
	s.active, s.iterations, s.salt = false, 0, [luks1SaltSize]byte{}
}

// keyslot describes a keyslot as those of LUKS2 are, active or not.
func (l *luks1Header) keyslot(slot int) Keyslot {
	s := &l.slots[slot]
	off, size := l.area(slot)
	return Keyslot{
		ID:       slot,
		Type:     typeLUKS1,
		KeySize:  l.keyBytes,
		Priority: PriorityNormal,
		KDF:      KDF{Type: KDFPBKDF2, Hash: l.hashName(), Iterations: s.iterations, Salt: slices.Clone(s.salt[:])},
		AF:       AF{Stripes: s.stripes, Hash: l.hashName()},
		Area:     Area{Type: "raw", Offset: off, Size: size, Cipher: l.spec(), KeySize: l.keyBytes},
	}
}

// hashName is the hash's name in lower case: in other case it is the same hash
// to cryptsetup.
func (l *luks1Header) hashName() string { return strings.ToLower(l.hash) }

// header describes the volume as one of LUKS2 is: active keyslots, one segment
// and one digest.
func (l *luks1Header) header() *Header {
	start, end := l.areas()
	h := &Header{
		Version: 1,
		UUID:    l.uuid,
		Size:    luks1Size,
		Config:  Config{KeyslotsSize: end - start},
		luks1:   l,
	}
	h.Segments = []Segment{{
		Type:       typeCrypt,
		Offset:     l.payloadOffset(),
		Size:       -1,
		Cipher:     l.spec(),
		SectorSize: sector.UnitSize,
	}}
	d := Digest{
		Type:     KDFPBKDF2,
		Segments: []int{0},
		KDF:      KDF{Type: KDFPBKDF2, Hash: l.hashName(), Iterations: l.digestIterations, Salt: slices.Clone(l.digestSalt[:])},
		Value:    slices.Clone(l.digest[:]),
	}
	for i := range l.slots {
		if l.slots[i].active {
			h.Keyslots = append(h.Keyslots, l.keyslot(i))
			d.Keyslots = append(d.Keyslots, i)
		}
	}
	h.Digests = []Digest{d}
	return h
}

// encode returns the 592 bytes of the header. What was read, and is not a
// field's value, stays as it was.
func (l *luks1Header) encode() []byte {
	b := bytes.Clone(l.raw[:])
	copy(b, magicPrimary)
	binary.BigEndian.PutUint16(b[offVersion:], 1)
	for _, f := range []struct {
		off, size int
		text      string
	}{
		{off1Cipher, luks1NameSize, l.cipher},
		{off1Mode, luks1NameSize, l.mode},
		{off1Hash, luks1NameSize, l.hash},
		{off1UUID, uuidSize, l.uuid},
	} {
		if field := b[f.off:][:f.size]; cString(field) != f.text {
			clear(field)
			copy(field[:f.size-1], f.text)
		}
	}
	binary.BigEndian.PutUint32(b[off1Payload:], l.payload)
	binary.BigEndian.PutUint32(b[off1KeyBytes:], uint32(l.keyBytes))
	copy(b[off1Digest:], l.digest[:])
	copy(b[off1DigestSalt:], l.digestSalt[:])
	binary.BigEndian.PutUint32(b[off1DigestIterations:], uint32(l.digestIterations))
	for i, s := range l.slots {
		s.encode(b[off1Slots+i*luks1SlotSize:][:luks1SlotSize])
	}
	return b
}

// encode writes a row of the table.
func (s *luks1Slot) encode(row []byte) {
	if s.active {
		binary.BigEndian.PutUint32(row[off1SlotState:], luks1Active)
		binary.BigEndian.PutUint32(row[off1SlotIterations:], uint32(s.iterations))
	} else if binary.BigEndian.Uint32(row[off1SlotState:]) != luks1Inactive {
		binary.BigEndian.PutUint32(row[off1SlotState:], luks1Inactive)
		binary.BigEndian.PutUint32(row[off1SlotIterations:], 0)
	}
	copy(row[off1SlotSalt:], s.salt[:])
	binary.BigEndian.PutUint32(row[off1SlotMaterial:], s.material)
	binary.BigEndian.PutUint32(row[off1SlotStripes:], uint32(s.stripes))
}
