package luks

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/xtsdisk/xtsdisk/internal/secret"
	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// NewKeyslot describes a keyslot to be made. Zero values take the defaults of
// cryptsetup 2.6.
type NewKeyslot struct {
	Slot       int    // its number, or AnySlot for the first that is free; ChangeKey keeps the old one's
	Passphrase []byte // any bytes, none included; the caller wipes it
	KDF        KDF    // zero: ChooseKDF with its defaults; LUKS1 takes PBKDF2 with its own hash only

	// Of the keyslot's area, LUKS2 only. Default: cipher and key size of the
	// data; aes-xts-plain64 with 64 bytes where the data is authenticated or its
	// cipher hides nothing.
	Cipher  string
	KeySize int    // bytes
	Hash    string // of the anti-forensic split; default "sha256"

	Priority *Priority // nil: normal; ChangeKey keeps the old one's

	// Key, if not nil, is held by the keyslot instead of the volume key and
	// opens no data: an unbound keyslot, LUKS2 only.
	Key              []byte
	DigestIterations int // of the digest of Key, at least 1000; 0: measured for 125 ms
}

// Format prints the description without passphrase and key, whatever the verb
// and flags.
func (n NewKeyslot) Format(f fmt.State, verb rune) {
	type bare NewKeyslot // without this method
	n.Passphrase, n.Key = nil, nil
	fmt.Fprintf(f, fmt.FormatString(f, verb), bare(n))
}

// newSlot is a keyslot that is ready but for its place.
type newSlot struct {
	Keyslot
	contents []byte // of the area, encrypted
}

// AddKey adds a keyslot for the volume key of v, which was unlocked from the
// same header, or for n.Key; v may be nil then. It returns the keyslot's
// number. Errors wrap ErrOption, ErrUnsupported, ErrNoMemory, ErrSize (the
// keyslots area or the JSON area is full) and those of Edit.
func (e *Editor) AddKey(ctx context.Context, v *Volume, n NewKeyslot) (slot int, err error) {
	if e.header.Version == 1 {
		return e.addLUKS1(ctx, v, n)
	}
	key := n.Key
	if key == nil {
		key = v.Key()
	}
	made, err := e.prepare(ctx, key, n)
	if err != nil {
		return 0, err
	}
	var digest *Digest
	if n.Key != nil {
		if digest, err = e.unboundDigest(ctx, n); err != nil {
			return 0, err
		}
	}
	err = e.change(ctx, func() (err error) {
		slot, err = e.addLocked(v, n, made, digest)
		return err
	})
	return slot, err
}

// addLocked gives the keyslot its place and writes it: first the area.
func (e *Editor) addLocked(v *Volume, n NewKeyslot, made *newSlot, digest *Digest) (slot int, err error) {
	if slot, err = e.freeSlot(n.Slot); err != nil {
		return 0, err
	}
	owner := -1
	if digest == nil {
		if owner, err = e.digestFor(v); err != nil {
			return 0, err
		}
	}
	if err := e.place(made); err != nil {
		return 0, err
	}
	return slot, e.apply(func(_ *Header, root *jsonNode) error {
		root.child("keyslots").set(strconv.Itoa(slot), made.json(n.Priority))
		if digest != nil {
			digests := root.child("digests")
			owner = freeID(digests.names(), maxDigests)
			if owner < 0 {
				return fmt.Errorf("%w: all %d digests are in use", ErrSize, maxDigests)
			}
			digests.set(strconv.Itoa(owner), encodeJSON(digest.encode()))
		}
		root.path("digests", strconv.Itoa(owner), "keyslots").addID(slot)
		return nil
	})
}

// maxDigests is the number of digests that cryptsetup takes.
const maxDigests = 8

// place finds room for the keyslot's area and writes it there.
func (e *Editor) place(made *newSlot) error {
	off, err := e.freeArea(made.Area.Size)
	if err != nil {
		return err
	}
	made.Area.Offset = off
	return e.writeArea(made.contents, off, made.Area.Size)
}

// freeSlot returns slot if it is free, or the first that is.
func (e *Editor) freeSlot(slot int) (int, error) {
	names := newJSONNode([]byte(e.header.json.raw)).child("keyslots").names()
	if slot == AnySlot {
		if slot = freeID(names, maxObjects); slot < 0 {
			return 0, fmt.Errorf("%w: all %d keyslots are in use", ErrSize, maxObjects)
		}
		return slot, nil
	}
	if slot < 0 || slot >= maxObjects {
		return 0, fmt.Errorf("%w: keyslot %d is not from 0 to %d", ErrOption, slot, maxObjects-1)
	}
	if slices.Contains(names, strconv.Itoa(slot)) {
		return 0, fmt.Errorf("%w: keyslot %d is in use", ErrOption, slot)
	}
	return slot, nil
}

// digestFor returns the ID of the digest that verified the key of v, if that
// still is what it was: another program may have changed the header since.
func (e *Editor) digestFor(v *Volume) (int, error) {
	for _, d := range v.Header.Digests {
		if d.ID != v.digest {
			continue
		}
		for _, now := range e.header.Digests {
			if now.ID == d.ID && bytes.Equal(now.Value, d.Value) && bytes.Equal(now.KDF.Salt, d.KDF.Salt) {
				return d.ID, nil
			}
		}
	}
	return 0, fmt.Errorf("%w: digest %d is no longer that of the volume key: the header was changed meanwhile", ErrPolicy, v.digest)
}

// prepare derives the key of the area and fills it. That takes the KDF's time.
func (e *Editor) prepare(ctx context.Context, key []byte, n NewKeyslot) (*newSlot, error) {
	made := &newSlot{Keyslot: Keyslot{
		Type:    typeLUKS2,
		KeySize: len(key),
		KDF:     n.KDF,
		AF:      AF{Stripes: afStripes, Hash: n.Hash},
		Area:    Area{Type: "raw", Cipher: n.Cipher, KeySize: n.KeySize, Size: areaSize(len(key))},
	}}
	setDefault(&made.AF.Hash, defaultHash)
	if _, err := hashByName(made.AF.Hash); err != nil {
		return nil, err
	}
	if len(key) == 0 || len(key) > maxKeySize {
		return nil, fmt.Errorf("%w: key of %d bytes is not from 1 to %d", ErrOption, len(key), maxKeySize)
	}
	if err := e.header.setAreaCipher(&made.Area); err != nil {
		return nil, err
	}
	if err := completeKDF(ctx, &made.KDF, made.Area.KeySize); err != nil {
		return nil, err
	}
	var err error
	made.contents, err = made.seal(ctx, key, n.Passphrase)
	return made, err
}

// seal returns the contents of the keyslot's area.
func (k *Keyslot) seal(ctx context.Context, key, passphrase []byte) ([]byte, error) {
	areaKey, err := k.KDF.derive(ctx, passphrase, k.Area.KeySize)
	if err != nil {
		return nil, err
	}
	defer secret.Wipe(areaKey)
	return k.fill(key, areaKey)
}

// completeKDF chooses costs if there are none, checks them, and adds the salt.
func completeKDF(ctx context.Context, k *KDF, size int) (err error) {
	if k.Type == "" {
		if *k, err = ChooseKDF(ctx, KDFTarget{KeySize: size}); err != nil {
			return err
		}
	}
	if err := k.checkNew(); err != nil {
		return err
	}
	if err := k.affordable(); err != nil {
		return err
	}
	if k.Salt == nil {
		k.Salt = randomBytes(newSaltSize)
	}
	return nil
}

// setAreaCipher checks the cipher of a new keyslot's area, or chooses as
// cryptsetup does: that of the data, unless it hides nothing, is one that is
// only read here, or has tags besides.
func (h *Header) setAreaCipher(a *Area) error {
	if a.Cipher == "" && a.KeySize == 0 {
		a.Cipher, a.KeySize = defaultCipher, defaultKeySize
		if s := h.dataSegment(); s != nil && s.Integrity == nil {
			spec, err := sector.Parse(s.Cipher)
			n, ok := h.keySize(h.segmentDigest(s.ID))
			if err == nil && ok && spec.ReadOnly() == "" && spec.ValidKeySize(n) {
				a.Cipher, a.KeySize = s.Cipher, n
			}
		}
		return nil
	}
	setDefault(&a.Cipher, defaultCipher)
	setDefault(&a.KeySize, defaultKeySize)
	if err := writable(a.Cipher); err != nil {
		return err
	}
	if spec, _ := sector.Parse(a.Cipher); !spec.ValidKeySize(a.KeySize) {
		return fmt.Errorf("%w: keyslot key of %d bytes for %s", ErrOption, a.KeySize, spec)
	}
	return nil
}

// writable returns nil if keyslots may be made with the cipher.
func writable(cipher string) error {
	spec, err := sector.Parse(cipher)
	if err != nil {
		return cipherError(err)
	}
	if why := spec.ReadOnly(); why != "" {
		return fmt.Errorf("%w: a new keyslot with %s, which %s", ErrPolicy, spec, why)
	}
	return nil
}

// dataSegment returns the first segment of current data that has a digest, or
// nil.
func (h *Header) dataSegment() *Segment {
	for i := range h.Segments {
		if s := &h.Segments[i]; s.Type == typeCrypt && !s.backup() && h.segmentDigest(s.ID) != nil {
			return s
		}
	}
	return nil
}

// unboundDigest makes the digest of a key that is not the volume's.
func (e *Editor) unboundDigest(ctx context.Context, n NewKeyslot) (*Digest, error) {
	iterations := n.DigestIterations
	if iterations == 0 {
		k, err := choosePBKDF2(ctx, KDF{Type: KDFPBKDF2, Hash: defaultHash}, len(n.Key), digestIterTime)
		if err != nil {
			return nil, err
		}
		iterations = k.Iterations
	}
	if iterations < minDigestIterations || iterations > maxIterations {
		return nil, fmt.Errorf("%w: %d digest iterations are not from %d to %d", ErrOption, iterations, minDigestIterations, maxIterations)
	}
	d, err := newDigest(ctx, n.Key, defaultHash, iterations)
	return &d, err
}

// json is the keyslot object, with the priority unless it is nil or normal.
func (s *newSlot) json(p *Priority) []byte {
	j := s.encode()
	if p != nil && *p != PriorityNormal {
		j.Priority = p
	}
	return encodeJSON(j)
}
