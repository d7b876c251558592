package asm

import (
	"bytes"
	"testing"
)

// Work beyond what one call of assembly does, 32 or 128 KiB.

const (
	smallCap = 32 << 10
	largeCap = 128 << 10
)

func TestLongUnits(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		longest := 2*largeCap + 300
		src, tweak := noise(longest, 11), [16]byte(noise(16, 12))
		both(func(dec bool) {
			// All but the last two blocks are the same for every length.
			whole := ref.unit(dec, src[:longest&^15], tweak)
			for _, n := range lengthsAroundCaps() {
				want := append(bytes.Clone(whole[:n&^15]), make([]byte, n&15)...)
				if n%16 != 0 {
					joinEnd(ref, dec, want, src[:n], tweak)
				}
				dst, intact := framed(t, n, n%3)
				unit(k, dec, dst, src[:n], &tweak)
				compare(t, dst, want, "%d bytes, decrypting %t", n, dec)
				copy(dst, src)
				unit(k, dec, dst, dst, &tweak)
				compare(t, dst, want, "%d bytes in place, decrypting %t", n, dec)
				intact()
			}
		})
	})
}

func lengthsAroundCaps() (lengths []int) {
	for _, around := range []int{smallCap, 2 * smallCap, largeCap, largeCap + smallCap, 2 * largeCap} {
		for _, d := range []int{-17, -16, -1, 0, 1, 15, 16, 17, 31, 32, 33, 255, 256, 271} {
			lengths = append(lengths, around+d)
		}
	}
	return lengths
}

// joinEnd fixes the last whole block and the partial one of want, given the
// whole blocks as if nothing followed them. The tweak comes from the reference
// by way of its own doubling, as far into the unit as needed.
func joinEnd(ref reference, dec bool, want, src []byte, tweak [16]byte) {
	n := len(src)
	from := n&^15 - 16
	t := ref.encryptedTweak(tweak)
	for range from / 16 {
		t = alphaTimes(t)
	}
	copy(want[from:], ref.stream(dec, src[from:], t))
}

// The longest data unit of IEEE 1619-2018, 5.1: 2^20 blocks.
func TestLongestUnits(t *testing.T) {
	if testing.Short() {
		t.Skip("16 MiB a case: not with -short")
	}
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		if len(ref.key1) == 24 {
			t.Skip("two key sizes will do")
		}
		src, tweak := noise(16<<20, 13), [16]byte(noise(16, 14))
		for _, n := range []int{len(src), len(src) - 1} {
			dec := n%2 == len(ref.key1)/16%2
			want := ref.unit(dec, src[:n], tweak)
			dst := make([]byte, n)
			unit(k, dec, dst, src[:n], &tweak)
			compare(t, dst, want, "%d bytes, decrypting %t", n, dec)
		}
	})
}

func TestLongRuns(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		for _, c := range []struct{ size, n int }{
			{512, 600}, {4096, 70}, {16, 9000}, {4112, 40}, {smallCap, 5}, {smallCap + 16, 3},
			{largeCap - 16, 3}, {largeCap, 2}, {largeCap + 16, 3}, {48, 3000},
		} {
			src := noise(c.n*c.size, 15)
			counted, random := countedTweaks(c.n, ^uint64(40), 8), noise(16*c.n, 16)
			both(func(dec bool) {
				dst := make([]byte, len(src))
				run(k, dec, dst, src, c.size, ^uint64(40), 8)
				compare(t, dst, ref.sectors(dec, src, c.size, counted), "%d sectors of %d, decrypting %t", c.n, c.size, dec)
				copy(dst, src)
				tweaked(k, dec, dst, dst, c.size, random)
				compare(t, dst, ref.sectors(dec, src, c.size, random), "%d sectors of %d, tweaks given, decrypting %t", c.n, c.size, dec)
			})
		}
	})
}

// No call allocates, whatever the length. (Under the race detector sync.Pool
// forgets at random.)
func TestNoAllocation(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		buf := noise(3*largeCap, 17)
		tweaks := noise(16*1024, 18)
		for name, f := range map[string]func(dec bool){
			"unit":           func(dec bool) { tweak := [16]byte{1}; unit(k, dec, buf[:1420], buf[:1420], &tweak) },
			"long unit":      func(dec bool) { tweak := [16]byte{1}; unit(k, dec, buf, buf, &tweak) },
			"run":            func(dec bool) { run(k, dec, buf, buf, 512, 1, 1) },
			"long sectors":   func(dec bool) { run(k, dec, buf, buf, len(buf)/2, 1, 1) },
			"tweaked":        func(dec bool) { tweaked(k, dec, buf, buf, 4096, tweaks) },
			"tweaked, tails": func(dec bool) { tweaked(k, dec, buf[:528*9], buf[:528*9], 528, tweaks) },
		} {
			both(func(dec bool) {
				if n := testing.AllocsPerRun(5, func() { f(dec) }); n != 0 {
					t.Errorf("%s, decrypting %t: %v allocations", name, dec, n)
				}
			})
		}
	})
}
