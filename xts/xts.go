// Package xts encrypts sectors with AES in XTS mode, as IEEE 1619-2018 defines
// it and NIST SP 800-38E approves it for storage devices, many sectors in one
// call.
//
// XTS is a tweakable cipher of the length of its input: the same data under
// the same key and the same tweak (the sector's number) always gives the same
// ciphertext, of the same length. What it gives: who sees the medium once
// learns nothing about the data. What it does not give:
//
//   - Integrity. A changed bit of ciphertext garbles one 16-byte block (two
//     where ciphertext was stolen) and leaves all others as they were; nothing
//     tells that it happened. A block or sector can be put back to an older
//     state unnoticed.
//   - Hiding of what changes. Who sees the medium twice sees which 16-byte
//     blocks changed, and which changed back.
//   - Anything, for data that may be authenticated or lengthened. Messages and
//     files are better served by an AEAD such as AES-GCM (crypto/cipher.NewGCM).
//
// IEEE 1619-2018, section 5.1, and SP 800-38E, section 4, bound a data unit (a
// sector) to 2^20 blocks of 16 bytes, which this package enforces. How much is
// encrypted under one key is the caller's to bound, who alone knows what else
// the key is used for: what an attacker can tell grows with the square of the
// number of blocks (IEEE 1619-2018, Annex D), far below the standard's limit of
// 2^64.
//
// The unit of work is a run of sectors: Cipher.EncryptRun and
// Cipher.EncryptTweaked take many at once and reach their speed from 4 KiB up
// by encrypting the tweaks of many sectors together. Everything is pure memory
// work: no goroutines, no I/O, no allocation outside NewCipher.
//
// Where the processor has AES instructions, encryption and decryption take
// a time that depends on lengths only. At the level "generic" that is as
// crypto/aes does it: in variable time on processors without them and in
// builds with the tag purego.
package xts

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"

	"github.com/xtsdisk/xtsdisk/xts/asm"
)

const (
	// BlockSize is AES's block size in bytes, and the least length of a data
	// unit (IEEE 1619-2018, section 5.1).
	BlockSize = 16

	// MaxUnitSize is the greatest length of a data unit in bytes: 2^20 blocks
	// (IEEE 1619-2018, section 5.1; NIST SP 800-38E, section 4).
	MaxUnitSize = 1 << 20 * BlockSize
)

// ErrEqualHalves is returned by NewCipher for a key whose halves are equal.
// With K1 = K2 the tweak's encryption can be reproduced with chosen data,
// which breaks XTS; FIPS 140 (implementation guidance A.9, now C.I) demands
// the check. Existing volumes with such a key open with AllowEqualHalves.
var ErrEqualHalves = errors.New("xts: the halves of the key are equal")

// Cipher is AES-XTS under one key. It is safe for concurrent use, but for
// Wipe. Copies share the key. Printing it in any form shows no key.
type Cipher struct {
	// Two pointers, so that fmt stops before the key even where Cipher is an
	// unexported field of what it prints, of which it calls no methods: there it
	// follows one pointer, for a verb that pointers do not have ("%s").
	key **schedule
}

type schedule struct {
	asm.XTSKey
	wiped bool
}

// Option changes how NewCipher makes a Cipher.
type Option func(*options)

type options struct {
	level       string
	equalHalves bool
}

// WithLevel forces a level by its name, one of those that Levels returns. A
// name that is unknown, or a level that the build or the processor lacks, is
// an error of NewCipher, never a silent fallback. The empty name is the
// default level, that of DefaultLevel.
func WithLevel(name string) Option {
	return func(o *options) { o.level = name }
}

// AllowEqualHalves lets NewCipher accept a key whose halves are equal, for
// volumes that have one and for the first test vector of IEEE 1619.
func AllowEqualHalves() Option {
	return func(o *options) { o.equalHalves = true }
}

// NewCipher returns AES-XTS under key: 32 bytes for AES-128, 48 for AES-192
// (not in IEEE 1619, but in use), 64 for AES-256. The first half, K1, encrypts
// data, the second, K2, tweaks. The key is expanded and not kept; the caller
// may clear it.
//
// Errors: a key of another length, equal halves (ErrEqualHalves, unless
// AllowEqualHalves is given), a level that is unknown or cannot run here,
// forced by WithLevel or by the environment variable XTSDISK_LEVEL.
func NewCipher(key []byte, opts ...Option) (*Cipher, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	switch len(key) {
	case 32, 48, 64:
	default:
		return nil, fmt.Errorf("xts: key of %d bytes, must be 32, 48 or 64", len(key))
	}
	half := len(key) / 2
	if !o.equalHalves && subtle.ConstantTimeCompare(key[:half], key[half:]) == 1 {
		return nil, ErrEqualHalves
	}
	level, err := findLevel(o.level)
	if err != nil {
		return nil, err
	}
	s := new(schedule)
	s.Init(level, key)
	return &Cipher{key: &s}, nil
}

// Encrypt encrypts one data unit of 16 to MaxUnitSize bytes, any length
// between (ciphertext stealing, IEEE 1619-2018, section 5.3.2), from src to
// dst, of which it writes len(src) bytes. The tweak is the 16 bytes before
// their encryption under K2: the number of the data unit in little-endian
// order (IEEE 1619-2018, section 5.1).
//
// dst and src must be the same memory or not overlap. Encrypt panics on a
// length out of range, a dst shorter than src, partial overlap, and after
// Wipe. While it runs, dst may hold intermediate values.
func (c *Cipher) Encrypt(dst, src []byte, tweak *[16]byte) {
	(*c.key).Encrypt(c.checkUnit(dst, src), src, tweak)
}

// Decrypt is the inverse of Encrypt (IEEE 1619-2018, section 5.4), under the
// same conditions.
func (c *Cipher) Decrypt(dst, src []byte, tweak *[16]byte) {
	(*c.key).Decrypt(c.checkUnit(dst, src), src, tweak)
}

// Level returns the name of the level in use: one of those of Levels.
func (c *Cipher) Level() string { return (*c.key).Level().String() }

// Wipe overwrites the key schedules. Any encryption or decryption after it
// panics; it must not run at the same time as one. Wiping again is allowed. Out
// of its reach is what the system stored of the registers when a signal arrived
// during a call.
func (c *Cipher) Wipe() {
	if s := *c.key; !s.wiped {
		s.XTSKey.Wipe()
		s.wiped = true
	}
}

// String names the type and no key.
func (c Cipher) String() string { return "xts.Cipher" }

// GoString names the type and no key.
func (c Cipher) GoString() string { return "xts.Cipher" }

// Format prints the type's name and no key, whatever the verb and flags.
func (c Cipher) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "xts.Cipher") }

// Levels returns the names of the levels that this build and this processor
// can run, slowest first. The first is always "generic": over crypto/aes,
// without assembly of this module.
func Levels() []string {
	levels := asm.Levels()
	names := make([]string, len(levels))
	for i, l := range levels {
		names[i] = l.String()
	}
	return names
}

// LevelInfo tells about a level.
type LevelInfo struct {
	Name string // as WithLevel takes it
	// Missing is what the level needs and lacks here, in words: its code in this
	// build, or features of the processor. It is empty if the level can run.
	Missing []string
}

// AllLevels returns every level there is, slowest first, whether or not this
// build and this processor can run it, and what is missing where they can't.
func AllLevels() []LevelInfo {
	levels := asm.AllLevels()
	infos := make([]LevelInfo, len(levels))
	for i, l := range levels {
		infos[i] = LevelInfo{l.String(), asm.Missing(l)}
	}
	return infos
}

// DefaultLevel returns the level that NewCipher uses when none is forced, and
// in one sentence why. The environment variable XTSDISK_LEVEL forces one: an
// unknown or unsupported name there is an error.
func DefaultLevel() (name, why string, err error) {
	level, why, err := asm.Default()
	if err != nil {
		return "", "", err
	}
	return level.String(), why, nil
}

func findLevel(name string) (asm.Level, error) {
	if name == "" {
		level, _, err := asm.Default()
		return level, err
	}
	level, err := asm.ParseLevel(name)
	if err != nil {
		return 0, err
	}
	return level, asm.Supported(level)
}
