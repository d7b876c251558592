package asm

import (
	"crypto/aes"
	"crypto/subtle"
	"encoding/binary"
)

// reference is XTS written down from IEEE 1619-2018, section 5, a block at a
// time and a bit at a time, over crypto/aes: the implementation that the
// others are held against. It shares no code with them.
type reference struct{ key1, key2 []byte }

func newReference(key []byte) reference {
	return reference{key[:len(key)/2], key[len(key)/2:]}
}

// alphaTimes multiplies by the primitive element alpha: 5.2.
func alphaTimes(t [16]byte) [16]byte {
	var out [16]byte
	carry := byte(0)
	for i, b := range t {
		out[i] = b<<1 | carry
		carry = b >> 7
	}
	if carry == 1 {
		out[0] ^= 0x87
	}
	return out
}

// unit encrypts or decrypts one data unit: 5.3.2 and 5.4.2.
func (r reference) unit(dec bool, src []byte, tweak [16]byte) []byte {
	return r.stream(dec, src, r.encryptedTweak(tweak))
}

func (r reference) encryptedTweak(tweak [16]byte) (t [16]byte) {
	c, err := aes.NewCipher(r.key2)
	if err != nil {
		panic(err)
	}
	c.Encrypt(t[:], tweak[:])
	return t
}

// stream is unit from the block on whose tweak, encrypted, is t.
func (r reference) stream(dec bool, src []byte, t [16]byte) []byte {
	data, err := aes.NewCipher(r.key1)
	if err != nil {
		panic(err)
	}
	block := func(in []byte, t [16]byte) []byte {
		var b [16]byte
		subtle.XORBytes(b[:], in, t[:])
		if dec {
			data.Decrypt(b[:], b[:])
		} else {
			data.Encrypt(b[:], b[:])
		}
		subtle.XORBytes(b[:], b[:], t[:])
		return b[:]
	}
	dst := make([]byte, 0, len(src))
	for len(src) >= 32 || len(src) == 16 {
		dst = append(dst, block(src[:16], t)...)
		src, t = src[16:], alphaTimes(t)
	}
	if len(src) == 0 {
		return dst
	}
	first, second := t, alphaTimes(t)
	if dec {
		first, second = second, first
	}
	whole, partial := src[:16], src[16:]
	made := block(whole, first)
	joined := append(append([]byte{}, partial...), made[len(partial):]...)
	dst = append(dst, block(joined, second)...)
	return append(dst, made[:len(partial)]...)
}

// countedTweaks returns the tweaks of n sectors, counted: 16 bytes each.
func countedTweaks(n int, first, step uint64) []byte {
	var out []byte
	for i := range uint64(n) {
		out = binary.LittleEndian.AppendUint64(out, first+i*step)
		out = append(out, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	return out
}

func (r reference) sectors(dec bool, src []byte, size int, tweaks []byte) []byte {
	var dst []byte
	for i := 0; i*size < len(src); i++ {
		dst = append(dst, r.unit(dec, src[i*size:(i+1)*size], [16]byte(tweaks[16*i:]))...)
	}
	return dst
}
