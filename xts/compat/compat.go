// Package compat is golang.org/x/crypto/xts's interface over this module's
// engine: a program changes its import and gets the assembly.
//
// It accepts what that package accepts and panics where it panics: block
// ciphers other than AES, keys with equal halves, data units of zero blocks
// and of more than 2^20, but only whole blocks and 64-bit tweaks. New programs
// should use package xts, which checks keys and sizes as IEEE 1619-2018
// demands and encrypts many sectors in one call. What XTS does not protect is
// in its documentation.
//
// Where cipherFunc gives crypto/aes's cipher, NewCipher takes the level that
// xts.DefaultLevel names. Other ciphers are called a block at a time.
package compat

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/xtsdisk/xtsdisk/xts/asm"
)

const blockSize = 16

// Cipher holds an expanded key. It is safe for concurrent use if the
// underlying block cipher is, as crypto/aes's is.
// Printing it in any form shows no key.
type Cipher struct {
	use *either // a pointer, so that fmt stops at those inside
}

type either struct {
	aes   *asm.XTSKey   // not nil: the cipher is crypto/aes's
	other *asm.BlockXTS // not nil: it is another
}

// Format prints the type's name and no key, whatever the verb and flags.
func (c Cipher) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "compat.Cipher") }

// NewCipher returns XTS over the cipher that cipherFunc makes, which must have
// blocks of 16 bytes. It is called with the first half of key, for data, and
// then with the second, for tweaks.
//
// Errors are cipherFunc's, a block size other than 16, and, for AES, an
// XTSDISK_LEVEL that is unknown or cannot run here.
func NewCipher(cipherFunc func([]byte) (cipher.Block, error), key []byte) (*Cipher, error) {
	k1, err := cipherFunc(key[:len(key)/2])
	if err != nil {
		return nil, err
	}
	k2, err := cipherFunc(key[len(key)/2:])
	if err != nil {
		return nil, err
	}
	if k1.BlockSize() != blockSize {
		return nil, errors.New("xts: cipher does not have a block size of 16")
	}
	if !isAES(k1, key[:len(key)/2]) || !isAES(k2, key[len(key)/2:]) {
		return &Cipher{&either{other: asm.NewBlockXTS(k1, k2)}}, nil
	}
	level, _, err := asm.Default()
	if err != nil {
		return nil, err
	}
	k := new(asm.XTSKey)
	k.Init(level, key)
	return &Cipher{&either{aes: k}}, nil
}

// isAES tells whether b is crypto/aes's cipher under key, so that replacing
// its calls by other code for AES under key cannot be noticed. Two conditions
// make that sound:
//
//   - b's dynamic type is the one that aes.NewCipher returns. It is a type of
//     the standard library that no one else can make values of or embed under
//     the same type, so b's methods are crypto/aes's: no counting, no
//     hardware, no state. A wrapper around AES has another type and is called.
//   - The type does not say which key b has: cipherFunc may have derived
//     another from what it was given, or cleared it after use. So b must
//     encrypt two fixed blocks as AES under key does. Keys that differ give
//     equal results by chance with probability 2^-256, and whoever could find
//     such keys on purpose would only fool the program that they are part of.
func isAES(b cipher.Block, key []byte) bool {
	own, err := aes.NewCipher(key)
	if err != nil || reflect.TypeOf(b) != reflect.TypeOf(own) {
		return false
	}
	for _, probe := range []byte{0x00, 0x5a} {
		var in, theirs, ours [blockSize]byte
		in[0] = probe
		b.Encrypt(theirs[:], in[:])
		own.Encrypt(ours[:], in[:])
		if theirs != ours {
			return false
		}
	}
	return true
}

// Encrypt encrypts a sector of plaintext and puts the result into ciphertext,
// of which it writes len(plaintext) bytes. The tweak is sectorNum, in 64 bits,
// little-endian. plaintext must be a multiple of 16 bytes; ciphertext must be
// at least as long and overlap it entirely or not at all. Encrypt panics
// otherwise.
func (c *Cipher) Encrypt(ciphertext, plaintext []byte, sectorNum uint64) {
	if len(ciphertext) < len(plaintext) {
		panic("xts: ciphertext is smaller than plaintext")
	}
	if len(plaintext)%blockSize != 0 {
		panic("xts: plaintext is not a multiple of the block size")
	}
	if inexactOverlap(ciphertext[:len(plaintext)], plaintext) {
		panic("xts: invalid buffer overlap")
	}
	if len(plaintext) == 0 {
		return
	}
	tweak := tweakOf(sectorNum)
	if u := c.use; u.aes != nil {
		u.aes.Encrypt(ciphertext, plaintext, &tweak)
	} else {
		u.other.Encrypt(ciphertext, plaintext, &tweak)
	}
}

// Decrypt decrypts a sector of ciphertext and puts the result into plaintext,
// under the same conditions as Encrypt.
func (c *Cipher) Decrypt(plaintext, ciphertext []byte, sectorNum uint64) {
	if len(plaintext) < len(ciphertext) {
		panic("xts: plaintext is smaller than ciphertext")
	}
	if len(ciphertext)%blockSize != 0 {
		panic("xts: ciphertext is not a multiple of the block size")
	}
	if inexactOverlap(plaintext[:len(ciphertext)], ciphertext) {
		panic("xts: invalid buffer overlap")
	}
	if len(ciphertext) == 0 {
		return
	}
	tweak := tweakOf(sectorNum)
	if u := c.use; u.aes != nil {
		u.aes.Decrypt(plaintext, ciphertext, &tweak)
	} else {
		u.other.Decrypt(plaintext, ciphertext, &tweak)
	}
}

func tweakOf(sectorNum uint64) (tweak [blockSize]byte) {
	binary.LittleEndian.PutUint64(tweak[:8], sectorNum)
	return tweak
}

// inexactOverlap tells whether x and y, of equal lengths, share memory without
// being the same memory.
func inexactOverlap(x, y []byte) bool { return asm.Overlap(x, y) && &x[0] != &y[0] }
