package luks

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"hash"
)

// Binary header (specification, section 2.1): 4096 bytes, big-endian, at the
// start of each copy. The rest of a copy, up to its hdr_size, is the JSON area.
const (
	binarySize = 4096

	magicPrimary   = "LUKS\xba\xbe"
	magicSecondary = "SKUL\xba\xbe"

	offVersion     = 6
	offHdrSize     = 8
	offSeqID       = 16
	offLabel       = 24
	offChecksumAlg = 72
	offSalt        = 104
	offUUID        = 168
	offSubsystem   = 208
	offHdrOffset   = 256
	offChecksum    = 448

	labelSize       = 48
	checksumAlgSize = 32
	saltSize        = 64
	uuidSize        = 40
	checksumSize    = 64
)

// headerSizes are the sizes a copy can have, which are also the offsets where
// the secondary copy can lie (specification, section 2.1, table 1).
var headerSizes = []int64{
	16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20,
}

// binaryHeader is the binary header in Go's terms.
type binaryHeader struct {
	copy        Copy
	size        int64 // hdr_size: this header and its JSON area
	seqID       uint64
	label       string
	checksumAlg string
	salt        [saltSize]byte // makes the checksums of the copies differ
	uuid        string
	subsystem   string
	offset      int64 // hdr_offset: where this copy lies
}

// hasMagic tells whether b starts with the magic of a copy.
func hasMagic(b []byte, c Copy) bool {
	if c == Secondary {
		return bytes.HasPrefix(b, []byte(magicSecondary))
	}
	return bytes.HasPrefix(b, []byte(magicPrimary))
}

// parseBinary reads the fields of a binary header whose magic has been seen,
// and checks those that say how much more there is to read.
func parseBinary(b []byte, c Copy, byteOff int64) (*binaryHeader, error) {
	if v := binary.BigEndian.Uint16(b[offVersion:]); v != 2 {
		return nil, &kindError{kind: errVersion, err: unsupported("LUKS version %d in the header at offset %d", v, byteOff)}
	}
	h := &binaryHeader{
		copy:        c,
		seqID:       binary.BigEndian.Uint64(b[offSeqID:]),
		label:       cString(b[offLabel:][:labelSize]),
		checksumAlg: cString(b[offChecksumAlg:][:checksumAlgSize]),
		salt:        [saltSize]byte(b[offSalt:]),
		uuid:        cString(b[offUUID:][:uuidSize]),
		subsystem:   cString(b[offSubsystem:][:labelSize]),
		offset:      byteOff,
	}
	size := binary.BigEndian.Uint64(b[offHdrSize:])
	for _, s := range headerSizes {
		if size == uint64(s) {
			h.size = s
		}
	}
	if h.size == 0 {
		return nil, corrupt("hdr_size %d of the %s header at offset %d is not a valid size", size, c, byteOff)
	}
	if off := binary.BigEndian.Uint64(b[offHdrOffset:]); off != uint64(byteOff) {
		return nil, corrupt("hdr_offset %d of the %s header at offset %d is not its place", off, c, byteOff)
	}
	if c == Secondary && h.size != byteOff {
		return nil, corrupt("hdr_size %d of the secondary header at offset %d: it lies right behind the primary", size, byteOff)
	}
	return h, nil
}

// marshal writes the header without its checksum.
func (h *binaryHeader) marshal() []byte {
	b := make([]byte, binarySize)
	if h.copy == Secondary {
		copy(b, magicSecondary)
	} else {
		copy(b, magicPrimary)
	}
	binary.BigEndian.PutUint16(b[offVersion:], 2)
	binary.BigEndian.PutUint64(b[offHdrSize:], uint64(h.size))
	binary.BigEndian.PutUint64(b[offSeqID:], h.seqID)
	copy(b[offLabel:][:labelSize-1], h.label)
	copy(b[offChecksumAlg:][:checksumAlgSize-1], h.checksumAlg)
	copy(b[offSalt:], h.salt[:])
	copy(b[offUUID:][:uuidSize-1], h.uuid)
	copy(b[offSubsystem:][:labelSize-1], h.subsystem)
	binary.BigEndian.PutUint64(b[offHdrOffset:], uint64(h.offset))
	return b
}

// seal sets the checksum of a whole copy: binary header and JSON area.
func seal(whole []byte, alg string) error {
	sum, err := checksum(whole, alg)
	if err != nil {
		return err
	}
	field := whole[offChecksum:][:checksumSize]
	clear(field)
	copy(field, sum)
	return nil
}

// compareChecksum checks the checksum of a whole copy against the one in its
// binary header.
func (h *binaryHeader) compareChecksum(sum, b []byte) error {
	if subtle.ConstantTimeCompare(sum, b[offChecksum:][:len(sum)]) != 1 {
		return corrupt("checksum (%s) of the %s header at offset %d does not match", h.checksumAlg, h.copy, h.offset)
	}
	return nil
}

// checksum hashes a whole copy.
func checksum(whole []byte, alg string) ([]byte, error) {
	d, err := newChecksum(alg)
	if err != nil {
		return nil, err
	}
	writeChecksummed(d, whole)
	return d.Sum(nil), nil
}

// writeChecksummed hashes a copy from its start on, with the checksum field
// taken as zeros (specification, section 2.1, csum).
func writeChecksummed(d hash.Hash, b []byte) {
	d.Write(b[:offChecksum])
	d.Write(make([]byte, checksumSize))
	d.Write(b[offChecksum+checksumSize:])
}

// cString returns a field's text up to its first NUL.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
