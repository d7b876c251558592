package sector

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"

	"github.com/xtsdisk/xtsdisk/internal/hashes"
)

// The names of IVs (Linux, drivers/md/dm-crypt.c, crypt_iv_*).
const (
	ivPlain     = "plain"     // 32 bits of the number, little-endian
	ivPlain64   = "plain64"   // 64 bits, little-endian
	ivPlain64BE = "plain64be" // 64 bits, big-endian, in the upper half
	ivBenbi     = "benbi"     // 64 bits, big-endian: the number of the cipher's block, from 1 on
	ivESSIV     = "essiv"     // plain64, encrypted under a hash of the key
)

const blockSize = 16 // bytes, of every cipher and so of every IV here

// makeIV makes the IV of a sector from its number. It is safe for concurrent
// use.
type makeIV func(number uint64) [blockSize]byte

// newIV returns the IV maker of s; key is the whole key of the data.
func newIV(s Spec, key []byte) (makeIV, error) {
	switch s.IV {
	case ivPlain:
		return plainIV, nil
	case ivPlain64:
		return plain64IV, nil
	case ivPlain64BE:
		return func(number uint64) (iv [blockSize]byte) {
			binary.BigEndian.PutUint64(iv[8:], number)
			return iv
		}, nil
	case ivBenbi:
		return func(number uint64) (iv [blockSize]byte) {
			binary.BigEndian.PutUint64(iv[8:], number*(UnitSize/blockSize)+1)
			return iv
		}, nil
	}
	return newESSIV(s, key)
}

func plainIV(number uint64) [blockSize]byte { return plain64IV(uint64(uint32(number))) }

func plain64IV(number uint64) (iv [blockSize]byte) {
	binary.LittleEndian.PutUint64(iv[:], number)
	return iv
}

// newESSIV returns the maker of IVs that are the number encrypted by the same
// block cipher under a hash of the key, so that they cannot be foretold.
func newESSIV(s Spec, key []byte) (makeIV, error) {
	newHash := hashes.ByName(essivHash(s.IV))
	if newHash == nil {
		return nil, s.unsupported()
	}
	h := newHash()
	defer hashes.Forget(h)
	h.Write(key)
	salt := h.Sum(nil)
	defer clear(salt)
	block, err := newBlock(s.Cipher, salt)
	if err != nil {
		return nil, err
	}
	return func(number uint64) [blockSize]byte {
		iv := plain64IV(number)
		encryptBlock(block, &iv)
		return iv
	}, nil
}

// encryptBlock keeps what cipher.Block makes escape away from callers' arrays.
func encryptBlock(block cipher.Block, b *[blockSize]byte) {
	out := make([]byte, blockSize)
	block.Encrypt(out, b[:])
	copy(b[:], out)
}

func essivHash(iv string) string { return iv[min(len(iv), len(ivESSIV)+1):] }

// checkESSIV checks that the hash is known, and as long as a key of the cipher.
func checkESSIV(cipher, hash string) error {
	newHash := hashes.ByName(hash)
	if newHash == nil {
		return fmt.Errorf("hash %q of %s", hash, ivESSIV)
	}
	switch n := newHash().Size(); n {
	case 16, 24, 32:
		return nil
	default:
		return fmt.Errorf("hash %q of %s gives %d bytes, which is no key of %s", hash, ivESSIV, n, cipher)
	}
}
