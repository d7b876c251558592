package sector

import (
	"bytes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
)

// slowXTS returns XTS (IEEE 1619-2018, section 5, which names AES only) over
// other block ciphers, a block at a time.
func slowXTS(ciphers ...string) (out []*family) {
	for _, name := range ciphers {
		out = append(out, &family{
			cipher:   name,
			mode:     "xts",
			ivs:      []string{ivPlain, ivPlain64, ivPlain64BE, ivESSIV},
			keySizes: doubled(blockKeys),
			new:      newSlowXTS,
		})
	}
	return out
}

type slowXTSCipher struct {
	geometry
	iv          makeIV
	data, tweak cipher.Block
}

func newSlowXTS(s Spec, key []byte, o Options) (Cipher, error) {
	k1, k2 := key[:len(key)/2], key[len(key)/2:]
	if !o.AllowEqualHalves && bytes.Equal(k1, k2) {
		return nil, fmt.Errorf("cipher %s: the two halves of the key are equal", s)
	}
	c := &slowXTSCipher{geometry: newGeometry(o)}
	var err error
	if c.iv, err = newIV(s, key); err != nil {
		return nil, err
	}
	if c.data, err = newBlock(s.Cipher, k1); err != nil {
		return nil, err
	}
	if c.tweak, err = newBlock(s.Cipher, k2); err != nil {
		return nil, err
	}
	return c, nil
}

// Encrypt implements Cipher.
func (c *slowXTSCipher) Encrypt(dst, src []byte, ivSector uint64) {
	c.run(dst, src, ivSector, c.data.Encrypt)
}

// Decrypt implements Cipher.
func (c *slowXTSCipher) Decrypt(dst, src []byte, ivSector uint64) {
	c.run(dst, src, ivSector, c.data.Decrypt)
}

func (c *slowXTSCipher) run(dst, src []byte, ivSector uint64, block func(dst, src []byte)) {
	tweak := make([]byte, blockSize)
	c.eachSector(dst, src, ivSector, func(dst, src []byte, number uint64) {
		iv := c.iv(number)
		copy(tweak, iv[:])
		c.tweak.Encrypt(tweak, tweak)
		for i := 0; i < len(src); i += blockSize {
			b := dst[i : i+blockSize]
			subtle.XORBytes(b, src[i:i+blockSize], tweak)
			block(b, b)
			subtle.XORBytes(b, b, tweak)
			double(tweak)
		}
	})
	clear(tweak)
}

// double multiplies a tweak by x, in little-endian order (IEEE 1619-2018,
// section 5.2).
func double(tweak []byte) {
	low, high := binary.LittleEndian.Uint64(tweak), binary.LittleEndian.Uint64(tweak[8:])
	binary.LittleEndian.PutUint64(tweak, low<<1^high>>63*0x87)
	binary.LittleEndian.PutUint64(tweak[8:], high<<1|low>>63)
}

// Wipe implements Cipher. The key schedules of these packages cannot be
// cleared, only let go.
func (c *slowXTSCipher) Wipe() { c.data, c.tweak = nil, nil }
