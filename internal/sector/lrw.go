package sector

import (
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"math/bits"
)

// aesLRW is AES in LRW mode (IEEE P1619 draft of 2005; Linux, crypto/lrw.c),
// which IEEE 1619 gave up for XTS. Its key is AES's and 16 bytes for the
// tweaks.
var aesLRW = family{
	cipher:   "aes",
	mode:     "lrw",
	ivs:      []string{ivBenbi, ivPlain, ivPlain64},
	keySizes: []int{16 + blockSize, 24 + blockSize, 32 + blockSize},
	weak:     "reveals its tweak key if that ever lies on the volume itself",
	new:      newLRW,
}

type lrwCipher struct {
	geometry
	iv    makeIV
	block cipher.Block
	// tweak is the tweak key K; steps[i] is K times 2^(i+1)-1, which is what
	// the product changes by when a count whose i low bits are ones goes up.
	tweak element
	steps [128]element
}

func newLRW(s Spec, key []byte, o Options) (Cipher, error) {
	c := &lrwCipher{geometry: newGeometry(o)}
	var err error
	if c.iv, err = newIV(s, key); err != nil {
		return nil, err
	}
	split := len(key) - blockSize
	if c.block, err = newBlock(s.Cipher, key[:split]); err != nil {
		return nil, err
	}
	c.tweak = elementOf(key[split:])
	power, sum := c.tweak, element{}
	for i := range c.steps {
		sum = sum.add(power)
		c.steps[i] = sum
		power = power.double()
	}
	return c, nil
}

// Encrypt implements Cipher.
func (c *lrwCipher) Encrypt(dst, src []byte, ivSector uint64) {
	c.run(dst, src, ivSector, c.block.Encrypt)
}

// Decrypt implements Cipher.
func (c *lrwCipher) Decrypt(dst, src []byte, ivSector uint64) {
	c.run(dst, src, ivSector, c.block.Decrypt)
}

// run xors each block, before and after the cipher, with the product of the
// tweak key and the block's index; a sector's IV is the index of its first.
func (c *lrwCipher) run(dst, src []byte, ivSector uint64, block func(dst, src []byte)) {
	mask := make([]byte, blockSize)
	c.eachSector(dst, src, ivSector, func(dst, src []byte, number uint64) {
		iv := c.iv(number)
		index := elementOf(iv[:])
		product := c.tweak.times(index)
		for i := 0; i < len(src); i += blockSize {
			product.put(mask)
			b := dst[i : i+blockSize]
			subtle.XORBytes(b, src[i:i+blockSize], mask)
			block(b, b)
			subtle.XORBytes(b, b, mask)
			var ones int
			index, ones = index.next()
			product = product.add(c.steps[ones])
		}
	})
	clear(mask)
}

// Wipe implements Cipher.
func (c *lrwCipher) Wipe() {
	c.block, c.tweak, c.steps = nil, element{}, [128]element{}
}

// element is an element of GF(2^128) modulo x^128+x^7+x^2+x+1, big-endian: the
// last bit of the last byte is the coefficient of 1.
type element struct{ high, low uint64 }

func elementOf(b []byte) element {
	return element{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

func (e element) put(b []byte) {
	binary.BigEndian.PutUint64(b, e.high)
	binary.BigEndian.PutUint64(b[8:], e.low)
}

func (e element) add(o element) element { return element{e.high ^ o.high, e.low ^ o.low} }

func (e element) double() element {
	return element{e.high<<1 | e.low>>63, e.low<<1 ^ e.high>>63*0x87}
}

func (e element) times(o element) (sum element) {
	for i := range 128 {
		bit := o.low >> i & 1
		if i >= 64 {
			bit = o.high >> (i - 64) & 1
		}
		sum = sum.add(element{e.high & -bit, e.low & -bit})
		e = e.double()
	}
	return sum
}

// next returns the index after e as a number, and how many of e's low bits are
// ones: those and one more change.
func (e element) next() (after element, ones int) {
	ones = bits.TrailingZeros64(^e.low)
	if ones == 64 {
		ones += bits.TrailingZeros64(^e.high)
	}
	low, carry := bits.Add64(e.low, 1, 0)
	return element{e.high + carry, low}, min(ones, 127)
}
