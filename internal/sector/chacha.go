package sector

import (
	"crypto/subtle"
	"encoding/binary"
	"math/bits"
)

// The ChaCha core (RFC 8439, section 2.3) with a number of rounds to choose:
// golang.org/x/crypto has 20 only, and Adiantum is mostly used with 12.

type chachaState [16]uint32

// newChaChaState sets up key, and the last four words to be set by the caller.
func newChaChaState(key *[32]byte) (s chachaState) {
	s[0], s[1], s[2], s[3] = 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574
	for i := range 8 {
		s[4+i] = binary.LittleEndian.Uint32(key[4*i:])
	}
	return s
}

func quarterRound(a, b, c, d uint32) (uint32, uint32, uint32, uint32) {
	a += b
	d = bits.RotateLeft32(d^a, 16)
	c += d
	b = bits.RotateLeft32(b^c, 12)
	a += b
	d = bits.RotateLeft32(d^a, 8)
	c += d
	b = bits.RotateLeft32(b^c, 7)
	return a, b, c, d
}

func (s *chachaState) permute(rounds int) {
	for range rounds / 2 {
		s[0], s[4], s[8], s[12] = quarterRound(s[0], s[4], s[8], s[12])
		s[1], s[5], s[9], s[13] = quarterRound(s[1], s[5], s[9], s[13])
		s[2], s[6], s[10], s[14] = quarterRound(s[2], s[6], s[10], s[14])
		s[3], s[7], s[11], s[15] = quarterRound(s[3], s[7], s[11], s[15])
		s[0], s[5], s[10], s[15] = quarterRound(s[0], s[5], s[10], s[15])
		s[1], s[6], s[11], s[12] = quarterRound(s[1], s[6], s[11], s[12])
		s[2], s[7], s[8], s[13] = quarterRound(s[2], s[7], s[8], s[13])
		s[3], s[4], s[9], s[14] = quarterRound(s[3], s[4], s[9], s[14])
	}
}

// xchacha xors b with the stream of XChaCha under key and nonce, from its start
// (draft-irtf-cfrg-xchacha-03, section 2; the block counter has 64 bits).
func xchacha(b []byte, key *[32]byte, nonce *[24]byte, rounds int) {
	s := newChaChaState(key)
	for i := range 4 {
		s[12+i] = binary.LittleEndian.Uint32(nonce[4*i:])
	}
	s.permute(rounds)
	var sub [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint32(sub[4*i:], s[i])
		binary.LittleEndian.PutUint32(sub[16+4*i:], s[12+i])
	}
	s = newChaChaState(&sub)
	s[14], s[15] = binary.LittleEndian.Uint32(nonce[16:]), binary.LittleEndian.Uint32(nonce[20:])
	var stream [64]byte
	for counter := uint64(0); len(b) > 0; counter++ {
		s[12], s[13] = uint32(counter), uint32(counter>>32)
		out := s
		out.permute(rounds)
		for i := range out {
			binary.LittleEndian.PutUint32(stream[4*i:], out[i]+s[i])
		}
		b = b[subtle.XORBytes(b, b, stream[:]):]
	}
}
