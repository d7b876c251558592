package xts_test

import (
	"bytes"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/xtsdisk/xtsdisk/xts"
)

func drawCipher(rt *rapid.T, level string) *xts.Cipher {
	size := rapid.SampledFrom(keySizes).Draw(rt, "key size")
	key := rapid.SliceOfN(rapid.Byte(), size, size).Draw(rt, "key")
	return newCipher(rt, level, key, xts.AllowEqualHalves())
}

func drawTweak(rt *rapid.T) *[16]byte {
	tweak := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "tweak"))
	return &tweak
}

func drawRun(rt *rapid.T) (xts.Run, []byte) {
	number := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(1<<32-40, 1<<32), rapid.Uint64Range(1<<64-40, 1<<64-1), rapid.Uint64Range(0, 9))
	run := xts.Run{
		SectorSize: 16 * rapid.IntRange(1, 80).Draw(rt, "blocks in a sector"),
		Kind:       rapid.SampledFrom([]xts.TweakKind{xts.Plain64, xts.Plain, xts.Plain64BE}).Draw(rt, "kind"),
		First:      number.Draw(rt, "first"),
		Step:       number.Draw(rt, "step"),
		Offset:     number.Draw(rt, "offset"),
	}
	sectors := rapid.IntRange(0, 40).Draw(rt, "sectors")
	return run, stream("property", sectors*run.SectorSize)
}

// A run is its sectors one by one, under the tweak that Kind.Tweak names; and
// decryption undoes it.
func TestRunIsItsSectors(t *testing.T) {
	onEachLevel(t, func(t *testing.T, level string) {
		rapid.Check(t, func(rt *rapid.T) {
			c := drawCipher(rt, level)
			run, plain := drawRun(rt)
			whole := make([]byte, len(plain))
			c.EncryptRun(whole, plain, run)
			number := run.First + run.Offset
			var tweaks [][16]byte
			single := make([]byte, run.SectorSize)
			for i, sector := range slices.Collect(slices.Chunk(plain, run.SectorSize)) {
				tweaks = append(tweaks, run.Kind.Tweak(number))
				c.Encrypt(single, sector, &tweaks[i])
				differ(rt, "sector alone", whole[i*run.SectorSize:][:run.SectorSize], single)
				number += max(run.Step, 1)
			}
			tweaked := make([]byte, len(plain))
			c.EncryptTweaked(tweaked, plain, run.SectorSize, tweaks)
			differ(rt, "given tweaks", tweaked, whole)
			c.DecryptTweaked(tweaked, tweaked, run.SectorSize, tweaks)
			differ(rt, "given tweaks, decrypted", tweaked, plain)
			c.DecryptRun(whole, whole, run)
			differ(rt, "decrypted", whole, plain)
		})
	})
}

// A run may be cut anywhere between sectors.
func TestRunMayBeCut(t *testing.T) {
	onEachLevel(t, func(t *testing.T, level string) {
		rapid.Check(t, func(rt *rapid.T) {
			c := drawCipher(rt, level)
			run, plain := drawRun(rt)
			cut := rapid.IntRange(0, len(plain)/run.SectorSize).Draw(rt, "cut")
			whole, parts := make([]byte, len(plain)), make([]byte, len(plain))
			c.EncryptRun(whole, plain, run)
			n := cut * run.SectorSize
			c.EncryptRun(parts[:n], plain[:n], run)
			rest := run
			rest.First += uint64(cut) * max(run.Step, 1)
			c.EncryptRun(parts[n:], plain[n:], rest)
			differ(rt, "in two parts", parts, whole)
		})
	})
}

// What XTS does and does not protect, as the package documentation says it: a
// flipped bit of ciphertext garbles its own block (with stealing, the last two
// share one fate) and nothing else, and nobody notices.
func TestFlippedBitGarblesOneBlock(t *testing.T) {
	onEachLevel(t, func(t *testing.T, level string) {
		rapid.Check(t, func(rt *rapid.T) {
			c, tweak := drawCipher(rt, level), drawTweak(rt)
			plain := stream("premise", rapid.IntRange(16, 700).Draw(rt, "length"))
			bit := rapid.IntRange(0, 8*len(plain)-1).Draw(rt, "bit")
			buf := make([]byte, len(plain))
			c.Encrypt(buf, plain, tweak)
			buf[bit/8] ^= 1 << (bit % 8)
			c.Decrypt(buf, buf, tweak)

			from := bit / 8 / 16 * 16
			to := from + 16
			if rest := len(plain) % 16; rest != 0 && to > len(plain)-rest-16 {
				from, to = min(from, len(plain)-rest-16), len(plain)
			}
			if !bytes.Equal(buf[:from], plain[:from]) || !bytes.Equal(buf[min(to, len(buf)):], plain[min(to, len(buf)):]) {
				rt.Fatalf("bit %d of %d bytes garbled more than bytes %d to %d", bit, len(plain), from, to)
			}
			changed := 0
			for i := from; i < to; i++ {
				changed += bits.OnesCount8(buf[i] ^ plain[i])
			}
			if changed < 16 {
				rt.Fatalf("bit %d changed only %d bits of its block", bit, changed)
			}
		})
	})
}

// Equal data under an equal tweak is equal ciphertext; a block depends on its
// place.
func TestDeterministicAndPositional(t *testing.T) {
	onEachLevel(t, func(t *testing.T, level string) {
		rapid.Check(t, func(rt *rapid.T) {
			c, tweak := drawCipher(rt, level), drawTweak(rt)
			blocks := rapid.IntRange(2, 70).Draw(rt, "blocks")
			plain := bytes.Repeat(stream("block", 16), blocks)
			one, two := make([]byte, len(plain)), make([]byte, len(plain))
			c.Encrypt(one, plain, tweak)
			c.Encrypt(two, plain, tweak)
			differ(rt, "the same again", two, one)
			seen := map[string]bool{}
			for block := range slices.Chunk(one, 16) {
				seen[string(block)] = true
			}
			if len(seen) != blocks {
				rt.Fatalf("%d different blocks of ciphertext from %d equal blocks", len(seen), blocks)
			}
		})
	})
}
