package luks

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// roundKeys expands an AES-256 key: FIPS 197, section 5.2.
func roundKeys(key []byte) (out [15][16]byte) {
	w := bytes.Clone(key)
	rcon := byte(1)
	for len(w) < 15*16 {
		t := bytes.Clone(w[len(w)-4:])
		switch len(w) % 32 {
		case 0:
			t = []byte{subByte(t[1]) ^ rcon, subByte(t[2]), subByte(t[3]), subByte(t[0])}
			rcon <<= 1
		case 16:
			t = []byte{subByte(t[0]), subByte(t[1]), subByte(t[2]), subByte(t[3])}
		}
		for i := range t {
			w = append(w, w[len(w)-32]^t[i])
		}
	}
	for i := range out {
		out[i] = [16]byte(w[16*i:])
	}
	return out
}

// subByte is the S-box: FIPS 197, section 5.1.1.
func subByte(b byte) byte {
	times := func(a, b byte) (p byte) {
		for ; b != 0; b >>= 1 {
			p ^= a * (b & 1)
			a = a<<1 ^ a>>7*0x1b
		}
		return p
	}
	inverse := byte(1)
	for range 254 {
		inverse = times(inverse, b)
	}
	s := byte(0x63)
	for i := range 5 {
		s ^= inverse<<i | inverse>>(8-i)
	}
	return s
}

// FIPS 197, appendix A.3.
func TestRoundKeys(t *testing.T) {
	key, err := hex.DecodeString("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
	if err != nil {
		t.Fatal(err)
	}
	if got := roundKeys(key)[14]; hex.EncodeToString(got[:]) != "fe4890d1e6188d0b046df344706c631e" {
		t.Errorf("the last round key is %x", got)
	}
}
