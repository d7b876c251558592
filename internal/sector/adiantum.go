package sector

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"math/bits"

	//lint:ignore SA1019 Adiantum is made of the bare authenticator
	"golang.org/x/crypto/poly1305"
)

// Adiantum (Crowley and Biggers, "Adiantum: length-preserving encryption for
// entry-level processors", ToSC 2018(4), and the kernel's use of it,
// crypto/adiantum.c) changes a whole sector if one bit of it changes. It is
// for processors without AES instructions, and slow here.

// adiantumFamily is Adiantum over XChaCha with a number of rounds and AES.
func adiantumFamily(rounds int) *family {
	return &family{
		cipher:   fmt.Sprintf("xchacha%d,aes", rounds),
		mode:     "adiantum",
		ivs:      []string{ivPlain, ivPlain64},
		keySizes: []int{32},
		new: func(s Spec, key []byte, o Options) (Cipher, error) {
			c := &adiantumCipher{geometry: newGeometry(o)}
			var err error
			if c.iv, err = newIV(s, key); err != nil {
				return nil, err
			}
			return c, c.key.init(key, rounds)
		},
	}
}

type adiantumCipher struct {
	geometry
	iv  makeIV
	key adiantumKey
}

// tweakBytes is the length of dm-crypt's IV for Adiantum; the number fills its
// beginning.
const tweakBytes = 32

// Encrypt implements Cipher.
func (c *adiantumCipher) Encrypt(dst, src []byte, ivSector uint64) {
	c.run(dst, src, ivSector, c.key.encrypt)
}

// Decrypt implements Cipher.
func (c *adiantumCipher) Decrypt(dst, src []byte, ivSector uint64) {
	c.run(dst, src, ivSector, c.key.decrypt)
}

func (c *adiantumCipher) run(dst, src []byte, ivSector uint64, do func(b, tweak []byte)) {
	if c.key.block == nil {
		panic("sector: use after Wipe")
	}
	c.eachSector(dst, src, ivSector, func(dst, src []byte, number uint64) {
		var tweak [tweakBytes]byte
		iv := c.iv(number)
		copy(tweak[:], iv[:])
		copy(dst, src)
		do(dst, tweak[:])
	})
}

// Wipe implements Cipher.
func (c *adiantumCipher) Wipe() { c.key = adiantumKey{} }

// NH's shape (the paper, appendix A): passes of sums over units of 16 bytes.
const (
	nhPasses   = 4
	nhUnit     = 16                                // bytes
	nhMessage  = 1024                              // bytes that one NH digests at most
	nhHash     = 8 * nhPasses                      // bytes of its result
	nhKeyBytes = nhMessage + (nhPasses-1)*nhUnit   // 1072
	nhKeyWords = nhKeyBytes / 4                    //
	derived    = aesKey + 2*blockSize + nhKeyBytes // bytes of all keys made of the one
	aesKey     = 32
)

type adiantumKey struct {
	rounds int
	stream [32]byte // XChaCha's
	block  cipher.Block
	// Poly1305's keys: r, and zeros for what would be added in the end.
	tweakHash, messageHash [32]byte
	nh                     [nhKeyWords]uint32
}

// init derives all keys from the stream cipher's under a nonce that no data
// can lead to.
func (k *adiantumKey) init(key []byte, rounds int) (err error) {
	k.rounds = rounds
	copy(k.stream[:], key)
	var b [derived]byte
	defer clear(b[:])
	xchacha(b[:], &k.stream, &[24]byte{1}, rounds)
	if k.block, err = aes.NewCipher(b[:aesKey]); err != nil {
		return err
	}
	copy(k.tweakHash[:blockSize], b[aesKey:])
	copy(k.messageHash[:blockSize], b[aesKey+blockSize:])
	for i := range k.nh {
		k.nh[i] = binary.LittleEndian.Uint32(b[aesKey+2*blockSize+4*i:])
	}
	return nil
}

// encrypt encrypts at least 16 bytes in place (the paper, section 3, HBSH).
func (k *adiantumKey) encrypt(b, tweak []byte) {
	left, right := b[:len(b)-blockSize], b[len(b)-blockSize:]
	sum := uint128Of(right).plus(k.hash(tweak, left))
	sum.put(right)
	k.block.Encrypt(right, right)
	k.xorStream(left, right)
	uint128Of(right).minus(k.hash(tweak, left)).put(right)
}

// decrypt is the inverse of encrypt.
func (k *adiantumKey) decrypt(b, tweak []byte) {
	left, right := b[:len(b)-blockSize], b[len(b)-blockSize:]
	sum := uint128Of(right).plus(k.hash(tweak, left))
	sum.put(right)
	k.xorStream(left, right)
	k.block.Decrypt(right, right)
	uint128Of(right).minus(k.hash(tweak, left)).put(right)
}

func (k *adiantumKey) xorStream(b, middle []byte) {
	nonce := [24]byte{blockSize: 1}
	copy(nonce[:], middle)
	xchacha(b, &k.stream, &nonce, k.rounds)
}

// hash digests tweak and message, the message through NH first.
func (k *adiantumKey) hash(tweak, message []byte) uint128 {
	head := make([]byte, blockSize, blockSize+len(tweak))
	binary.LittleEndian.PutUint64(head, uint64(len(message))*8)
	head = append(head, tweak...)
	var body []byte
	for len(message) > 0 {
		n := min(len(message), nhMessage)
		body = k.appendNH(body, message[:n])
		message = message[n:]
	}
	var t, m [blockSize]byte
	poly1305.Sum(&t, head, &k.tweakHash)
	poly1305.Sum(&m, body, &k.messageHash)
	return uint128Of(t[:]).plus(uint128Of(m[:]))
}

// appendNH appends NH of up to nhMessage bytes, filled up with zeros to whole
// units.
func (k *adiantumKey) appendNH(out, message []byte) []byte {
	var sums [nhPasses]uint64
	for i := 0; len(message) > 0; i += nhUnit / 4 {
		var unit [nhUnit]byte
		message = message[copy(unit[:], message):]
		var m [4]uint32
		for j := range m {
			m[j] = binary.LittleEndian.Uint32(unit[4*j:])
		}
		for pass := range sums {
			key := k.nh[i+pass*nhUnit/4:]
			sums[pass] += uint64(m[0]+key[0])*uint64(m[2]+key[2]) + uint64(m[1]+key[1])*uint64(m[3]+key[3])
		}
	}
	for _, s := range sums {
		out = binary.LittleEndian.AppendUint64(out, s)
	}
	return out
}

// uint128 is an integer modulo 2^128.
type uint128 struct{ low, high uint64 }

// uint128Of reads 16 bytes, little-endian.
func uint128Of(b []byte) uint128 {
	return uint128{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}

func (n uint128) put(b []byte) {
	binary.LittleEndian.PutUint64(b, n.low)
	binary.LittleEndian.PutUint64(b[8:], n.high)
}

func (n uint128) plus(o uint128) uint128 {
	low, carry := bits.Add64(n.low, o.low, 0)
	return uint128{low, n.high + o.high + carry}
}

func (n uint128) minus(o uint128) uint128 {
	low, borrow := bits.Sub64(n.low, o.low, 0)
	return uint128{low, n.high - o.high - borrow}
}
