package luks

import (
	"slices"

	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// maxKeyslotsSize is the largest keyslots area that cryptsetup makes and takes.
const maxKeyslotsSize = 128 << 20

// KeyslotsOffset returns where the keyslots area starts, in bytes: behind both
// copies of a LUKS2 header, where the first keyslot lies in LUKS1.
func (h *Header) KeyslotsOffset() int64 {
	if h.luks1 != nil {
		start, _ := h.luks1.areas()
		return start
	}
	return 2 * h.Size
}

// End returns where the header ends, keyslots area included, in bytes.
func (h *Header) End() int64 { return h.KeyslotsOffset() + h.Config.KeyslotsSize }

// Detached reports whether the data cannot lie behind the header in the same
// file or device: it starts where the header is.
func (h *Header) Detached() bool { return h.firstData() < h.End() }

// validate checks how the objects fit each other and the binary header.
func (h *Header) validate() error {
	checks := []func() error{h.validateConfig, h.validateAreas, h.validateDigests, h.validateKeySizes, h.validateTokens}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (h *Header) validateConfig() error {
	if want := h.Size - binarySize; h.Config.JSONSize != want {
		return corrupt("JSON config.json_size: %d, but the JSON area has %d bytes", h.Config.JSONSize, want)
	}
	if h.Config.KeyslotsSize > maxKeyslotsSize {
		return corrupt("JSON config.keyslots_size: %d is more than %d", h.Config.KeyslotsSize, maxKeyslotsSize)
	}
	// A first offset of 0 means that the data lies in another file. Any other
	// is behind the keyslots, which cryptsetup makes so for detached headers too.
	if first := h.firstData(); first != 0 && first < h.End() {
		return corrupt("JSON segments: the data starts at %d, before the end %d of the keyslots area", first, h.End())
	}
	return nil
}

// firstData returns the lowest offset of a segment that holds current data;
// the end of the header if there is none.
func (h *Header) firstData() int64 {
	first := int64(-1)
	for i := range h.Segments {
		if s := &h.Segments[i]; !s.backup() && (first < 0 || s.Offset < first) {
			first = s.Offset
		}
	}
	if first < 0 {
		return h.End()
	}
	return first
}

// backup tells whether a segment describes the state before or after a
// reencryption rather than the current one.
func (s *Segment) backup() bool {
	return slices.Contains(s.Flags, "backup-previous") ||
		slices.Contains(s.Flags, "backup-final") ||
		slices.Contains(s.Flags, "backup-moved-segment")
}

// validateAreas checks that every area lies in the keyslots area, apart from
// all others, and holds its split key.
func (h *Header) validateAreas() error {
	byOffset := slices.Clone(h.Keyslots)
	slices.SortFunc(byOffset, func(a, b Keyslot) int {
		switch {
		case a.Area.Offset < b.Area.Offset:
			return -1
		case a.Area.Offset > b.Area.Offset:
			return 1
		}
		return a.ID - b.ID
	})
	end, last := h.KeyslotsOffset(), -1
	for _, k := range byOffset {
		a := k.Area
		if a.Offset < h.KeyslotsOffset() || a.Offset > h.End() || a.Size > h.End()-a.Offset {
			return corrupt("JSON keyslots.%d.area: %d bytes at %d lie outside the keyslots area, %d to %d",
				k.ID, a.Size, a.Offset, h.KeyslotsOffset(), h.End())
		}
		if a.Offset < end {
			return corrupt("JSON keyslots.%d.area: %d bytes at %d overlap the area of keyslot %d", k.ID, a.Size, a.Offset, last)
		}
		if need := k.materialSize(); k.Type == typeLUKS2 && a.Size < need {
			return corrupt("JSON keyslots.%d.area.size: %d bytes do not hold %d stripes of %d bytes", k.ID, a.Size, k.AF.Stripes, k.KeySize)
		}
		end, last = a.Offset+a.Size, k.ID
	}
	return nil
}

// validateDigests checks the references of digests. A keyslot has one digest;
// a segment that is being reencrypted has two.
func (h *Header) validateDigests() error {
	owner := map[int]int{}
	for _, d := range h.Digests {
		for _, id := range d.Keyslots {
			if h.keyslot(id) == nil {
				return corrupt("JSON digests.%d.keyslots: there is no keyslot %d", d.ID, id)
			}
			if other, ok := owner[id]; ok {
				return corrupt("JSON digests.%d.keyslots: keyslot %d belongs to digest %d already", d.ID, id, other)
			}
			owner[id] = d.ID
		}
		for _, id := range d.Segments {
			if h.segment(id) == nil {
				return corrupt("JSON digests.%d.segments: there is no segment %d", d.ID, id)
			}
		}
	}
	return nil
}

// validateKeySizes checks that the keyslots of a digest hold keys of one
// length, and that the ciphers of its segments take it. PBKDF2 gives the same
// digest for a key with zeros behind it, so nothing else would tell.
func (h *Header) validateKeySizes() error {
	for i := range h.Digests {
		d := &h.Digests[i]
		n, ok := h.keySize(d)
		if !ok {
			continue
		}
		for _, id := range d.Keyslots {
			if k := h.keyslot(id); k.holdsKey() && k.KeySize != n {
				return corrupt("JSON keyslots.%d.key_size: %d bytes, but another keyslot of digest %d has %d", id, k.KeySize, d.ID, n)
			}
		}
		for _, id := range d.Segments {
			if s := h.segment(id); !s.mayHaveKey(n) {
				return corrupt("JSON segments.%d.encryption: %s does not take the %d bytes of its keyslots' key", id, quote(s.Cipher), n)
			}
		}
	}
	return nil
}

// mayHaveKey tells whether the segment's cipher takes keys of n bytes, or is
// none that this package knows. With authentication the key has more parts.
// What is being reencrypted belongs to the old key's digest, too, which does
// not fit the new cipher.
func (s *Segment) mayHaveKey(n int) bool {
	if s.Type != typeCrypt || s.Integrity != nil || slices.Contains(s.Flags, flagReencrypting) {
		return true
	}
	spec, err := sector.Parse(s.Cipher)
	return err != nil || spec.ValidKeySize(n)
}

func (h *Header) validateTokens() error {
	for _, t := range h.Tokens {
		for _, id := range t.Keyslots {
			if h.keyslot(id) == nil {
				return corrupt("JSON tokens.%d.keyslots: there is no keyslot %d", t.ID, id)
			}
		}
	}
	return nil
}

func (h *Header) keyslot(id int) *Keyslot {
	for i := range h.Keyslots {
		if h.Keyslots[i].ID == id {
			return &h.Keyslots[i]
		}
	}
	return nil
}

func (h *Header) segment(id int) *Segment {
	for i := range h.Segments {
		if h.Segments[i].ID == id {
			return &h.Segments[i]
		}
	}
	return nil
}

// digestOf returns the digest that verifies a keyslot's key, or nil.
func (h *Header) digestOf(keyslot int) *Digest {
	for i := range h.Digests {
		if slices.Contains(h.Digests[i].Keyslots, keyslot) {
			return &h.Digests[i]
		}
	}
	return nil
}

// holdsKey tells whether a passphrase can open the keyslot: of the types that
// this package knows, luks2 and LUKS1's, which alone have a split key.
func (k *Keyslot) holdsKey() bool { return k.AF.Stripes > 0 }

// materialSize is the length in bytes of a luks2 keyslot's split key.
func (k *Keyslot) materialSize() int64 { return int64(k.AF.Stripes) * int64(k.KeySize) }
