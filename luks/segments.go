package luks

import (
	"fmt"
	"slices"

	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// Requirements that the format names (specification, section 3.5, and
// cryptsetup's additions): a program that does not know one keeps away from
// the data and from writing. Those known here do not keep a passphrase from
// being tried.
var knownRequirements = []string{
	"offline-reencrypt", "online-reencrypt", "online-reencrypt-v2", "online-reencrypt-v3", "opal", "inline-hw-tags",
}

// checkRequirements returns ErrUnsupported for a mandatory requirement that no
// part of this package knows.
func (h *Header) checkRequirements() error {
	for _, r := range h.Config.Requirements {
		if !slices.Contains(knownRequirements, r) {
			return unsupported("requirement %s", quote(r))
		}
	}
	return nil
}

// DataSegments returns the segments that hold the data, in the order of the
// data, or the reason why it cannot be opened: ErrUnsupported names the
// requirement, reencryption, integrity, segment type or cipher. It is worth
// calling before a passphrase is asked for.
func (h *Header) DataSegments() ([]Segment, error) {
	if err := h.checkRequirements(); err != nil {
		return nil, err
	}
	if r, err := h.Reencryption(); err != nil {
		return nil, err
	} else if r != nil {
		return r.Segments, nil
	}
	if len(h.Config.Requirements) > 0 {
		return nil, unsupported("requirement %s: data cannot be opened", quote(h.Config.Requirements[0]))
	}
	var out []Segment
	for i := range h.Segments {
		if s := &h.Segments[i]; !s.backup() {
			if err := h.checkSegment(s); err != nil {
				return nil, fmt.Errorf("segment %d: %w", s.ID, err)
			}
			out = append(out, *s)
		}
	}
	if len(out) == 0 {
		return nil, corrupt("no segment holds data")
	}
	if err := h.checkSequence(out); err != nil {
		return nil, err
	}
	return out, nil
}

// flagReencrypting marks the segment that a reencryption is at. Unknown flags
// are to be ignored (specification, section 3.3).
const flagReencrypting = "in-reencryption"

// checkSegment returns nil if this package's users can read the segment of a
// header that no reencryption is at.
func (h *Header) checkSegment(s *Segment) error {
	if slices.Contains(s.Flags, flagReencrypting) {
		return unsupported("segment flag %s", flagReencrypting)
	}
	return h.checkData(s)
}

// checkData checks what is in the segment, whatever its flags.
func (h *Header) checkData(s *Segment) error {
	switch s.Type {
	case typeCrypt:
	case typeLinear:
		return nil
	case typeOpal, typeOpalCrypt:
		return unsupported("segment type %s: the drive itself encrypts it", quote(s.Type))
	default:
		return unsupported("segment type %s", quote(s.Type))
	}
	if s.Integrity != nil {
		return unsupported("integrity %s with cipher %s", quote(s.Integrity.Type), quote(s.Cipher))
	}
	if _, err := sector.Parse(s.Cipher); err != nil {
		return cipherError(err)
	}
	if s.IVTweak%uint64(s.SectorSize/sector.UnitSize) != 0 {
		return corrupt("iv_tweak %d is not a multiple of the sector size %d", s.IVTweak, s.SectorSize)
	}
	if h.segmentDigest(s.ID) == nil {
		return corrupt("no digest names it: its key cannot be verified")
	}
	return nil
}

// checkSequence makes sure that segments together are one plaintext: numbered
// from 0 without a gap, under one key, none but the last of open size, and no
// byte in two of them. Plain data (linear) stands beside encrypted data only:
// alone it would need no key.
func (h *Header) checkSequence(list []Segment) error {
	first := slices.IndexFunc(list, func(s Segment) bool { return s.Type == typeCrypt })
	if first < 0 {
		return unsupported("segment type %s without one of type crypt", quote(typeLinear))
	}
	digest := h.segmentDigest(list[first].ID)
	for i, s := range list {
		if s.ID != i {
			return corrupt("segment %d is missing", i)
		}
		if s.Type == typeCrypt && h.segmentDigest(i) != digest {
			return unsupported("segments %d and %d have different keys", first, i)
		}
		if s.Size < 0 && i < len(list)-1 {
			return corrupt("segment %d has no size and is not the last", i)
		}
		for j := range i {
			if s.overlaps(&list[j]) {
				return corrupt("segments %d and %d overlap", j, i)
			}
		}
	}
	return nil
}

// overlaps tells whether two segments share data.
func (s *Segment) overlaps(o *Segment) bool {
	return (o.Size < 0 || s.Offset < o.Offset+o.Size) && (s.Size < 0 || o.Offset < s.Offset+s.Size)
}

// segmentDigest returns the digest of a segment's key, or nil.
func (h *Header) segmentDigest(segment int) *Digest {
	for i := range h.Digests {
		if slices.Contains(h.Digests[i].Segments, segment) {
			return &h.Digests[i]
		}
	}
	return nil
}

// current tells whether a digest's key encrypts current data, not only what a
// reencryption started from or will end with.
func (h *Header) current(d *Digest) bool {
	return slices.ContainsFunc(d.Segments, func(id int) bool { return !h.segment(id).backup() })
}

// keySizeFits tells whether the segment's cipher takes keys of n bytes.
func (s *Segment) keySizeFits(n int) bool {
	spec, err := sector.Parse(s.Cipher)
	return err == nil && spec.ValidKeySize(n)
}
