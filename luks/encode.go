package luks

import (
	"strconv"
)

// The JSON objects of a new header, their members in cryptsetup's order.

type jsonHeader struct {
	Keyslots map[string]jsonKeyslot `json:"keyslots"`
	Tokens   struct{}               `json:"tokens"`
	Segments map[string]jsonSegment `json:"segments"`
	Digests  map[string]jsonDigest  `json:"digests"`
	Config   jsonConfig             `json:"config"`
}

type jsonKeyslot struct {
	Type     string    `json:"type"`
	KeySize  int       `json:"key_size"`
	AF       jsonAF    `json:"af"`
	Area     jsonArea  `json:"area"`
	KDF      jsonKDF   `json:"kdf"`
	Priority *Priority `json:"priority,omitempty"`
}

type jsonAF struct {
	Type    string `json:"type"`
	Stripes int    `json:"stripes"`
	Hash    string `json:"hash"`
}

type jsonArea struct {
	Type       string `json:"type"`
	Offset     int64  `json:"offset,string"`
	Size       int64  `json:"size,string"`
	Encryption string `json:"encryption"`
	KeySize    int    `json:"key_size"`
}

type jsonKDF struct {
	Type       string `json:"type"`
	Hash       string `json:"hash,omitempty"`
	Iterations int    `json:"iterations,omitempty"`
	Time       int    `json:"time,omitempty"`
	Memory     int    `json:"memory,omitempty"`
	CPUs       int    `json:"cpus,omitempty"`
	Salt       []byte `json:"salt"`
}

type jsonSegment struct {
	Type       string `json:"type"`
	Offset     int64  `json:"offset,string"`
	Size       string `json:"size"`
	IVTweak    uint64 `json:"iv_tweak,string"`
	Encryption string `json:"encryption"`
	SectorSize int    `json:"sector_size"`
}

type jsonDigest struct {
	Type       string   `json:"type"`
	Keyslots   []string `json:"keyslots"`
	Segments   []string `json:"segments"`
	Hash       string   `json:"hash"`
	Iterations int      `json:"iterations"`
	Salt       []byte   `json:"salt"`
	Digest     []byte   `json:"digest"`
}

type jsonConfig struct {
	JSONSize     int64 `json:"json_size,string"`
	KeyslotsSize int64 `json:"keyslots_size,string"`
}

// encodeNew returns the JSON text of a header as Format makes it: luks2
// keyslots, crypt segments of dynamic size, digests, no tokens.
func (h *Header) encodeNew() ([]byte, error) {
	j := jsonHeader{
		Keyslots: map[string]jsonKeyslot{},
		Segments: map[string]jsonSegment{},
		Digests:  map[string]jsonDigest{},
		Config:   jsonConfig{JSONSize: h.Config.JSONSize, KeyslotsSize: h.Config.KeyslotsSize},
	}
	for _, k := range h.Keyslots {
		j.Keyslots[strconv.Itoa(k.ID)] = k.encode()
	}
	for _, s := range h.Segments {
		j.Segments[strconv.Itoa(s.ID)] = jsonSegment{s.Type, s.Offset, "dynamic", s.IVTweak, s.Cipher, s.SectorSize}
	}
	for _, d := range h.Digests {
		j.Digests[strconv.Itoa(d.ID)] = d.encode()
	}
	return encodeJSON(j), nil
}

// encode is a keyslot of type luks2.
func (k *Keyslot) encode() jsonKeyslot {
	return jsonKeyslot{
		Type:    k.Type,
		KeySize: k.KeySize,
		AF:      jsonAF{"luks1", k.AF.Stripes, k.AF.Hash},
		Area:    jsonArea{k.Area.Type, k.Area.Offset, k.Area.Size, k.Area.Cipher, k.Area.KeySize},
		KDF:     encodeKDF(k.KDF),
	}
}

// encode is a digest of type pbkdf2.
func (d *Digest) encode() jsonDigest {
	return jsonDigest{d.Type, encodeIDs(d.Keyslots), encodeIDs(d.Segments), d.KDF.Hash, d.KDF.Iterations, d.KDF.Salt, d.Value}
}

func encodeKDF(k KDF) jsonKDF {
	j := jsonKDF{Type: k.Type, Hash: k.Hash, Salt: k.Salt}
	if k.argon2() {
		j.Time, j.Memory, j.CPUs = k.Iterations, k.MemoryKiB, k.Threads
	} else {
		j.Iterations = k.Iterations
	}
	return j
}

func encodeIDs(ids []int) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = strconv.Itoa(id)
	}
	return out
}
