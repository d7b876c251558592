package luks

import (
	"hash"
	"math"
	"slices"

	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// Reencryption is what the header says of a reencryption under way: what the
// data was, what it is to become, how far that has come, and what keeps the
// part that is being rewritten from being lost. Nothing of it is carried out
// here; it is a plan by which the data can be read as it stands.
type Reencryption struct {
	Requirement string // the mandatory requirement that announces it: "online-reencrypt-v2"
	Mode        string // "reencrypt", "encrypt" (the data was plain) or "decrypt" (it will be)
	Direction   string // "forward" or "backward"
	Resilience  string // the area's type: "none", "checksum", "journal", "datashift", "datashift-checksum" or "datashift-journal"

	// Old and New describe all of the data before and after (the segments
	// flagged backup-previous and backup-final).
	Old, New Segment
	// Segments hold the data as it is, in the order of the data. A hot zone is
	// among them as it will be: its bytes are to be read through Hot.
	Segments []Segment
	Hot      *HotZone // nil if it was stopped between two zones

	version int
	keyslot *Keyslot
	moved   *Segment // the first data, kept elsewhere while the rest moves; or nil
}

// HotZone is the part of the data that was being rewritten when a reencryption
// was broken off. Any of its sectors may be old or new.
type HotZone struct {
	// New is where the zone lies and how it is encrypted when done. Its ID is
	// that of the current segment.
	New Segment
	// Old is where the data comes from and how it is encrypted there, with the
	// same size; its ID is that of Reencryption.Old. In place (New.Offset) for
	// protection by checksums or a journal, elsewhere for a data shift.
	Old Segment
	// Protection says how old data is told from new, or kept: "checksum" (Area
	// holds the checksum of every old block), "journal" (Area holds the old
	// data as it was), "datashift" (the old data is still at Old), or "none".
	Protection string
	// Area is the keyslot's area, in the file or device of the header.
	Area Area
	// Block is the length in bytes of the units in which the zone is read: of
	// what one checksum covers, else of the larger sector size of old and new.
	Block int
	// NewHash makes the hash of "checksum"; nil otherwise.
	NewHash func() hash.Hash
}

// Modes, directions and protections of reencryption (specification, section 3.2.2).
const (
	modeReencrypt = "reencrypt"
	modeEncrypt   = "encrypt"
	modeDecrypt   = "decrypt"

	directionForward  = "forward"
	directionBackward = "backward"

	protectionNone     = "none"
	protectionChecksum = "checksum"
	protectionJournal  = "journal"
	protectionShift    = "datashift"

	flagPrevious = "backup-previous"
	flagFinal    = "backup-final"
	flagMoved    = "backup-moved-segment"
)

// onlineVersions are the requirements of reencryption, with the version of
// their metadata. From version 2 on a digest vouches for it.
var onlineVersions = map[string]int{"online-reencrypt": 1, "online-reencrypt-v2": 2, "online-reencrypt-v3": 3}

// onlineRequirement returns the requirement that says that a reencryption is
// under way, and its version; "" if there is none.
func (h *Header) onlineRequirement() (name string, version int) {
	for _, r := range h.Config.Requirements {
		if v := onlineVersions[r]; v > version {
			name, version = r, v
		}
	}
	return name, version
}

// Reencryption returns the state of a reencryption that is under way, checked,
// and how to read the data in spite of it; nil without an error if none is.
// What the digest of the metadata says of it is Unlock's to find out, since it
// takes the keys. Errors wrap ErrHeaderCorrupt or ErrUnsupported.
func (h *Header) Reencryption() (*Reencryption, error) {
	r := &Reencryption{}
	if r.Requirement, r.version = h.onlineRequirement(); r.version == 0 {
		return nil, nil
	}
	for _, other := range h.Config.Requirements {
		if other != r.Requirement {
			return nil, unsupported("requirement %s beside %s", quote(other), r.Requirement)
		}
	}
	for _, step := range []func(*Header) error{r.findKeyslot, r.findBackups, r.findSegments, r.findHot} {
		if err := step(h); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// findKeyslot checks the keyslot that describes the reencryption.
func (r *Reencryption) findKeyslot(h *Header) error {
	for i := range h.Keyslots {
		k := &h.Keyslots[i]
		if k.Type != typeReencrypt {
			continue
		}
		if r.keyslot != nil {
			return corrupt("JSON keyslots.%d: of type reencrypt, as keyslot %d is", k.ID, r.keyslot.ID)
		}
		r.keyslot = k
	}
	k := r.keyslot
	if k == nil {
		return corrupt("JSON keyslots: requirement %s, but there is no keyslot of type reencrypt", r.Requirement)
	}
	r.Mode, r.Direction, r.Resilience = k.Mode, k.Direction, k.Area.Type
	switch {
	case k.KeySize != 1:
		return corrupt("JSON keyslots.%d.key_size: %d, but a reencrypt keyslot has no key", k.ID, k.KeySize)
	case r.Mode != modeReencrypt && r.Mode != modeEncrypt && r.Mode != modeDecrypt:
		return corrupt("JSON keyslots.%d.mode: %s", k.ID, quote(r.Mode))
	case r.Direction != directionForward && r.Direction != directionBackward:
		return corrupt("JSON keyslots.%d.direction: %s", k.ID, quote(r.Direction))
	}
	first, moved := r.protections()
	if first == "" {
		return unsupported("reencryption with resilience %s", quote(r.Resilience))
	}
	if first != protectionChecksum && moved != protectionChecksum {
		return nil
	}
	if n := k.Area.SectorSize; n&(n-1) != 0 {
		return corrupt("JSON keyslots.%d.area.sector_size: %d is not 512, 1024, 2048 or 4096", k.ID, n)
	}
	_, err := hashByName(k.Area.Hash)
	return err
}

// protections returns what the area's type stands for: how a hot zone is
// protected, and how the one is that rewrites a moved segment.
func (r *Reencryption) protections() (zone, moved string) {
	switch r.Resilience {
	case protectionNone, protectionChecksum, protectionJournal, protectionShift:
		return r.Resilience, r.Resilience
	case "datashift-checksum":
		return protectionShift, protectionChecksum
	case "datashift-journal":
		return protectionShift, protectionJournal
	}
	return "", ""
}

// findBackups finds the segments that describe the states before and after.
func (r *Reencryption) findBackups(h *Header) error {
	found := map[string]*Segment{}
	for i := range h.Segments {
		s := &h.Segments[i]
		for _, flag := range []string{flagPrevious, flagFinal, flagMoved} {
			if !slices.Contains(s.Flags, flag) {
				continue
			}
			if found[flag] != nil {
				return corrupt("JSON segments.%d.flags: %s, as segment %d is", s.ID, flag, found[flag].ID)
			}
			found[flag] = s
			if err := h.checkData(s); err != nil {
				return err
			}
		}
	}
	for _, flag := range []string{flagPrevious, flagFinal} {
		if found[flag] == nil {
			return corrupt("JSON segments: requirement %s, but none has the flag %s", r.Requirement, flag)
		}
	}
	r.Old, r.New, r.moved = *found[flagPrevious], *found[flagFinal], found[flagMoved]
	if wasPlain, willBe := r.Old.Type == typeLinear, r.New.Type == typeLinear; wasPlain != (r.Mode == modeEncrypt) || willBe != (r.Mode == modeDecrypt) {
		return corrupt("JSON keyslots.%d.mode: %s, of data of type %s that becomes %s", r.keyslot.ID, r.Mode, r.Old.Type, r.New.Type)
	}
	if m := r.moved; m != nil && (m.Size < 0 || !m.sameEncryption(&r.Old) || h.segmentDigest(m.ID) != h.segmentDigest(r.Old.ID)) {
		return corrupt("JSON segments.%d: the data moved is not that of segment %d", m.ID, r.Old.ID)
	}
	return nil
}

// sameEncryption compares type, cipher and sector size.
func (s *Segment) sameEncryption(o *Segment) bool {
	return s.Type == o.Type && s.Cipher == o.Cipher && s.SectorSize == o.SectorSize
}

// at returns the part of s from byte pos of the data on, n bytes of it; false
// if there can be no such part.
func (s Segment) at(pos, n int64) (Segment, bool) {
	if s.Offset > math.MaxInt64-pos || n > 0 && s.Offset+pos > math.MaxInt64-n {
		return s, false
	}
	s.Offset, s.Size = s.Offset+pos, n
	if s.Type == typeCrypt {
		s.IVTweak += uint64(pos) / sector.UnitSize
	}
	return s, true
}

// findSegments checks that the current segments are parts of the data before
// and after, new ones first or last as the direction has it. Nothing vouches for
// them, but the digest does for what they are compared with.
func (r *Reencryption) findSegments(h *Header) error {
	at := int64(0)
	for i := range h.Segments {
		s := h.Segments[i]
		if s.backup() {
			continue
		}
		switch {
		case s.ID != len(r.Segments):
			return corrupt("JSON segments: segment %d is missing", len(r.Segments))
		case at < 0:
			return corrupt("JSON segments.%d.size: dynamic, and it is not the last", s.ID-1)
		}
		for j := range r.Segments {
			if s.overlaps(&r.Segments[j]) {
				return corrupt("JSON segments.%d: it overlaps segment %d", s.ID, j)
			}
		}
		if err := r.place(h, &s, at); err != nil {
			return err
		}
		r.Segments = append(r.Segments, s)
		if at += s.Size; s.Size < 0 {
			at = -1
		} else if at < 0 {
			return corrupt("JSON segments.%d.size: %d bytes behind %d others", s.ID, s.Size, at-s.Size)
		}
	}
	if len(r.Segments) == 0 {
		return corrupt("no segment holds data")
	}
	return r.checkOrder(h)
}

// place checks that s, which begins at byte pos of the data, is a part of what
// the data was, or of what it becomes.
func (r *Reencryption) place(h *Header, s *Segment, pos int64) error {
	if err := h.checkData(s); err != nil {
		return err
	}
	if slices.Contains(s.Flags, flagReencrypting) {
		if r.Hot != nil {
			return corrupt("JSON segments.%d.flags: %s, as segment %d is", s.ID, flagReencrypting, r.Hot.New.ID)
		}
		if s.Size < 0 {
			return corrupt("JSON segments.%d.size: dynamic, but it is %s", s.ID, flagReencrypting)
		}
		if want, ok := r.New.at(pos, s.Size); !ok || !s.is(&want) {
			return corrupt("JSON segments.%d: it is no part of segment %d, which it is to become", s.ID, r.New.ID)
		}
		r.Hot = &HotZone{New: *s}
		if old, ok := r.Old.at(pos, s.Size); ok {
			r.Hot.Old = old
		}
		if r.moved != nil && pos == 0 {
			r.Hot.Old, _ = r.moved.at(0, s.Size)
			r.Hot.Old.ID = r.Old.ID
		}
		return nil
	}
	if r.isNew(h, s, pos) || r.isOld(h, s, pos) {
		return nil
	}
	return corrupt("JSON segments.%d: it is a part neither of segment %d nor of segment %d, which were and will be the data", s.ID, r.Old.ID, r.New.ID)
}

// is compares all but IDs and flags.
func (s *Segment) is(o *Segment) bool {
	return s.sameEncryption(o) && s.Offset == o.Offset && s.Size == o.Size && s.IVTweak == o.IVTweak
}

func (r *Reencryption) isNew(h *Header, s *Segment, pos int64) bool {
	part, ok := r.New.at(pos, s.Size)
	return ok && s.is(&part) && h.segmentDigest(s.ID) == h.segmentDigest(r.New.ID)
}

func (r *Reencryption) isOld(h *Header, s *Segment, pos int64) bool {
	if h.segmentDigest(s.ID) != h.segmentDigest(r.Old.ID) {
		return false
	}
	if part, ok := r.Old.at(pos, s.Size); ok && s.is(&part) {
		return true
	}
	if r.moved == nil || pos != 0 || s.Size > r.moved.Size {
		return false
	}
	part, _ := r.moved.at(0, s.Size)
	return s.is(&part)
}

// checkOrder makes sure that what is done lies on one side of the hot zone and
// the rest on the other. A moved segment is the last to be done, wherever that
// side is.
func (r *Reencryption) checkOrder(h *Header) error {
	kinds := [3]string{"done", flagReencrypting, "not done"}
	if r.Direction == directionBackward {
		kinds = [3]string{"not done", flagReencrypting, "done"}
	}
	at, last := int64(0), 0
	for _, s := range r.Segments {
		hot := r.Hot != nil && s.ID == r.Hot.New.ID
		isNew, isOld := r.isNew(h, &s, at), r.isOld(h, &s, at)
		at += s.Size
		kind := "done"
		switch {
		case s.ID == 0 && r.moved != nil:
			if hot { // and nothing else is left to do
				kinds = [3]string{flagReencrypting, "done", "not done"}
			}
			continue
		case hot:
			kind = flagReencrypting
		case isNew && isOld:
			continue
		case isOld:
			kind = "not done"
		}
		rank := slices.Index(kinds[:], kind)
		if rank < last || rank == 2 && kinds[0] == flagReencrypting {
			return corrupt("JSON segments.%d: it is %s, behind what is %s", s.ID, kind, kinds[last])
		}
		last = rank
	}
	return nil
}

// findHot finds out how the hot zone is protected.
func (r *Reencryption) findHot(*Header) error {
	z := r.Hot
	if z == nil {
		return nil
	}
	k := r.keyslot
	z.Area = k.Area
	z.Block = max(sector.UnitSize, r.Old.SectorSize, r.New.SectorSize)
	z.Protection, _ = r.protections()
	if r.moved != nil && z.New.Offset == r.New.Offset {
		_, z.Protection = r.protections()
		if r.moved.Size < z.New.Size {
			return corrupt("JSON segments.%d.size: %d, but %d bytes are being rewritten from there", r.moved.ID, r.moved.Size, z.New.Size)
		}
	}
	if err := z.checkPlaces(); err != nil {
		return err
	}
	switch z.Protection {
	case protectionChecksum:
		if k.Area.SectorSize%z.Block != 0 {
			return corrupt("JSON keyslots.%d.area.sector_size: %d, but sectors of %d bytes are being rewritten", k.ID, k.Area.SectorSize, z.Block)
		}
		z.Block = k.Area.SectorSize
		newHash, err := hashByName(k.Area.Hash)
		if err != nil {
			return err
		}
		z.NewHash = newHash
		if need := z.New.Size / int64(z.Block); need > k.Area.Size/int64(newHash().Size()) {
			return corrupt("JSON keyslots.%d.area.size: %d bytes do not hold %d checksums of %d bytes", k.ID, k.Area.Size, need, newHash().Size())
		}
	case protectionJournal:
		if z.New.Size > k.Area.Size {
			return corrupt("JSON keyslots.%d.area.size: %d bytes do not hold the %d that are being rewritten", k.ID, k.Area.Size, z.New.Size)
		}
	}
	if z.New.Size%int64(z.Block) != 0 {
		return corrupt("JSON segments.%d.size: %d is not a multiple of %d", z.New.ID, z.New.Size, z.Block)
	}
	return nil
}

// checkPlaces makes sure that old and new data are at one place, or apart.
func (z *HotZone) checkPlaces() error {
	if z.Old.Size != z.New.Size {
		return corrupt("JSON segments.%d: what is being rewritten there would lie behind 2^63", z.New.ID)
	}
	if z.Protection == protectionShift {
		if z.Old.overlaps(&z.New) {
			return corrupt("JSON segments.%d: %d bytes at %d are being rewritten from %d, which overlap", z.New.ID, z.New.Size, z.New.Offset, z.Old.Offset)
		}
		if z.New.Size > z.Area.ShiftSize {
			return corrupt("JSON segments.%d.size: %d is more than the data shift of %d", z.New.ID, z.New.Size, z.Area.ShiftSize)
		}
		return nil
	}
	if z.Old.Offset != z.New.Offset {
		return corrupt("JSON segments.%d.offset: %d, rewritten in place, but the data was at %d", z.New.ID, z.New.Offset, z.Old.Offset)
	}
	return nil
}
