package luks

import (
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Description is a header as data for other programs: its JSON form is the
// same for LUKS1 and LUKS2, and holds no secret. Lists are never null, and
// sizes and offsets are bytes. What a version does not have is left out.
type Description struct {
	Version        int      `json:"version"`               // 1 or 2
	UUID           string   `json:"uuid"`                  // as it is in the header
	Label          string   `json:"label"`                 // "" if there is none
	Subsystem      string   `json:"subsystem"`             // "" if there is none
	Epoch          uint64   `json:"epoch"`                 // 0 for LUKS1
	HeaderCopy     string   `json:"header_copy,omitempty"` // "primary" or "secondary"; LUKS1 has one
	HeaderSize     int64    `json:"header_size"`           // of one copy
	KeyslotsOffset int64    `json:"keyslots_offset"`       // where the first area can lie
	KeyslotsSize   int64    `json:"keyslots_size"`         // of all areas
	DataOffset     int64    `json:"data_offset"`           // where the first segment begins
	Detached       bool     `json:"detached"`              // the data lies in another file
	Flags          []string `json:"flags"`                 // names; of a segment its own
	Requirements   []string `json:"requirements"`          // mandatory ones

	Keyslots []KeyslotDescription `json:"keyslots"` // active ones
	Segments []SegmentDescription `json:"segments"` // by number
	Digests  []DigestDescription  `json:"digests"`  // by number
	Tokens   []TokenDescription   `json:"tokens"`   // by number
	Warnings []string             `json:"warnings"` // about the other copy and the like
}

// KeyslotDescription describes a Keyslot.
type KeyslotDescription struct {
	ID            int                    `json:"id"`                        // number
	Type          string                 `json:"type"`                      // "luks1", "luks2", "reencrypt", ...
	KeyBits       int                    `json:"key_bits"`                  // of the key
	Priority      string                 `json:"priority"`                  // "ignored", "normal", "preferred"
	Unbound       bool                   `json:"unbound"`                   // its key is not that of the data
	Digest        *int                   `json:"digest"`                    // null: none
	Cipher        string                 `json:"cipher,omitempty"`          // cipher string
	CipherKeyBits int                    `json:"cipher_key_bits,omitempty"` // of the cipher's key
	KDF           *KDFDescription        `json:"kdf,omitempty"`             // nil where there is none
	AFStripes     int                    `json:"af_stripes,omitempty"`      // of the anti-forensic split
	AFHash        string                 `json:"af_hash,omitempty"`         // of the anti-forensic split
	AreaOffset    int64                  `json:"area_offset"`               // from the start of the header
	AreaSize      int64                  `json:"area_size"`                 // of the area
	Reencryption  *ResilienceDescription `json:"reencryption,omitempty"`    // only where no key is held
}

// KDFDescription describes a KDF. The salt is in hexadecimal digits.
type KDFDescription struct {
	Type       string `json:"type"`                 // by its name in the header
	Hash       string `json:"hash,omitempty"`       // by its name
	Iterations int    `json:"iterations,omitempty"` // of Argon2: passes
	MemoryKiB  int    `json:"memory_kib,omitempty"` // of Argon2
	Threads    int    `json:"threads,omitempty"`    // of Argon2
	Salt       string `json:"salt,omitempty"`       // hexadecimal digits
}

// ResilienceDescription describes a keyslot that holds the state of a
// reencryption, or one of an unknown type.
type ResilienceDescription struct {
	Mode       string `json:"mode,omitempty"`        // "reencrypt", "encrypt" or "decrypt"
	Direction  string `json:"direction,omitempty"`   // "forward" or "backward"
	Resilience string `json:"resilience"`            // type of the area
	Hash       string `json:"hash,omitempty"`        // by its name
	HashedSize int    `json:"hashed_size,omitempty"` // that one checksum is of
	ShiftSize  int64  `json:"shift_size,omitempty"`  // that the data moves by
}

// SegmentDescription describes a Segment.
type SegmentDescription struct {
	ID         int                   `json:"id"`                    // number
	Type       string                `json:"type"`                  // by its name in the header
	Offset     int64                 `json:"offset"`                // from the start of the data device
	Size       *int64                `json:"size"`                  // null: to the end
	Cipher     string                `json:"cipher,omitempty"`      // cipher string
	SectorSize int                   `json:"sector_size,omitempty"` // of the encryption
	IVOffset   uint64                `json:"iv_offset"`             // in 512-byte units
	Integrity  *IntegrityDescription `json:"integrity,omitempty"`   // nil without authentication
	Flags      []string              `json:"flags"`                 // names; of a segment its own
}

// IntegrityDescription describes an Integrity.
type IntegrityDescription struct {
	Type              string `json:"type"`               // by its name in the header
	JournalEncryption string `json:"journal_encryption"` // "none", or a cipher
	JournalIntegrity  string `json:"journal_integrity"`  // "none", or a hash
	KeyBits           int    `json:"key_bits,omitempty"` // of the key
}

// DigestDescription describes a Digest. The value is in hexadecimal digits.
type DigestDescription struct {
	ID       int             `json:"id"`              // number
	Type     string          `json:"type"`            // by its name in the header
	Keyslots []int           `json:"keyslots"`        // numbers
	Segments []int           `json:"segments"`        // by number
	KDF      *KDFDescription `json:"kdf,omitempty"`   // nil where there is none
	Value    string          `json:"value,omitempty"` // hexadecimal digits
}

// TokenDescription describes a Token.
type TokenDescription struct {
	ID       int             `json:"id"`       // number
	Type     string          `json:"type"`     // by its name in the header
	Keyslots []int           `json:"keyslots"` // numbers
	Token    json.RawMessage `json:"token"`    // as it is in the header
}

// Describe returns the header as data for other programs.
func (h *Header) Describe() Description {
	d := Description{
		Version: h.Version, UUID: h.UUID, Label: h.Label, Subsystem: h.Subsystem, Epoch: h.SeqID,
		HeaderSize: h.Size, KeyslotsOffset: h.KeyslotsOffset(), KeyslotsSize: h.Config.KeyslotsSize,
		DataOffset: h.firstData(), Detached: h.Detached(),
		Flags: list(h.Config.Flags), Requirements: list(h.Config.Requirements),
		Keyslots: []KeyslotDescription{}, Segments: []SegmentDescription{}, Digests: []DigestDescription{}, Tokens: []TokenDescription{},
		Warnings: list(h.Warnings),
	}
	if h.luks1 == nil {
		d.HeaderCopy = h.Copy.String()
	}
	for i := range h.Keyslots {
		d.Keyslots = append(d.Keyslots, h.describeKeyslot(&h.Keyslots[i]))
	}
	for i := range h.Segments {
		d.Segments = append(d.Segments, h.Segments[i].describe())
	}
	for _, g := range h.Digests {
		d.Digests = append(d.Digests, DigestDescription{
			ID: g.ID, Type: g.Type, Keyslots: list(g.Keyslots), Segments: list(g.Segments),
			KDF: g.KDF.describe(), Value: hex.EncodeToString(g.Value),
		})
	}
	for _, t := range h.Tokens {
		d.Tokens = append(d.Tokens, TokenDescription{t.ID, t.Type, list(t.Keyslots), t.JSON})
	}
	return d
}

// list is a copy that is not nil.
func list[T any](s []T) []T { return append([]T{}, s...) }

func (h *Header) describeKeyslot(k *Keyslot) KeyslotDescription {
	d := KeyslotDescription{
		ID: k.ID, Type: k.Type, KeyBits: k.KeySize * 8, Priority: k.Priority.String(), Unbound: true,
		Cipher: k.Area.Cipher, CipherKeyBits: k.Area.KeySize * 8, KDF: k.KDF.describe(),
		AFStripes: k.AF.Stripes, AFHash: k.AF.Hash, AreaOffset: k.Area.Offset, AreaSize: k.Area.Size,
	}
	if g := h.digestOf(k.ID); g != nil {
		d.Digest, d.Unbound = &g.ID, !h.current(g)
	}
	if !k.holdsKey() {
		d.Reencryption = &ResilienceDescription{k.Mode, k.Direction, k.Area.Type, k.Area.Hash, k.Area.SectorSize, k.Area.ShiftSize}
	}
	return d
}

func (k KDF) describe() *KDFDescription {
	if k.Type == "" {
		return nil
	}
	return &KDFDescription{k.Type, k.Hash, k.Iterations, k.MemoryKiB, k.Threads, hex.EncodeToString(k.Salt)}
}

func (s *Segment) describe() SegmentDescription {
	d := SegmentDescription{
		ID: s.ID, Type: s.Type, Offset: s.Offset, Cipher: s.Cipher, SectorSize: s.SectorSize, IVOffset: s.IVTweak, Flags: list(s.Flags),
	}
	if s.Size >= 0 {
		d.Size = &s.Size
	}
	if in := s.Integrity; in != nil {
		d.Integrity = &IntegrityDescription{in.Type, in.JournalEncryption, in.JournalIntegrity, in.KeySize * 8}
	}
	return d
}

// Openable returns nil if this package, within the policy, can open the data
// given the right passphrase or key, and else the reason: ErrUnsupported,
// ErrPolicy, ErrNoMemory, ErrNoKeyslot or ErrHeaderCorrupt. It runs no KDF.
func (h *Header) Openable(p Policy) error {
	if _, err := h.DataSegments(); err != nil {
		return err
	}
	if err := p.Check(h); err != nil {
		return err
	}
	slots, err := h.candidates(AnySlot)
	if err != nil {
		return err
	}
	var failed slotErrors
	for _, k := range slots {
		if err := h.CheckKeyslot(k.ID, p); err != nil {
			failed = append(failed, slotError{k.ID, err})
		}
	}
	if len(failed) < len(slots) {
		return nil
	}
	return failed.join()
}

// CheckKeyslot returns nil if a passphrase can be tried on a keyslot within the
// policy, and else the reason: ErrUnsupported, ErrPolicy, ErrNoMemory or
// ErrNoKeyslot. It runs no KDF.
func (h *Header) CheckKeyslot(slot int, p Policy) error {
	list, err := h.candidates(slot)
	if err != nil {
		return err
	}
	k, d := list[0], h.digestOf(slot)
	if err := k.supported(d, p); err != nil {
		return err
	}
	if err := (&budget{policy: p}).take(k.KDF, k.Area.KeySize, d); err != nil {
		return err
	}
	return k.KDF.affordable()
}

// Tried returns the numbers of the keyslots that Unlock tries with
// UnlockOptions.Slot, in its order.
func (h *Header) Tried(slot int) []int {
	slots, err := h.candidates(slot)
	if err != nil {
		return nil
	}
	var out []int
	for _, k := range slots {
		out = append(out, k.ID)
	}
	return slices.Clip(out)
}
