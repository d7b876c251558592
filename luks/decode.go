package luks

import (
	"math"
)

// Types of objects that this package interprets. Others are kept by name.
const (
	typeLUKS2     = "luks2"
	typeReencrypt = "reencrypt"
	typeCrypt     = "crypt"
	typeLinear    = "linear"
	typeOpal      = "hw-opal"       // encrypted by the drive itself
	typeOpalCrypt = "hw-opal-crypt" // by the drive, and again by dm-crypt
)

// Limits on what is stored: the specification's where it has one, else far
// above what programs write. A digest of a volume key has the length of its
// hash, or 20 bytes where LUKS1 made it; 64 bytes is the longest hash. Less
// than 20, and a wrong key could pass for the right one.
const (
	maxKeySize    = 512 // bytes of a key; cryptsetup's limit is the same
	minDigestSize = 20
	maxDigestSize = 64
	maxLanes      = 255 // x/crypto/argon2 holds them in a byte; RFC 9106 allows more, no LUKS has them
	maxIterations = math.MaxInt32
	maxMemoryKiB  = math.MaxInt32
	maxStripes    = 1 << 20
)

// decodeHeader turns the JSON object into Go's terms, field by field. How the
// objects fit each other is validate's to check.
func (h *Header) decodeHeader(o *jsonObject) error {
	f := &fields{}
	root := node{fields: f, obj: o}
	root.each("keyslots", func(id int, n node) { h.Keyslots = append(h.Keyslots, decodeKeyslot(id, n)) })
	root.each("segments", func(id int, n node) { h.Segments = append(h.Segments, decodeSegment(id, n)) })
	root.each("digests", func(id int, n node) { h.Digests = append(h.Digests, decodeDigest(id, n)) })
	root.each("tokens", func(id int, n node) { h.Tokens = append(h.Tokens, decodeToken(id, n)) })
	h.Config = decodeConfig(root.object("config"))
	return f.err
}

// decodeKeyslot reads a keyslot (specification, section 3.2). Types other than
// luks2 have neither kdf nor af.
func decodeKeyslot(id int, n node) Keyslot {
	k := Keyslot{
		ID:       id,
		Type:     n.string("type"),
		KeySize:  n.int("key_size", 1, maxKeySize),
		Priority: PriorityNormal,
	}
	if n.has("priority") {
		k.Priority = Priority(n.int("priority", int(PriorityIgnore), int(PriorityPrefer)))
	}
	k.Area = decodeArea(n.object("area"))
	switch k.Type {
	case typeLUKS2:
		k.KDF = decodeKDF(n.object("kdf"))
		af := n.object("af")
		if t := af.string("type"); t != "luks1" {
			n.fail(af.at("type"), "%s is not luks1", quote(t))
		}
		k.AF = AF{Stripes: af.int("stripes", 1, maxStripes), Hash: af.string("hash")}
		if k.Area.Type != "raw" {
			n.fail(n.at("area.type"), "%s: a luks2 keyslot has a raw area", quote(k.Area.Type))
		}
	case typeReencrypt:
		k.Mode, k.Direction = n.string("mode"), n.string("direction")
	}
	return k
}

// decodeArea reads an area. What lies behind an unknown area type is not
// known, but its place is, and must not touch the others.
func decodeArea(n node) Area {
	a := Area{
		Type:   n.string("type"),
		Offset: n.bytes("offset", 512),
		Size:   n.bytes("size", 512),
	}
	switch a.Type {
	case "raw":
		a.Cipher = n.string("encryption")
		a.KeySize = n.int("key_size", 1, maxKeySize)
	case "checksum":
		a.Hash = n.string("hash")
		a.SectorSize = n.int("sector_size", 512, 4096)
	case "datashift", "datashift-journal":
		a.ShiftSize = n.bytes("shift_size", 512)
	case "datashift-checksum":
		a.Hash = n.string("hash")
		a.SectorSize = n.int("sector_size", 512, 4096)
		a.ShiftSize = n.bytes("shift_size", 512)
	}
	return a
}

// decodeKDF reads a kdf object (specification, section 3.2.5). An unknown type
// keeps only its name.
func decodeKDF(n node) KDF {
	k := KDF{Type: n.string("type")}
	switch k.Type {
	case KDFPBKDF2:
		k.Salt = n.base64("salt", newSaltSize, newSaltSize)
		k.Hash = n.string("hash")
		k.Iterations = n.int("iterations", 1, maxIterations)
	case KDFArgon2id, KDFArgon2i:
		k.Salt = n.base64("salt", newSaltSize, newSaltSize)
		k.Iterations = n.int("time", 1, maxIterations)
		k.Threads = n.int("cpus", 1, maxLanes)
		k.MemoryKiB = n.int("memory", 8*k.Threads, maxMemoryKiB) // RFC 9106, section 3.1
	}
	return k
}

// decodeSegment reads a segment (specification, section 3.3).
func decodeSegment(id int, n node) Segment {
	s := Segment{
		ID:     id,
		Type:   n.string("type"),
		Offset: n.bytes("offset", 512),
		Size:   -1,
		Flags:  n.strings("flags"),
	}
	if n.string("size") != "dynamic" {
		s.Size = n.bytes("size", 512)
		if s.Size == 0 || s.Size > math.MaxInt64-s.Offset {
			n.fail(n.at("size"), "%d bytes at offset %d", s.Size, s.Offset)
		}
	}
	if s.Type == typeOpalCrypt && n.has("encryption") {
		s.Cipher = n.string("encryption")
	}
	if s.Type != typeCrypt {
		return s
	}
	s.IVTweak = n.decimal("iv_tweak")
	s.Cipher = n.string("encryption")
	s.SectorSize = n.int("sector_size", 512, 4096)
	if s.SectorSize&(s.SectorSize-1) != 0 {
		n.fail(n.at("sector_size"), "%d is not 512, 1024, 2048 or 4096", s.SectorSize)
		return s
	}
	if s.Size >= 0 && s.Size%int64(s.SectorSize) != 0 {
		n.fail(n.at("size"), "%d is not a multiple of the sector size %d", s.Size, s.SectorSize)
	}
	if n.has("integrity") {
		in := n.object("integrity")
		s.Integrity = &Integrity{
			Type:              in.string("type"),
			JournalEncryption: in.string("journal_encryption"),
			JournalIntegrity:  in.string("journal_integrity"),
		}
		if in.has("key_size") {
			s.Integrity.KeySize = in.int("key_size", 0, maxKeySize)
		}
	}
	return s
}

// decodeDigest reads a digest (specification, section 3.4).
func decodeDigest(id int, n node) Digest {
	d := Digest{
		ID:       id,
		Type:     n.string("type"),
		Keyslots: n.ids("keyslots"),
		Segments: n.ids("segments"),
	}
	if d.Type == KDFPBKDF2 {
		d.KDF = decodeKDF(n)
		d.Value = n.base64("digest", minDigestSize, maxDigestSize)
		if size := len(d.Value); n.err == nil && size != minDigestSize && !d.hashLength(size) {
			n.fail(n.at("digest"), "%d bytes are neither %d nor those of %s", size, minDigestSize, quote(d.KDF.Hash))
		}
	}
	return d
}

// hashLength tells whether the hash of d gives n bytes, or is none that this
// package knows.
func (d *Digest) hashLength(n int) bool {
	newHash, err := hashByName(d.KDF.Hash)
	return err != nil || newHash().Size() == n
}

func decodeToken(id int, n node) Token {
	return Token{
		ID:       id,
		Type:     n.string("type"),
		Keyslots: n.ids("keyslots"),
		JSON:     []byte(n.obj.raw),
	}
}

// decodeConfig reads the config object (specification, section 3.5). The
// specification's text has requirements as an array; on disk it is an object
// with an array named mandatory.
func decodeConfig(n node) Config {
	c := Config{
		JSONSize:     n.bytes("json_size", 1),
		KeyslotsSize: n.bytes("keyslots_size", 4096),
		Flags:        n.strings("flags"),
	}
	if n.has("requirements") {
		c.Requirements = n.object("requirements").strings("mandatory")
	}
	return c
}
