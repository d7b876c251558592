package speed

import (
	"crypto/aes"
	"fmt"
	"slices"

	xcrypto "golang.org/x/crypto/xts"

	"github.com/xtsdisk/xtsdisk/xts"
)

// XCrypto is the name, in place of a level's, of golang.org/x/crypto/xts: what
// a Go program has without this module.
const XCrypto = "x/crypto/xts"

// firstSector is the number of the first sector or data unit of every body.
const firstSector = 1 << 20

// Case is one thing to measure.
type Case struct {
	Level   string // one of xts.Levels, or XCrypto
	Decrypt bool
	KeyBits int  // of AES: 128, 192, 256
	Size    int  // bytes of a sector or data unit
	Units   bool // one data unit a call, any Size from 16; else runs of sectors of Size, a multiple of 16

	BatchBytes int // bytes a body works on; 0 is the default, see Batch
}

// String is the case as a benchmark's name.
func (c Case) String() string {
	name := fmt.Sprintf("%s/%s/aes%d/%s%d", c.Level, c.direction(), c.KeyBits, c.unit(), c.Size)
	if c.BatchBytes != 0 {
		name += fmt.Sprintf("/batch%d", c.BatchBytes)
	}
	return name
}

func (c Case) unit() string {
	if c.Units {
		return "unit"
	}
	return "run"
}

// shape is what a call is given, for people.
func (c Case) shape() string {
	if c.BatchBytes != 0 {
		return fmt.Sprintf("%s %d in %d", c.unit(), c.Size, c.BatchBytes)
	}
	return fmt.Sprintf("%s %d", c.unit(), c.Size)
}

func (c Case) direction() string {
	if c.Decrypt {
		return "decrypt"
	}
	return "encrypt"
}

// rounds is the number of AES rounds a block takes.
func (c Case) rounds() int { return c.KeyBits/32 + 6 }

// Matrix returns the cases of the levels (nil: all here) and x/crypto/xts in
// both directions, for each key size in bits and each size in bytes: of
// sectors in a run, or with units of single data units. What a peer cannot do
// is left out for it.
func Matrix(levels []string, keyBits, sizes []int, units bool) (cases []Case) {
	if levels == nil {
		levels = xts.Levels()
	}
	for _, bits := range keyBits {
		for _, size := range sizes {
			for _, decrypt := range []bool{false, true} {
				for _, level := range append([]string{XCrypto}, levels...) {
					if size%16 == 0 || units && level != XCrypto {
						cases = append(cases, Case{Level: level, Decrypt: decrypt, KeyBits: bits, Size: size, Units: units})
					}
				}
			}
		}
	}
	return cases
}

// InBatches returns the cases with a batch of that many bytes each, instead of
// the default: how much of its speed a level keeps where calls are small.
func InBatches(cases []Case, bytes int) []Case {
	small := slices.Clone(cases)
	for i := range small {
		small[i].BatchBytes = bytes
	}
	return small
}

// Body is the work of a case: each Call encrypts or decrypts Bytes in place.
type Body struct {
	Call  func()
	Bytes int
	buf   []byte

	elsewhere func(calls int) (Elsewhere, error) // instead of Call: another program does it
}

// Batch is how many bytes a body of c works on, unless c says. For runs it is
// 128 KiB, the most that one assembly call does and what each is given in the
// copying of an image; it stays in any second-level cache. For single data
// units it is 32 KiB, which stays in a first-level cache of 48 KiB.
func (c Case) Batch() int {
	if c.BatchBytes != 0 {
		return c.BatchBytes
	}
	if c.Units {
		return 32 << 10
	}
	return 128 << 10
}

func (c Case) key() []byte {
	key := make([]byte, c.KeyBits/4)
	for i := range key {
		key[i] = byte(i * 7)
	}
	return key
}

// NewBody prepares the work of c on batch bytes, or what of it is a whole
// number of sectors and at least one.
func (c Case) NewBody(batch int) (Body, error) {
	key := c.key()
	buf := make([]byte, c.wholeSectors(batch))
	if c.Level == XCrypto {
		call, err := xcryptoCall(key, buf, c)
		return Body{Call: call, Bytes: len(buf), buf: buf}, err
	}
	cipher, err := xts.NewCipher(key, xts.WithLevel(c.Level))
	if err != nil {
		return Body{}, err
	}
	call := runCall(cipher, buf, c)
	if c.Units {
		call = unitCall(cipher, buf, c)
	}
	return Body{Call: call, Bytes: len(buf), buf: buf}, nil
}

// wholeSectors is what of batch bytes is a whole number of sectors, but at
// least one.
func (c Case) wholeSectors(batch int) int { return max(batch/c.Size, 1) * c.Size }

// runCall is one call for all sectors.
func runCall(cipher *xts.Cipher, buf []byte, c Case) func() {
	run := xts.Run{SectorSize: c.Size, First: firstSector}
	if c.Decrypt {
		return func() { cipher.DecryptRun(buf, buf, run) }
	}
	return func() { cipher.EncryptRun(buf, buf, run) }
}

// unitCall is a call for each data unit, under tweaks made before: writing one
// by halves just before it is loaded whole stalls, and would be measured.
func unitCall(cipher *xts.Cipher, buf []byte, c Case) func() {
	unit := cipher.Encrypt
	if c.Decrypt {
		unit = cipher.Decrypt
	}
	tweaks := make([][16]byte, len(buf)/c.Size)
	for i := range tweaks {
		tweaks[i] = xts.Plain64.Tweak(firstSector + uint64(i))
	}
	return func() {
		for i := range tweaks {
			b := buf[i*c.Size:][:c.Size]
			unit(b, b, &tweaks[i])
		}
	}
}

// xcryptoCall is the same work for golang.org/x/crypto/xts: a sector a call.
func xcryptoCall(key, buf []byte, c Case) (func(), error) {
	if c.Size%16 != 0 {
		return nil, fmt.Errorf("%s has no ciphertext stealing: %d bytes", XCrypto, c.Size)
	}
	cipher, err := xcrypto.NewCipher(aes.NewCipher, key)
	if err != nil {
		return nil, err
	}
	sector := cipher.Encrypt
	if c.Decrypt {
		sector = cipher.Decrypt
	}
	return func() {
		for i := 0; i < len(buf); i += c.Size {
			sector(buf[i:i+c.Size], buf[i:i+c.Size], firstSector+uint64(i/c.Size))
		}
	}, nil
}
