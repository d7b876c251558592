package xts_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha3"
	"fmt"
	"slices"
	"testing"

	"github.com/xtsdisk/xtsdisk/xts"
)

// failer is what testing.T, testing.F and rapid.T share.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// onEachLevel runs a subtest for every level of this build and processor.
func onEachLevel(t *testing.T, test func(t *testing.T, level string)) {
	t.Helper()
	levels := xts.Levels()
	if !slices.Contains(levels, "generic") {
		t.Fatalf("levels %v: without generic", levels)
	}
	for _, level := range levels {
		t.Run(level, func(t *testing.T) { test(t, level) })
	}
}

// newCipher makes a cipher of a forced level and asserts that it is that.
func newCipher(tb failer, level string, key []byte, opts ...xts.Option) *xts.Cipher {
	tb.Helper()
	c, err := xts.NewCipher(key, append(opts, xts.WithLevel(level))...)
	if err != nil {
		tb.Fatalf("NewCipher: %v", err)
	}
	if got := c.Level(); got != level {
		tb.Fatalf("level %s was forced, the cipher has %s", level, got)
	}
	return c
}

// stream is SHAKE128 of a name: test data that testdata/make_vectors.py has too.
func stream(name string, n int) []byte { return sha3.SumSHAKE128([]byte(name), n) }

var keySizes = []int{32, 48, 64}

func testKey(size int) []byte { return stream(fmt.Sprintf("key %d", size), size) }

// reference is IEEE 1619-2018, sections 5.3 and 5.4, as it is written down
// there, a byte and a block at a time; it shares nothing with the package.
type reference struct{ k1, k2 cipher.Block }

func newReference(key []byte) reference {
	k1, err := aes.NewCipher(key[:len(key)/2])
	if err != nil {
		panic(err)
	}
	k2, err := aes.NewCipher(key[len(key)/2:])
	if err != nil {
		panic(err)
	}
	return reference{k1, k2}
}

// tweaks returns E_K2(tweak) and its products with α^j, section 5.2.
func (r reference) tweaks(tweak [16]byte, n int) [][16]byte {
	t := make([][16]byte, n)
	r.k2.Encrypt(t[0][:], tweak[:])
	for j := 1; j < n; j++ {
		carry := byte(0)
		for i, b := range t[j-1] {
			t[j][i] = b<<1 | carry
			carry = b >> 7
		}
		if carry == 1 {
			t[j][0] ^= 135
		}
	}
	return t
}

func masked(f func(dst, src []byte), block []byte, t [16]byte) []byte {
	out := make([]byte, 16)
	for i := range out {
		out[i] = block[i] ^ t[i]
	}
	f(out, out)
	for i := range out {
		out[i] ^= t[i]
	}
	return out
}

func (r reference) encrypt(plain []byte, tweak [16]byte) []byte {
	m, b := len(plain)/16, len(plain)%16
	t := r.tweaks(tweak, m+1)
	var out []byte
	for j := range m {
		out = append(out, masked(r.k1.Encrypt, plain[16*j:], t[j])...)
	}
	if b > 0 {
		last := slices.Clone(out[16*(m-1):])
		pp := append(slices.Clone(plain[16*m:]), last[b:]...)
		out = append(append(out[:16*(m-1)], masked(r.k1.Encrypt, pp, t[m])...), last[:b]...)
	}
	return out
}

func (r reference) decrypt(ct []byte, tweak [16]byte) []byte {
	m, b := len(ct)/16, len(ct)%16
	t := r.tweaks(tweak, m+1)
	whole := m
	if b > 0 {
		whole--
	}
	var out []byte
	for j := range whole {
		out = append(out, masked(r.k1.Decrypt, ct[16*j:], t[j])...)
	}
	if b > 0 {
		pp := masked(r.k1.Decrypt, ct[16*(m-1):], t[m])
		cc := append(slices.Clone(ct[16*m:]), pp[b:]...)
		out = append(append(out, masked(r.k1.Decrypt, cc, t[m-1])...), pp[:b]...)
	}
	return out
}

// framed returns a buffer of n bytes at an offset from an aligned address,
// between canaries, and a check that the canaries live.
func framed(n, offset int) (buf []byte, check func(t *testing.T)) {
	whole := bytes.Repeat([]byte{0xC5}, 64+offset+n+64)
	start := 64 + offset
	return whole[start : start+n], func(t *testing.T) {
		t.Helper()
		for i, b := range whole {
			if b != 0xC5 && (i < start || i >= start+n) {
				t.Fatalf("byte %d from the output's start was written, which has %d", i-start, n)
			}
		}
	}
}

// differ fails with the first place where got is not want.
func differ(t failer, what string, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			end := min(len(got), i+16)
			t.Fatalf("%s: differs at byte %d of %d: %x, want %x", what, i, len(got), got[i:end], want[i:end])
		}
	}
}

// mustPanic fails unless f panics with exactly that message.
func mustPanic(t *testing.T, message string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != message {
			t.Errorf("panic %v, want %q", got, message)
		}
	}()
	f()
}
