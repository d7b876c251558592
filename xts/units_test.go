package xts_test

import (
	"crypto/aes"
	"fmt"
	"testing"

	xcrypto "golang.org/x/crypto/xts"

	"github.com/xtsdisk/xtsdisk/xts"
)

// Every length from 16 to 1100 bytes, every key size, both directions, in
// place and not, against the reference and, for whole blocks, x/crypto/xts.
func TestUnitLengths(t *testing.T) {
	for _, size := range keySizes {
		key := testKey(size)
		ref := newReference(key)
		other, err := xcrypto.NewCipher(aes.NewCipher, key)
		if err != nil {
			t.Fatal(err)
		}
		plains, cts, tweaks := map[int][]byte{}, map[int][]byte{}, map[int][16]byte{}
		for n := 16; n <= 1100; n++ {
			name := fmt.Sprintf("length %d", n)
			plains[n], tweaks[n] = stream(name, n), [16]byte(stream(name+" tweak", 16))
			cts[n] = ref.encrypt(plains[n], tweaks[n])
			differ(t, name+": the reference's decryption", ref.decrypt(cts[n], tweaks[n]), plains[n])
			if n%16 == 0 {
				ours, theirs := ref.encrypt(plains[n], xts.Plain64.Tweak(uint64(n))), make([]byte, n)
				other.Encrypt(theirs, plains[n], uint64(n))
				differ(t, name+": the reference against x/crypto/xts", ours, theirs)
			}
		}
		t.Run(fmt.Sprintf("key%d", size*8), func(t *testing.T) {
			onEachLevel(t, func(t *testing.T, level string) {
				c := newCipher(t, level, key)
				for n := 16; n <= 1100; n++ {
					bothWays(t, c, fmt.Sprintf("%d bytes", n), tweaks[n], plains[n], cts[n])
				}
			})
		})
	}
}

// Any address: every offset of source and destination from a 64-byte line,
// nothing written around the output, and dst may be longer than src.
func TestMisalignment(t *testing.T) {
	key := testKey(64)
	ref := newReference(key)
	onEachLevel(t, func(t *testing.T, level string) {
		c := newCipher(t, level, key)
		for offset := range 64 {
			for _, n := range []int{16, 17, 31, 48, 100, 512, 527, 1041} {
				plain, tweak := stream("misaligned", n), [16]byte(stream("tweak", 16))
				want := ref.encrypt(plain, tweak)
				src, checkSrc := framed(n, 63-offset)
				copy(src, plain)
				dst, checkDst := framed(n, offset)
				c.Encrypt(dst[:n:n], src, &tweak)
				differ(t, "encryption", dst, want)
				c.Decrypt(src, dst, &tweak)
				differ(t, "decryption", src, plain)
				c.Encrypt(src[:len(src):len(src)], src, &tweak)
				differ(t, "encryption in place", src, want)
				checkSrc(t)
				checkDst(t)
			}
		}
		long := make([]byte, 100)
		tweak := [16]byte{1}
		c.Encrypt(long, long[:33], &tweak)
		differ(t, "bytes of dst beyond len(src)", long[33:], make([]byte, 67))
	})
}

// Data units longer than one assembly call takes, to the greatest there is.
func TestLongUnits(t *testing.T) {
	key := testKey(64)
	ref := newReference(key)
	lengths := []int{32768 - 16, 32768, 32768 + 17, 65536 + 31, 131072 - 1, 131072, 131072 + 16, 131072 + 30, 262144 + 17, 300001}
	if !testing.Short() {
		lengths = append(lengths, xts.MaxUnitSize-1, xts.MaxUnitSize)
	}
	for _, n := range lengths {
		plain, tweak := stream("long", n), [16]byte(stream("tweak", 16))
		want := ref.encrypt(plain, tweak)
		onEachLevel(t, func(t *testing.T, level string) {
			bothWays(t, newCipher(t, level, key), fmt.Sprintf("%d bytes", n), tweak, plain, want)
		})
	}
}

// The tweak is input only and may be anything, all ones included: doubling
// then reduces in every step it can.
func TestTweakValues(t *testing.T) {
	key := testKey(32)
	ref := newReference(key)
	plain := stream("plain", 512)
	onEachLevel(t, func(t *testing.T, level string) {
		c := newCipher(t, level, key)
		for i := range 130 {
			var tweak [16]byte
			if i < 128 {
				tweak[i/8] = 1 << (i % 8)
			} else if i == 128 {
				for j := range tweak {
					tweak[j] = 0xff
				}
			}
			before := tweak
			bothWays(t, c, fmt.Sprintf("tweak %x", tweak), tweak, plain, ref.encrypt(plain, tweak))
			if tweak != before {
				t.Fatalf("tweak %x became %x", before, tweak)
			}
		}
	})
}
