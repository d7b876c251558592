package sector

import "crypto/cipher"

// cbcFamilies returns CBC (SP 800-38A, section 6.2) over block ciphers.
func cbcFamilies(ciphers ...string) (out []*family) {
	for _, name := range ciphers {
		out = append(out, &family{
			cipher:   name,
			mode:     "cbc",
			ivs:      []string{ivPlain, ivPlain64, ivPlain64BE, ivESSIV},
			keySizes: blockKeys,
			new:      newCBC,
		})
	}
	return out
}

type cbcCipher struct {
	geometry
	iv    makeIV
	block cipher.Block
}

func newCBC(s Spec, key []byte, o Options) (Cipher, error) {
	c := &cbcCipher{geometry: newGeometry(o)}
	var err error
	if c.iv, err = newIV(s, key); err != nil {
		return nil, err
	}
	if c.block, err = newBlock(s.Cipher, key); err != nil {
		return nil, err
	}
	return c, nil
}

// Encrypt implements Cipher.
func (c *cbcCipher) Encrypt(dst, src []byte, ivSector uint64) {
	c.run(dst, src, ivSector, cipher.NewCBCEncrypter(c.block, make([]byte, blockSize)))
}

// Decrypt implements Cipher.
func (c *cbcCipher) Decrypt(dst, src []byte, ivSector uint64) {
	c.run(dst, src, ivSector, cipher.NewCBCDecrypter(c.block, make([]byte, blockSize)))
}

// run sets the IV of each sector; the standard library's modes can.
func (c *cbcCipher) run(dst, src []byte, ivSector uint64, mode cipher.BlockMode) {
	chain := mode.(interface{ SetIV([]byte) })
	iv := make([]byte, blockSize)
	c.eachSector(dst, src, ivSector, func(dst, src []byte, number uint64) {
		made := c.iv(number)
		copy(iv, made[:])
		chain.SetIV(iv)
		mode.CryptBlocks(dst, src)
	})
}

// Wipe implements Cipher.
func (c *cbcCipher) Wipe() { c.block = nil }
