package compat

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/sha256"
	"crypto/sha3"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	//lint:ignore SA1019 a cipher of 16-byte blocks that is not AES is what the test needs
	"golang.org/x/crypto/twofish"
	"golang.org/x/crypto/xts"
	"pgregory.net/rapid"
)

type newBlock = func([]byte) (cipher.Block, error)

func newTwofish(key []byte) (cipher.Block, error) { return twofish.NewCipher(key) }

// countedAES is AES of another type than crypto/aes's: it must be called.
type countedAES struct {
	cipher.Block
	calls *atomic.Int64
}

func (c countedAES) Encrypt(dst, src []byte) { c.calls.Add(1); c.Block.Encrypt(dst, src) }
func (c countedAES) Decrypt(dst, src []byte) { c.calls.Add(1); c.Block.Decrypt(dst, src) }

// derivedAES is crypto/aes's type under another key than it was given.
func derivedAES(key []byte) (cipher.Block, error) {
	sum := sha256.Sum256(key)
	return aes.NewCipher(sum[:len(key)])
}

// clearingAES clears the key it was given after use.
func clearingAES(key []byte) (cipher.Block, error) {
	b, err := aes.NewCipher(key)
	clear(key)
	return b, err
}

// derivedInCall derives another key for one half only: the first call's is the
// data's, the second's the tweak's.
func derivedInCall(n int) newBlock {
	calls := 0
	return func(key []byte) (cipher.Block, error) {
		if calls++; calls == n {
			return derivedAES(key)
		}
		return aes.NewCipher(key)
	}
}

func stream(name string, n int) []byte { return sha3.SumSHAKE128([]byte(name), n) }

// Whatever makes the cipher, both packages give the same bytes, and only
// crypto/aes's own cipher under the given key takes the engine.
func TestAgainstXCrypto(t *testing.T) {
	var calls atomic.Int64
	counting := func(key []byte) (cipher.Block, error) {
		b, err := aes.NewCipher(key)
		return countedAES{b, &calls}, err
	}
	for _, c := range []struct {
		name     string
		newBlock func() newBlock
		fast     bool
	}{
		{"aes", func() newBlock { return aes.NewCipher }, true},
		{"twofish", func() newBlock { return newTwofish }, false},
		{"aes of another type", func() newBlock { return counting }, false},
		{"aes under another key", func() newBlock { return derivedAES }, false},
		{"aes that clears its key", func() newBlock { return clearingAES }, false},
		{"aes under another data key", func() newBlock { return derivedInCall(1) }, false},
		{"aes under another tweak key", func() newBlock { return derivedInCall(2) }, false},
	} {
		for _, keySize := range []int{32, 48, 64} {
			t.Run(fmt.Sprintf("%s %d", c.name, keySize*8), func(t *testing.T) {
				key := stream("key", keySize)
				ours, err := NewCipher(c.newBlock(), slices.Clone(key))
				if err != nil {
					t.Fatal(err)
				}
				theirs, err := xts.NewCipher(c.newBlock(), slices.Clone(key))
				if err != nil {
					t.Fatal(err)
				}
				if (ours.use.aes != nil) != c.fast || (ours.use.other != nil) == c.fast {
					t.Fatalf("takes the engine: %v, should: %v", ours.use.aes != nil, c.fast)
				}
				calls.Store(0)
				compare(t, ours, theirs)
				if (calls.Load() > 0) != (c.name == "aes of another type") {
					t.Errorf("%d calls of the counting cipher", calls.Load())
				}
			})
		}
	}
}

func compare(t *testing.T, ours *Cipher, theirs *xts.Cipher) {
	t.Helper()
	for n := 0; n <= 1104; n += 16 {
		plain, number := stream("plain", n), uint64(n)<<uint(n%57)
		want, got := make([]byte, n), make([]byte, n+7)
		theirs.Encrypt(want, plain, number)
		ours.Encrypt(got, plain, number)
		if string(got[:n]) != string(want) || string(got[n:]) != string(make([]byte, 7)) {
			t.Fatalf("%d bytes: encrypted to\n%x, want\n%x", n, got, want)
		}
		ours.Decrypt(got, got[:n], number)
		if string(got[:n]) != string(plain) {
			t.Fatalf("%d bytes: decrypted in place to\n%x, want\n%x", n, got, plain)
		}
		ours.Encrypt(got, got[:n], number)
		if string(got[:n]) != string(want) {
			t.Fatalf("%d bytes: encrypted in place to\n%x, want\n%x", n, got, want)
		}
		theirs.Decrypt(want, plain, number)
		ours.Decrypt(got, plain, number)
		if string(got[:n]) != string(want) {
			t.Fatalf("%d bytes: decrypted to\n%x, want\n%x", n, got, want)
		}
	}
}

func TestRandomUnits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		block := rapid.SampledFrom([]newBlock{aes.NewCipher, newTwofish}).Draw(rt, "cipher")
		size := rapid.SampledFrom([]int{32, 48, 64}).Draw(rt, "key size")
		key := rapid.SliceOfN(rapid.Byte(), size, size).Draw(rt, "key")
		plain := stream("random", 16*rapid.IntRange(0, 300).Draw(rt, "blocks"))
		number := rapid.Uint64().Draw(rt, "number")
		ours, err := NewCipher(block, key)
		if err != nil {
			rt.Fatal(err)
		}
		theirs, err := xts.NewCipher(block, key)
		if err != nil {
			rt.Fatal(err)
		}
		got, want := make([]byte, len(plain)), make([]byte, len(plain))
		ours.Encrypt(got, plain, number)
		theirs.Encrypt(want, plain, number)
		if string(got) != string(want) {
			rt.Fatal("encryption differs")
		}
		ours.Decrypt(got, got, number)
		if string(got) != string(plain) {
			rt.Fatal("decryption differs")
		}
	})
}

// What is accepted here though IEEE 1619 forbids it: equal halves, and data
// units beyond 2^20 blocks.
func TestAcceptances(t *testing.T) {
	half := stream("half", 16)
	key := slices.Concat(half, half)
	ours, err := NewCipher(aes.NewCipher, key)
	if err != nil {
		t.Fatalf("equal halves: %v", err)
	}
	theirs, err := xts.NewCipher(aes.NewCipher, key)
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		return
	}
	plain := stream("large", 1<<24+48)
	want, got := make([]byte, len(plain)), make([]byte, len(plain))
	theirs.Encrypt(want, plain, 7)
	ours.Encrypt(got, plain, 7)
	if string(got) != string(want) {
		t.Error("a unit of more than 2^20 blocks: encryption differs")
	}
	ours.Decrypt(got, got, 7)
	if string(got) != string(plain) {
		t.Error("a unit of more than 2^20 blocks: decryption differs")
	}
}

func TestNewCipherErrors(t *testing.T) {
	newDES := func(key []byte) (cipher.Block, error) { return des.NewCipher(key) }
	refused := errors.New("refused")
	for _, c := range []struct {
		name  string
		block newBlock
		size  int
	}{
		{"empty key", aes.NewCipher, 0},
		{"odd key", aes.NewCipher, 33},
		{"halves of 20 bytes", aes.NewCipher, 40},
		{"blocks of 8 bytes", newDES, 16},
		{"cipherFunc refuses", func([]byte) (cipher.Block, error) { return nil, refused }, 32},
		{"aes", aes.NewCipher, 64},
	} {
		_, ours := NewCipher(c.block, make([]byte, c.size))
		_, theirs := xts.NewCipher(c.block, make([]byte, c.size))
		if fmt.Sprint(ours) != fmt.Sprint(theirs) {
			t.Errorf("%s: error %v, x/crypto/xts has %v", c.name, ours, theirs)
		}
	}
}

// Both packages panic on the same calls, with the same words.
func TestPanics(t *testing.T) {
	for name, block := range map[string]newBlock{"aes": aes.NewCipher, "twofish": newTwofish} {
		ours, err := NewCipher(block, stream("key", 64))
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := xts.NewCipher(block, stream("key", 64))
		if err != nil {
			t.Fatal(err)
		}
		outcome := func(f func(dst, src []byte, n uint64), dstFrom, dstTo, srcFrom, srcTo int) (panicked string) {
			defer func() {
				if p := recover(); p != nil {
					panicked = fmt.Sprint(p)
				}
			}()
			memory := make([]byte, 256)
			f(memory[dstFrom:dstTo], memory[srcFrom:srcTo], 1)
			return fmt.Sprintf("%x", memory)
		}
		panics := 0
		for _, s := range [][4]int{
			{0, 64, 0, 64}, {0, 64, 64, 128}, {0, 80, 64, 128}, {0, 128, 0, 64}, {0, 0, 0, 0}, {5, 5, 0, 0}, {0, 16, 8, 8},
			{0, 48, 64, 128}, {0, 0, 0, 16}, {0, 64, 64, 65}, {0, 64, 64, 79}, {0, 64, 64, 127},
			{0, 64, 1, 49}, {1, 65, 0, 64}, {16, 80, 0, 64}, {63, 127, 0, 64}, {64, 128, 0, 64}, {0, 64, 63, 127}, {0, 64, 16, 80},
		} {
			for direction, f := range map[string][2]func(dst, src []byte, n uint64){
				"Encrypt": {ours.Encrypt, theirs.Encrypt},
				"Decrypt": {ours.Decrypt, theirs.Decrypt},
			} {
				got, want := outcome(f[0], s[0], s[1], s[2], s[3]), outcome(f[1], s[0], s[1], s[2], s[3])
				if got != want {
					t.Errorf("%s %s of [%d:%d] from [%d:%d]: %s\nx/crypto/xts: %s", name, direction, s[0], s[1], s[2], s[3], got, want)
				}
				if strings.HasPrefix(want, "xts: ") {
					panics++
				}
			}
		}
		if panics < 20 {
			t.Errorf("%s: only %d calls panicked: the test has lost its cases", name, panics)
		}
	}
}

func TestPrintsNoKey(t *testing.T) {
	key := bytes.Repeat([]byte{0xA0, 0xA1}, 32)
	for name, block := range map[string]newBlock{"aes": aes.NewCipher, "twofish": newTwofish} {
		c, err := NewCipher(block, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
			if got := fmt.Sprintf(verb, c); got != "compat.Cipher" {
				t.Errorf("%s: %s prints %s", name, verb, got)
			}
			hidden := fmt.Sprintf(verb, struct{ hidden Cipher }{*c})
			if len(hidden) > 120 {
				t.Errorf("%s: %s of a struct that holds one prints %s", name, verb, hidden)
			}
		}
	}
}
