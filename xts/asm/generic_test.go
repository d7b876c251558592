package asm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"

	//lint:ignore SA1019 a cipher of 16-byte blocks that is not AES is what the test needs
	"golang.org/x/crypto/twofish"
	"golang.org/x/crypto/xts"
)

// The doubling of tweaks against arithmetic of big integers.
func TestTimesX(t *testing.T) {
	bigOf := func(w tweak128) *big.Int {
		n := new(big.Int).SetUint64(w.hi)
		return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(w.lo))
	}
	reduce := new(big.Int).SetBit(big.NewInt(0x87), 128, 1)
	check := func(w tweak128) {
		t.Helper()
		want := bigOf(w)
		want.Lsh(want, 1)
		if want.Bit(128) == 1 {
			want.Xor(want, reduce)
		}
		if got := bigOf(w.timesX()); got.Cmp(want) != 0 {
			t.Errorf("%x times x is %x, want %x", bigOf(w), got, want)
		}
	}
	for bit := range 64 {
		check(tweak128{lo: 1 << bit})
		check(tweak128{hi: 1 << bit})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		check(tweak128{random.Uint64(), random.Uint64()})
	}
}

// Byte order: lo is the first eight bytes, least significant first.
func TestTweakBytes(t *testing.T) {
	b := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	w := loadTweak(b)
	if w != (tweak128{0x0807060504030201, 0x100f0e0d0c0b0a09}) {
		t.Errorf("%x loads as %x", b, w)
	}
	out := make([]byte, 16)
	if w.store(out); !bytes.Equal(out, b) {
		t.Errorf("%x stores as %x", b, out)
	}
}

// Vectors 15 to 18 of IEEE 1619-2018, Annex B: data units whose last 17 to 20
// bytes are all there is, so that nothing but stealing happens.
func TestGenericSteals(t *testing.T) {
	key, err := hex.DecodeString("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0")
	if err != nil {
		t.Fatal(err)
	}
	var g genericXTS
	g.init(key)
	tweak := [16]byte{0x9a, 0x78, 0x56, 0x34, 0x12}
	for _, text := range []string{
		"6c1625db4671522d3d7599601de7ca09ed",
		"d069444b7a7e0cab09e24447d24deb1fedbf",
		"e5df1351c0544ba1350b3363cd8ef4beedbf9d",
		"9d84c813f719aa2c7be3f66171c7c5c2edbf9dac",
	} {
		ct, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		plain := make([]byte, len(ct))
		for i := range plain {
			plain[i] = byte(i)
		}
		got := make([]byte, len(ct))
		if g.encrypt(got, plain, &tweak); !bytes.Equal(got, ct) {
			t.Errorf("%d bytes: %x, want %x", len(ct), got, ct)
		}
		if g.decrypt(got, got, &tweak); !bytes.Equal(got, plain) {
			t.Errorf("%d bytes: decrypted to %x", len(ct), got)
		}
	}
}

// All lengths around the batch size, stealing included, hold together: what a
// longer unit has before its last two blocks is what a shorter one has.
func TestGenericBatches(t *testing.T) {
	var g genericXTS
	g.init(bytes.Repeat([]byte("thirty-two bytes"), 4))
	tweak := [16]byte{3}
	plain := make([]byte, 3*batchBlocks*16+40)
	for i := range plain {
		plain[i] = byte(i * i / 3)
	}
	whole := make([]byte, len(plain)/16*16)
	g.encrypt(whole, plain[:len(whole)], &tweak)
	for n := 16; n < len(plain); n++ {
		got := make([]byte, n)
		g.encrypt(got, plain[:n], &tweak)
		same := n / 16 * 16
		if n%16 != 0 {
			same -= 16
			// The stolen bytes are the head of the block they come from.
			if head := whole[same:][:n%16]; !bytes.Equal(got[same+16:], head) {
				t.Fatalf("%d bytes: the last are %x, want %x", n, got[same+16:], head)
			}
		}
		if !bytes.Equal(got[:same], whole[:same]) {
			t.Fatalf("%d bytes: the first %d differ from a longer unit's", n, same)
		}
		if g.decrypt(got, got, &tweak); !bytes.Equal(got, plain[:n]) {
			t.Fatalf("%d bytes: decryption does not undo encryption", n)
		}
	}
}

// BlockXTS over a cipher that is not AES, against x/crypto/xts.
func TestBlockXTS(t *testing.T) {
	key := []byte("a key of thirty-two bytes, truly, and sixteen more for the tweak")
	newTwofish := func(key []byte) (cipher.Block, error) { return twofish.NewCipher(key) }
	theirs, err := xts.NewCipher(newTwofish, key)
	if err != nil {
		t.Fatal(err)
	}
	k1, err := newTwofish(key[:32])
	if err != nil {
		t.Fatal(err)
	}
	k2, err := newTwofish(key[32:])
	if err != nil {
		t.Fatal(err)
	}
	ours := NewBlockXTS(k1, k2)
	for n := 16; n <= 1600; n += 16 {
		plain := bytes.Repeat([]byte{byte(n)}, n)
		got, want := make([]byte, n), make([]byte, n)
		theirs.Encrypt(want, plain, 0x0102)
		ours.Encrypt(got, plain, &[16]byte{2, 1})
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: encryption differs", n)
		}
		ours.Decrypt(got, got, &[16]byte{2, 1})
		if !bytes.Equal(got, plain) {
			t.Fatalf("%d bytes: decryption differs", n)
		}
	}
}

// Wiping clears the schedules inside crypto/aes, not just the pointers to them.
func TestGenericWipe(t *testing.T) {
	var g genericXTS
	g.init(bytes.Repeat([]byte{0xA7}, 64))
	k1, k2 := g.k1, g.k2
	for _, k := range []cipher.Block{k1, k2} {
		if reflect.ValueOf(k).Elem().IsZero() {
			t.Fatal("a schedule was zero before")
		}
	}
	g.wipe()
	g.wipe()
	for _, k := range []cipher.Block{k1, k2} {
		if !reflect.ValueOf(k).Elem().IsZero() {
			t.Errorf("%T is not zero after wipe", k)
		}
	}
	if g.k1 != nil || g.k2 != nil {
		t.Error("the pointers are still there")
	}
}

// crypto/aes's values must stay what wipe knows: pointers to structs.
func TestGenericKeyErrors(t *testing.T) {
	b, err := aes.NewCipher(make([]byte, 16))
	if err != nil || reflect.TypeOf(b).Kind() != reflect.Pointer {
		t.Errorf("crypto/aes gives %T, %v", b, err)
	}
	for _, n := range []int{0, 16, 31, 33, 40, 65} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a key of %d bytes did not panic", n)
				}
			}()
			new(genericXTS).init(make([]byte, n))
		}()
	}
}

// The tweak's encryption happens in dst; none of it may stay there, nor may
// dst grow.
func TestGenericLeavesNoTweak(t *testing.T) {
	var g genericXTS
	g.init(bytes.Repeat([]byte("another key, 32."), 4))
	iv := [16]byte{9}
	secret := make([]byte, 16)
	g.k2.Encrypt(secret, iv[:])
	for n := 16; n < 100; n++ {
		dst := make([]byte, n+32)
		g.encrypt(dst, make([]byte, n), &iv)
		if bytes.Contains(dst, secret) || !bytes.Equal(dst[n:], make([]byte, 32)) {
			t.Errorf("%d bytes: output %x", n, dst)
		}
	}
}
