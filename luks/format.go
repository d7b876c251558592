package luks

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"strings"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/secret"
	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// Defaults of cryptsetup 2.6, but for the key size: 512 bits are AES-256 in
// XTS, which cryptsetup takes as well.
const (
	defaultCipher     = "aes-xts-plain64"
	defaultKeySize    = 64
	defaultSectorSize = 512
)

// FormatOptions describe a new volume with one keyslot. Sizes and offsets are
// in bytes. Zero values take the defaults of cryptsetup 2.6.
//
// LUKS1 has sectors of 512 bytes, PBKDF2 with the same hash as everything else,
// and neither label nor subsystem nor sizes to choose.
type FormatOptions struct {
	Version    int    // of LUKS: 1 or 2 (default)
	Cipher     string // default aes-xts-plain64; none that is there only to read old volumes
	KeySize    int    // bytes; default 64 for XTS, 32 for other modes
	Hash       string // of the anti-forensic split and the digest; default "sha256"
	SectorSize int    // 512 (default), 1024, 2048 or 4096

	UUID      string // default: random
	Label     string // up to 47 bytes
	Subsystem string // up to 47 bytes

	// Of the keyslot, LUKS2 only. Default: as the data; with only one of the two
	// given, the other's is aes-xts-plain64 or 64.
	KeyslotCipher  string
	KeyslotKeySize int // bytes

	// Detached makes a header for data in another file or device, to which
	// DataSize and DataOffset then belong: 0 is its first byte.
	Detached bool

	MetadataSize int64 // of one header copy: a power of two from 16 KiB (default) to 4 MiB
	KeyslotsSize int64 // a multiple of 4096; default: what DataOffset leaves, or the rest of 16 MiB
	DataOffset   int64 // a multiple of 4096; default: the end of the keyslots area, aligned to 1 MiB
	DataSize     int64 // of the whole file or device, header included; 0: not known, not checked

	KDF              KDF    // zero: ChooseKDF with its defaults
	DigestIterations int    // of PBKDF2 over the volume key, at least 1000; 0: measured for 125 ms
	Passphrase       []byte // any bytes, none included; the caller wipes it
	VolumeKey        []byte // of KeySize bytes, copied; nil: random
}

// Format prints the options without passphrase and volume key, whatever the
// verb and flags.
func (o FormatOptions) Format(f fmt.State, verb rune) {
	type bare FormatOptions // without this method
	o.Passphrase, o.VolumeKey = nil, nil
	fmt.Fprintf(f, fmt.FormatString(f, verb), bare(o))
}

// Prepared is a new volume that is not written yet, for callers that write the
// data before the header, or into a pipe.
type Prepared struct {
	volume *Volume
	layout layout
	copies [2][]byte    // both header copies, whole
	area   []byte       // the keyslot's encrypted contents, at 2*layout.metadata
	luks1  *luks1Header // instead of copies; nil: LUKS2
}

// Format makes a new volume on st: Prepare, Invalidate and Write. It
// destroys what is there. The caller closes the volume.
func Format(ctx context.Context, st Storage, o FormatOptions) (*Volume, error) {
	p, err := Prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	err = p.Invalidate(ctx, st)
	if err == nil {
		err = p.Write(ctx, st)
	}
	if err != nil {
		p.Volume().Close()
		return nil, err
	}
	return p.Volume(), nil
}

// Prepare checks the options, derives the keys (which takes the KDF's time)
// and lays the header out. Nothing is written yet. Errors wrap ErrOption,
// ErrSize, ErrUnsupported, ErrNoMemory or ErrPolicy (a weak volume key), or
// are the context's.
func Prepare(ctx context.Context, o FormatOptions) (*Prepared, error) {
	l, err := o.complete()
	if err != nil {
		return nil, err
	}
	if o.KDF.Type == "" {
		t := KDFTarget{KeySize: o.KeySize}
		if o.Version == 1 {
			t.Type, t.Hash = KDFPBKDF2, o.Hash
		}
		if o.KDF, err = ChooseKDF(ctx, t); err != nil {
			return nil, err
		}
	}
	if o.Version == 1 {
		if err := o.checkLUKS1KDF(); err != nil {
			return nil, err
		}
	}
	if err := o.KDF.checkNew(); err != nil {
		return nil, err
	}
	if err := o.KDF.affordable(); err != nil {
		return nil, err
	}
	key, err := o.newKey()
	if err != nil {
		return nil, err
	}
	p := &Prepared{layout: l, volume: &Volume{key: key}}
	if err := p.build(ctx, &o); err != nil {
		key.Destroy()
		return nil, err
	}
	return p, nil
}

// Volume returns the volume as it is once written. The caller closes it.
func (p *Prepared) Volume() *Volume { return p.volume }

// DataOffset returns where the data starts, in bytes.
func (p *Prepared) DataOffset() int64 { return p.layout.dataOffset }

// HeaderSize returns how many bytes from the start on are the header's: all in
// front of the data, or of a detached header its own length.
func (p *Prepared) HeaderSize() int64 { return p.layout.size() }

// Check returns the error that Prepare would have for cipher, sizes, names and
// the like. It takes no time, so it can come before asking for a passphrase;
// KDF and keys are not looked at.
func (o FormatOptions) Check() error {
	_, err := o.complete()
	return err
}

// complete fills in the defaults and checks everything but the KDF.
func (o *FormatOptions) complete() (layout, error) {
	if setDefault(&o.Version, 2); o.Version != 1 && o.Version != 2 {
		return layout{}, fmt.Errorf("%w: LUKS version %d is not 1 or 2", ErrOption, o.Version)
	}
	setDefault(&o.Cipher, defaultCipher)
	setDefault(&o.Hash, defaultHash)
	setDefault(&o.SectorSize, defaultSectorSize)
	if o.UUID == "" {
		o.UUID = newUUID()
	}
	var err error
	if o.UUID, err = parseUUID(o.UUID); err != nil {
		return layout{}, err
	}
	if err := checkNewHash(o.Hash); err != nil {
		return layout{}, err
	}
	for name, s := range map[string]string{"label": o.Label, "subsystem": o.Subsystem} {
		if err := checkName(name, s); err != nil {
			return layout{}, err
		}
	}
	if o.DigestIterations != 0 && (o.DigestIterations < minDigestIterations || o.DigestIterations > maxIterations) {
		return layout{}, fmt.Errorf("%w: %d digest iterations are not from %d to %d", ErrOption, o.DigestIterations, minDigestIterations, maxIterations)
	}
	spec, err := o.checkCipher()
	if err == nil {
		err = o.checkKeyslotCipher()
	}
	if err != nil {
		return layout{}, err
	}
	place := newLayout
	if o.Version == 1 {
		place = newLUKS1Layout
	}
	l, err := place(o)
	if err != nil {
		return layout{}, err
	}
	return l, checkIVRange(spec, o.DataSize-l.dataOffset)
}

func (o *FormatOptions) checkCipher() (sector.Spec, error) {
	spec, err := sector.Parse(o.Cipher)
	if err != nil {
		return spec, cipherError(err)
	}
	if why := spec.ReadOnly(); why != "" {
		return spec, fmt.Errorf("%w: cipher %s %s", ErrPolicy, spec, why)
	}
	o.Cipher = spec.String()
	if spec.Mode == "xts" {
		setDefault(&o.KeySize, defaultKeySize)
	}
	setDefault(&o.KeySize, defaultKeySize/2)
	if !spec.ValidKeySize(o.KeySize) || spec.Mode == "xts" && o.KeySize == 48 { // AES-192, which cryptsetup has not in XTS
		return spec, fmt.Errorf("%w: key of %d bytes for %s", ErrOption, o.KeySize, spec)
	}
	if !sector.ValidSectorSize(o.SectorSize) {
		return spec, fmt.Errorf("%w: sector size %d is not 512, 1024, 2048 or 4096", ErrOption, o.SectorSize)
	}
	return spec, nil
}

// checkKeyslotCipher fills in and checks the cipher of the keyslot.
func (o *FormatOptions) checkKeyslotCipher() error {
	if o.KeyslotCipher == "" && o.KeyslotKeySize == 0 {
		o.KeyslotCipher, o.KeyslotKeySize = o.Cipher, o.KeySize
		return nil
	}
	if o.Version == 1 {
		return fmt.Errorf("%w: keyslot cipher %s: LUKS1 has that of the data only", ErrOption, quote(o.KeyslotCipher))
	}
	a := Area{Cipher: o.KeyslotCipher, KeySize: o.KeyslotKeySize}
	if err := (&Header{}).setAreaCipher(&a); err != nil {
		return err
	}
	o.KeyslotCipher, o.KeyslotKeySize = a.Cipher, a.KeySize
	return nil
}

// checkIVRange refuses the 32-bit IV for data whose sectors it cannot number:
// the same IV would encrypt two sectors.
func checkIVRange(spec sector.Spec, data int64) error {
	if spec.IV == "plain" && data > 1<<32*sector.UnitSize {
		return fmt.Errorf("%w: %s numbers 2 TiB of sectors and repeats in %d bytes; plain64 does not", ErrPolicy, spec, data)
	}
	return nil
}

// newKey returns the volume key: the one given, if it is fit for the cipher,
// or a random one.
func (o *FormatOptions) newKey() (*secret.Buffer, error) {
	if o.VolumeKey == nil {
		key := secret.New(o.KeySize)
		_, _ = rand.Read(key.Bytes()) // never fails
		return key, nil
	}
	if len(o.VolumeKey) != o.KeySize {
		return nil, fmt.Errorf("%w: volume key of %d bytes, not %d", ErrOption, len(o.VolumeKey), o.KeySize)
	}
	if half := o.KeySize / 2; strings.Contains(o.Cipher, "-xts-") && subtle.ConstantTimeCompare(o.VolumeKey[:half], o.VolumeKey[half:]) == 1 {
		return nil, fmt.Errorf("%w: the two halves of the volume key are equal, which XTS does not allow (SP 800-38E)", ErrPolicy)
	}
	key := secret.New(o.KeySize)
	copy(key.Bytes(), o.VolumeKey)
	return key, nil
}

// fillArea derives the key of the first keyslot's area, and splits the volume
// key into it.
func (p *Prepared) fillArea(ctx context.Context, k *Keyslot, passphrase []byte) error {
	start := time.Now()
	areaKey, err := k.KDF.derive(ctx, passphrase, k.Area.KeySize)
	p.volume.KDFTime = time.Since(start)
	if err != nil {
		return err
	}
	defer secret.Wipe(areaKey)
	p.area, err = k.fill(p.volume.Key(), areaKey)
	return err
}

// build derives and encrypts, then writes both copies of the header and reads
// the primary back, so that a volume that this package makes is one that it
// opens.
func (p *Prepared) build(ctx context.Context, o *FormatOptions) error {
	if o.Version == 1 {
		return p.buildLUKS1(ctx, o)
	}
	h, err := p.newHeader(ctx, o)
	if err != nil {
		return err
	}
	if err := p.fillArea(ctx, &h.Keyslots[0], o.Passphrase); err != nil {
		return err
	}
	text, err := h.encodeNew()
	if err != nil {
		return err
	}
	for i, c := range []Copy{Primary, Secondary} {
		if p.copies[i], err = h.marshalCopy(c, text, defaultHash); err != nil {
			return err
		}
	}
	p.volume.Header, err = readCopy(bytes.NewReader(p.copies[0]), -1, Primary, 0)
	return err
}

// chooseDigest measures how many iterations the digest of size bytes is to take.
func (o *FormatOptions) chooseDigest(ctx context.Context, size int) error {
	if o.DigestIterations != 0 {
		return nil
	}
	k, err := choosePBKDF2(ctx, KDF{Type: KDFPBKDF2, Hash: o.Hash}, size, digestIterTime)
	o.DigestIterations = k.Iterations
	return err
}

// newHeader describes the new volume: keyslot 0, segment 0, digest 0.
func (p *Prepared) newHeader(ctx context.Context, o *FormatOptions) (*Header, error) {
	if err := o.chooseDigest(ctx, o.KeySize); err != nil {
		return nil, err
	}
	d, err := newDigest(ctx, p.volume.Key(), o.Hash, o.DigestIterations)
	if err != nil {
		return nil, err
	}
	d.Keyslots, d.Segments = []int{0}, []int{0}
	if o.KDF.Salt == nil {
		o.KDF.Salt = randomBytes(newSaltSize)
	}
	return &Header{
		UUID:      o.UUID,
		Label:     o.Label,
		Subsystem: o.Subsystem,
		SeqID:     1,
		Size:      p.layout.metadata,
		Keyslots: []Keyslot{{
			Type:    typeLUKS2,
			KeySize: o.KeySize,
			KDF:     o.KDF,
			AF:      AF{Stripes: afStripes, Hash: o.Hash},
			Area: Area{
				Type:    "raw",
				Offset:  2 * p.layout.metadata,
				Size:    areaSize(o.KeySize),
				Cipher:  o.KeyslotCipher,
				KeySize: o.KeyslotKeySize,
			},
		}},
		Segments: []Segment{{
			Type:       typeCrypt,
			Offset:     p.layout.dataOffset,
			Size:       -1,
			Cipher:     o.Cipher,
			SectorSize: o.SectorSize,
		}},
		Digests: []Digest{d},
		Config:  Config{JSONSize: p.layout.metadata - binarySize, KeyslotsSize: p.layout.keyslots},
	}, nil
}

// marshalCopy returns one whole copy with its checksum. The salt is the copy's
// own, so that the checksums of the copies differ.
func (h *Header) marshalCopy(c Copy, text []byte, checksumAlg string) ([]byte, error) {
	if int64(len(text)) >= h.Size-binarySize {
		return nil, fmt.Errorf("%w: %d bytes of JSON and a NUL in a JSON area of %d: %d too many",
			ErrSize, len(text), h.Size-binarySize, int64(len(text))+1-(h.Size-binarySize))
	}
	b := &binaryHeader{
		copy:        c,
		size:        h.Size,
		seqID:       h.SeqID,
		label:       h.Label,
		checksumAlg: checksumAlg,
		salt:        [saltSize]byte(randomBytes(saltSize)),
		uuid:        h.UUID,
		subsystem:   h.Subsystem,
	}
	b.offset = h.placeOf(c)
	whole := make([]byte, h.Size)
	copy(whole, b.marshal())
	copy(whole[binarySize:], text)
	return whole, seal(whole, b.checksumAlg)
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
