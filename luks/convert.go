package luks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// Convert describes the header, which was read from r, as one of another LUKS
// version: the same keyslots, with the same numbers and passphrases, for the
// same data. Nothing is written yet; Replacement.Write does.
//
// From LUKS1 to 2 the keyslots move by 28 KiB, for which there must be room
// (ErrSize otherwise); the digest keeps its 20 bytes. From LUKS2 to 1 it must
// be a volume that LUKS1 can describe: one crypt segment of 512-byte sectors to
// the end of the device, at most eight keyslots, 0 to 7, all of PBKDF2 with one
// hash and the cipher of the data, no tokens, no requirements (ErrUnsupported
// otherwise, naming what is in the way). A cipher that is only read here gets no
// new header: ErrPolicy. Names, flags and priorities are
// dropped: see Replacement.Lost.
//
// cryptsetup convert has the same conditions, and converts back.
func (h *Header) Convert(r io.ReaderAt, version int) (*Replacement, error) {
	switch {
	case version != 1 && version != 2:
		return nil, fmt.Errorf("%w: LUKS version %d is not 1 or 2", ErrOption, version)
	case version == h.Version:
		return nil, fmt.Errorf("%w: it is LUKS%d already", ErrOption, version)
	}
	for i := range h.Segments {
		if s := &h.Segments[i]; s.Type == typeCrypt {
			if err := writable(s.Cipher); errors.Is(err, ErrPolicy) {
				return nil, err
			}
		}
	}
	if version == 2 {
		return h.toLUKS2(r)
	}
	return h.toLUKS1(r)
}

// toLUKS2 keeps the order of the keyslots' areas, those of inactive ones
// included: what lies there is moved along.
func (h *Header) toLUKS2(r io.ReaderAt) (*Replacement, error) {
	l := h.luks1
	unit := areaSize(l.keyBytes)
	start, end := int64(2*defaultMetadataSize), 2*defaultMetadataSize+luks1Slots*unit
	keyslots := min(end-start, maxKeyslotsSize)
	if l.payload > 0 {
		if end > l.payloadOffset() {
			return nil, fmt.Errorf("%w: a LUKS2 header with the same keyslots takes %d bytes, and the data starts at %d", ErrSize, end, l.payloadOffset())
		}
		keyslots = min((l.payloadOffset()-start)/areaAlignment*areaAlignment, maxKeyslotsSize)
	}
	next := &Header{
		UUID:     l.uuid,
		SeqID:    1,
		Size:     defaultMetadataSize,
		Segments: slices.Clone(h.Segments),
		Digests:  slices.Clone(h.Digests),
		Config:   Config{JSONSize: defaultMetadataSize - binarySize, KeyslotsSize: keyslots},
	}
	image := make([]byte, end)
	for i, s := range l.slots {
		off, n := l.area(i)
		if s.stripes != afStripes {
			return nil, unsupported("in LUKS2: keyslot %d with %d anti-forensic stripes", i, s.stripes)
		}
		at := start + int64(i)*unit
		if err := readArea(r, image[at:][:n], off, i); err != nil {
			return nil, err
		}
		if s.active {
			k := l.keyslot(i)
			k.Type, k.Area.Offset, k.Area.Size = typeLUKS2, at, unit
			next.Keyslots = append(next.Keyslots, k)
		}
	}
	text, err := next.encodeNew()
	if err != nil {
		return nil, err
	}
	for _, c := range []Copy{Primary, Secondary} {
		whole, err := next.marshalCopy(c, text, defaultHash)
		if err != nil {
			return nil, err
		}
		copy(image[int64(c)*next.Size:], whole)
	}
	if next, err = readCopy(bytes.NewReader(image), -1, Primary, 0); err != nil {
		return nil, fmt.Errorf("the converted header: %w", err)
	}
	return newReplacement(next, bytes.NewReader(image), end), nil
}

// readArea reads what lies in a keyslot's area. One that is not used may end
// behind the end of the file.
func readArea(r io.ReaderAt, b []byte, byteOff int64, slot int) error {
	n, err := readUpTo(r, b, byteOff)
	if err != nil {
		return fmt.Errorf("keyslot %d: %w", slot, err)
	}
	clear(b[n:])
	return nil
}

// toLUKS1 puts each keyslot's area where a new LUKS1 header has it, and clears
// the rest of what LUKS2's areas took: no copy of a key stays that a change of
// the header would not reach.
func (h *Header) toLUKS1(r io.ReaderAt) (*Replacement, error) {
	s, d, err := h.fitsLUKS1()
	if err != nil {
		return nil, err
	}
	n, ok := h.keySize(d)
	if !ok {
		return nil, unsupported("in LUKS1: no keyslot tells the length of the volume key")
	}
	o := &FormatOptions{Cipher: s.Cipher, KeySize: n, Hash: d.KDF.Hash, DigestIterations: d.KDF.Iterations, UUID: h.UUID}
	l := newLUKS1(o, layout{dataOffset: s.Offset})
	copy(l.digestSalt[:], d.KDF.Salt)
	copy(l.digest[:], d.Value)
	size := luks1AreaAlignment + luks1Slots*areaSize(n)
	if s.Offset > 0 && size > s.Offset {
		return nil, fmt.Errorf("%w: a LUKS1 header takes %d bytes, and the data starts at %d", ErrSize, size, s.Offset)
	}
	for _, k := range h.Keyslots {
		if err := k.fitsLUKS1(s, d, n); err != nil {
			return nil, err
		}
		end := k.Area.Offset + k.Area.Size
		if got, err := readUpTo(r, make([]byte, 1), end-1); err != nil || got == 0 {
			return nil, errors.Join(err, corrupt("keyslot %d: its area ends at %d, behind the file", k.ID, end))
		}
		size = max(size, end)
	}
	image := make([]byte, size)
	for _, k := range h.Keyslots {
		l.activate(k.ID, k.KDF.Iterations, [luks1SaltSize]byte(k.KDF.Salt))
		off, size := l.area(k.ID)
		if err := readArea(r, image[off:][:size], k.Area.Offset, k.ID); err != nil {
			return nil, err
		}
	}
	copy(image, l.encode())
	next, err := parseLUKS1(image, -1)
	if err != nil {
		return nil, fmt.Errorf("the converted header: %w", err)
	}
	p := newReplacement(next, bytes.NewReader(image), size)
	p.lost = h.withoutPlace()
	return p, nil
}

// fitsLUKS1 returns the one segment and digest, if LUKS1 can describe them.
func (h *Header) fitsLUKS1() (*Segment, *Digest, error) {
	no := func(format string, args ...any) (*Segment, *Digest, error) {
		return nil, nil, unsupported("in LUKS1: "+format, args...)
	}
	switch {
	case len(h.Config.Requirements) > 0:
		return no("requirement %s", quote(h.Config.Requirements[0]))
	case len(h.Segments) != 1:
		return no("%d segments", len(h.Segments))
	case len(h.Tokens) > 0:
		return no("token %d (%s)", h.Tokens[0].ID, quote(h.Tokens[0].Type))
	case len(h.Digests) != 1 || h.segmentDigest(h.Segments[0].ID) == nil:
		return no("%d digests, of unbound keyslots too", len(h.Digests))
	}
	s, d := &h.Segments[0], &h.Digests[0]
	name, mode, _ := strings.Cut(s.Cipher, "-")
	switch {
	case s.Type != typeCrypt:
		return no("segment type %s", quote(s.Type))
	case s.SectorSize != sector.UnitSize:
		return no("sectors of %d bytes", s.SectorSize)
	case s.Integrity != nil:
		return no("integrity %s", quote(s.Integrity.Type))
	case s.Size >= 0 || s.IVTweak != 0 || len(s.Flags) > 0:
		return no("a segment of fixed size, with an IV tweak or flags")
	case s.Offset/sector.UnitSize > math.MaxUint32:
		return no("data at offset %d", s.Offset)
	case len(name) >= luks1NameSize || mode == "" || len(mode) >= luks1NameSize:
		return no("cipher %s", quote(s.Cipher))
	case d.Type != KDFPBKDF2 || len(d.KDF.Hash) >= luks1NameSize:
		return no("digest type %s with %s", quote(d.Type), quote(d.KDF.Hash))
	case len(h.UUID) >= uuidSize:
		return no("UUID %s", quote(h.UUID))
	}
	return s, d, nil
}

// fitsLUKS1 returns nil if LUKS1 can have the keyslot, of a key of n bytes.
func (k *Keyslot) fitsLUKS1(s *Segment, d *Digest, n int) error {
	no := func(format string, args ...any) error {
		return unsupported("in LUKS1: keyslot %d: "+format, append([]any{k.ID}, args...)...)
	}
	switch {
	case k.ID >= luks1Slots:
		return no("there are %d, from 0", luks1Slots)
	case k.Type != typeLUKS2:
		return no("type %s", quote(k.Type))
	case !slices.Contains(d.Keyslots, k.ID):
		return no("unbound")
	case k.KDF.Type != KDFPBKDF2:
		return no("KDF %s", k.KDF.Type)
	case k.KDF.Hash != d.KDF.Hash || k.AF.Hash != d.KDF.Hash:
		return no("hash %s and %s, the digest's is %s", quote(k.KDF.Hash), quote(k.AF.Hash), quote(d.KDF.Hash))
	case k.AF.Stripes != afStripes:
		return no("%d anti-forensic stripes", k.AF.Stripes)
	case k.Area.Cipher != s.Cipher || k.Area.KeySize != n || k.KeySize != n:
		return no("cipher %s with %d bits, the data has %s with %d", quote(k.Area.Cipher), k.Area.KeySize*8, quote(s.Cipher), n*8)
	}
	return nil
}

// withoutPlace lists what LUKS1 has no place for and no volume depends on.
func (h *Header) withoutPlace() []string {
	var list []string
	for name, text := range map[string]string{"label": h.Label, "subsystem": h.Subsystem} {
		if text != "" {
			list = append(list, name+" "+quote(text))
		}
	}
	slices.Sort(list)
	if len(h.Config.Flags) > 0 {
		list = append(list, "flags "+strings.Join(h.Config.Flags, ", "))
	}
	for _, k := range h.Keyslots {
		if k.Priority != PriorityNormal {
			list = append(list, fmt.Sprintf("priority of keyslot %d: %s", k.ID, k.Priority))
		}
	}
	return list
}
