package sector

import "crypto/cipher"

// noIVs are what dm-crypt takes, and leaves unused, where a mode has no IV.
var noIVs = []string{"", ivPlain, ivPlain64}

// aesECB encrypts equal blocks to equal blocks.
var aesECB = family{
	cipher:   "aes",
	mode:     "ecb",
	ivs:      noIVs,
	keySizes: blockKeys,
	weak:     "shows which blocks of data are equal",
	new:      newECB,
}

// nullECB is the cipher that does not encrypt.
var nullECB = family{
	cipher: "cipher_null",
	mode:   "ecb",
	ivs:    noIVs,
	weak:   "does not encrypt anything",
	new: func(_ Spec, _ []byte, o Options) (Cipher, error) {
		return nullCipher{newGeometry(o)}, nil
	},
}

type ecbCipher struct {
	geometry
	block cipher.Block
}

func newECB(s Spec, key []byte, o Options) (Cipher, error) {
	block, err := newBlock(s.Cipher, key)
	if err != nil {
		return nil, err
	}
	return &ecbCipher{newGeometry(o), block}, nil
}

// Encrypt implements Cipher.
func (c *ecbCipher) Encrypt(dst, src []byte, ivSector uint64) {
	c.run(dst, src, ivSector, c.block.Encrypt)
}

// Decrypt implements Cipher.
func (c *ecbCipher) Decrypt(dst, src []byte, ivSector uint64) {
	c.run(dst, src, ivSector, c.block.Decrypt)
}

func (c *ecbCipher) run(dst, src []byte, ivSector uint64, block func(dst, src []byte)) {
	c.eachSector(dst, src, ivSector, func(dst, src []byte, _ uint64) {
		for i := 0; i < len(src); i += blockSize {
			block(dst[i:i+blockSize], src[i:i+blockSize])
		}
	})
}

// Wipe implements Cipher.
func (c *ecbCipher) Wipe() { c.block = nil }

type nullCipher struct{ geometry }

// Encrypt implements Cipher.
func (c nullCipher) Encrypt(dst, src []byte, ivSector uint64) {
	c.eachSector(dst, src, ivSector, func(dst, src []byte, _ uint64) { copy(dst, src) })
}

// Decrypt implements Cipher.
func (c nullCipher) Decrypt(dst, src []byte, ivSector uint64) { c.Encrypt(dst, src, ivSector) }

// Wipe implements Cipher.
func (nullCipher) Wipe() {}
