package asm

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"reflect"
)

// The level without assembly of our own: XTS of IEEE 1619-2018 section 5 over
// single-block calls of a cipher.Block. crypto/aes computes in constant time
// where the processor has AES instructions that it uses, and in variable time
// (table lookups) elsewhere, which includes every build with the tag purego;
// everything else here is constant-time.
//
// What makes it several times faster than a block-at-a-time loop is that a
// batch of blocks is first masked, then encrypted in place in dst, then masked
// again: the block calls of a batch are independent of each other, so that
// the processor overlaps them, and no block is loaded just after it was stored
// by halves, which stalls. The mask is doubled anew in the second pass rather
// than kept, so there is no buffer of tweaks to allocate or to clear. For the
// same reason the tweak's own encryption is done inside dst, whose first block
// is being overwritten anyway: memory handed through the cipher.Block
// interface escapes to the heap, and dst is there already.

// batchBlocks is the number of blocks between the two masking passes: enough
// to be out of the reach of store forwarding, few enough to stay in L1.
const batchBlocks = 32

// genericXTS is XTS over any block cipher of 16-byte blocks; XTSKey uses it
// with crypto/aes. It is safe for concurrent use if its blocks are.
type genericXTS struct {
	k1, k2 cipher.Block // data, tweak
}

// BlockXTS is XTS over any two block ciphers of 16-byte blocks, for ciphers
// that have no assembly here. It is safe for concurrent use if they are.
type BlockXTS struct{ generic genericXTS }

// NewBlockXTS returns XTS that encrypts data with k1 and tweaks with k2. It
// trusts that the block size of both is 16 bytes.
func NewBlockXTS(k1, k2 cipher.Block) *BlockXTS {
	return &BlockXTS{genericXTS{k1, k2}}
}

// Encrypt encrypts one data unit of at least 16 bytes. len(dst) must be at
// least len(src); they are the same memory or do not overlap.
func (b *BlockXTS) Encrypt(dst, src []byte, tweak *[16]byte) { b.generic.encrypt(dst, src, tweak) }

// Decrypt is the inverse of Encrypt, under the same conditions.
func (b *BlockXTS) Decrypt(dst, src []byte, tweak *[16]byte) { b.generic.decrypt(dst, src, tweak) }

// tweak128 is a tweak as polynomial over GF(2): bit i of lo is x^i, bit i of
// hi is x^(64+i), which is the little-endian order of IEEE 1619, section 5.2.
type tweak128 struct{ lo, hi uint64 }

// timesX multiplies by x modulo x^128 + x^7 + x^2 + x + 1. The carry becomes a
// mask: no branch, no lookup.
func (t tweak128) timesX() tweak128 {
	carry := uint64(int64(t.hi)>>63) & 0x87
	return tweak128{lo: t.lo<<1 ^ carry, hi: t.hi<<1 | t.lo>>63}
}

func loadTweak(b []byte) tweak128 {
	return tweak128{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:16])}
}

func (t tweak128) store(b []byte) {
	binary.LittleEndian.PutUint64(b, t.lo)
	binary.LittleEndian.PutUint64(b[8:16], t.hi)
}

// init expands key, K1 then K2, of 32, 48 or 64 bytes, for crypto/aes.
func (g *genericXTS) init(key []byte) {
	k1, err1 := aes.NewCipher(key[:len(key)/2])
	k2, err2 := aes.NewCipher(key[len(key)/2:])
	if err1 != nil || err2 != nil {
		panic("xts/asm: key is not 32, 48 or 64 bytes")
	}
	g.k1, g.k2 = k1, k2
}

// wipe overwrites the schedules inside crypto/aes, which offers no way of its
// own to do so.
func (g *genericXTS) wipe() {
	for _, b := range []cipher.Block{g.k1, g.k2} {
		// A pointer's target may be set whole, its unexported fields included,
		// whatever the fields are on this processor.
		if v := reflect.ValueOf(b); v.Kind() == reflect.Pointer && !v.IsNil() {
			v.Elem().SetZero()
		}
	}
	g.k1, g.k2 = nil, nil
}

// encryptTweak returns E_K2(iv), computed in scratch, which is 16 bytes.
func (g *genericXTS) encryptTweak(iv tweak128, scratch []byte) tweak128 {
	iv.store(scratch)
	g.k2.Encrypt(scratch, scratch)
	return loadTweak(scratch)
}

func (g *genericXTS) encrypt(dst, src []byte, tweak *[16]byte) {
	g.unit(dst, src, loadTweak(tweak[:]), false)
}

func (g *genericXTS) decrypt(dst, src []byte, tweak *[16]byte) {
	g.unit(dst, src, loadTweak(tweak[:]), true)
}

// unit encrypts or decrypts one data unit of any length from 16 bytes, in
// place or not, with the unencrypted tweak iv.
func (g *genericXTS) unit(dst, src []byte, iv tweak128, decrypt bool) {
	dst = dst[:len(src)]
	rest := len(src) % 16
	whole := len(src) - rest
	if rest != 0 {
		whole -= 16 // the last whole block takes part in the stealing
	}

	// In place, the first block waits in registers while dst holds the tweak.
	first := loadTweak(src)
	t := g.encryptTweak(iv, dst[:16])
	first.store(dst)

	t = g.blocks(dst[:whole], src[:whole], t, decrypt)
	if rest != 0 {
		copy(dst[whole:], src[whole:])
		g.steal(dst[whole:], t, decrypt)
	}
}

// blocks encrypts or decrypts whole blocks, of which t is the first tweak, and
// returns the tweak after the last.
func (g *genericXTS) blocks(dst, src []byte, t tweak128, decrypt bool) tweak128 {
	for len(src) > 0 {
		n := min(len(src), batchBlocks*16)
		maskBlocks(dst[:n], src[:n], t)
		t = g.finishBatch(dst[:n], t, decrypt)
		dst, src = dst[n:], src[n:]
	}
	return t
}

// finishBatch takes a batch that is masked once and whose first tweak is t.
func (g *genericXTS) finishBatch(b []byte, t tweak128, decrypt bool) tweak128 {
	if k1 := g.k1; decrypt {
		for i := 0; i+16 <= len(b); i += 16 {
			k1.Decrypt(b[i:i+16:i+16], b[i:i+16:i+16])
		}
	} else {
		for i := 0; i+16 <= len(b); i += 16 {
			k1.Encrypt(b[i:i+16:i+16], b[i:i+16:i+16])
		}
	}
	return maskBlocks(b, b, t)
}

// maskBlocks xors whole blocks with t, t·x, t·x², ... and returns the tweak
// after the last. Counting an index costs less than cutting the slices.
func maskBlocks(dst, src []byte, t tweak128) tweak128 {
	dst = dst[:len(src)]
	for i := 0; i+16 <= len(src); i += 16 {
		s, d := src[i:i+16:i+16], dst[i:i+16:i+16]
		binary.LittleEndian.PutUint64(d, binary.LittleEndian.Uint64(s)^t.lo)
		binary.LittleEndian.PutUint64(d[8:], binary.LittleEndian.Uint64(s[8:])^t.hi)
		t = t.timesX()
	}
	return t
}

// steal does the last 17 to 31 bytes of a data unit in place; t is the tweak
// of the whole block among them (IEEE 1619-2018, sections 5.3.2 and 5.4.2).
// Encrypting uses the two tweaks in order, decrypting the other way round.
func (g *genericXTS) steal(b []byte, t tweak128, decrypt bool) {
	one, two := t, t.timesX()
	if decrypt {
		one, two = two, one
	}
	maskBlocks(b[:16], b[:16], one)
	g.finishBatch(b[:16], one, decrypt)
	for i := range b[16:] {
		b[i], b[16+i] = b[16+i], b[i]
	}
	maskBlocks(b[:16], b[:16], two)
	g.finishBatch(b[:16], two, decrypt)
}

func (g *genericXTS) encryptRun(dst, src []byte, sectorSize int, first, step uint64) {
	g.run(dst, src, sectorSize, first, step, false)
}

func (g *genericXTS) decryptRun(dst, src []byte, sectorSize int, first, step uint64) {
	g.run(dst, src, sectorSize, first, step, true)
}

func (g *genericXTS) run(dst, src []byte, sectorSize int, first, step uint64, decrypt bool) {
	for ; len(src) > 0; first += step {
		g.unit(dst[:sectorSize], src[:sectorSize], tweak128{lo: first}, decrypt)
		dst, src = dst[sectorSize:], src[sectorSize:]
	}
}

func (g *genericXTS) encryptTweaked(dst, src []byte, sectorSize int, tweaks []byte) {
	g.tweaked(dst, src, sectorSize, tweaks, false)
}

func (g *genericXTS) decryptTweaked(dst, src []byte, sectorSize int, tweaks []byte) {
	g.tweaked(dst, src, sectorSize, tweaks, true)
}

func (g *genericXTS) tweaked(dst, src []byte, sectorSize int, tweaks []byte, decrypt bool) {
	for len(src) > 0 {
		g.unit(dst[:sectorSize], src[:sectorSize], loadTweak(tweaks), decrypt)
		dst, src, tweaks = dst[sectorSize:], src[sectorSize:], tweaks[16:]
	}
}
