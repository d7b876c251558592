package asm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// Every test here runs at every level in the build, forced, against the
// reference. A level that the processor lacks is skipped aloud.

var keySizes = func() []int {
	if raceDetector { // it makes the reference ten times slower
		return []int{64}
	}
	return []int{32, 48, 64}
}()

// forLevels runs test at each level, with a key of each size.
func forLevels(t *testing.T, test func(t *testing.T, k *XTSKey, ref reference)) {
	for _, l := range levelsInBuild {
		for _, n := range keySizes {
			t.Run(fmt.Sprintf("%v/%d", l, 4*n), func(t *testing.T) {
				testenv.Feature(t, Supported(l) == nil, l.String())
				key := noise(n, byte(n))
				k := new(XTSKey)
				k.Init(l, key)
				if k.Level() != l {
					t.Fatalf("level %v, want %v", k.Level(), l)
				}
				test(t, k, newReference(key))
			})
		}
	}
}

// noise returns n bytes that look random and are the same for the same seed.
func noise(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed, 1}).Read(b)
	return b
}

// both runs a test of either direction.
func both(test func(dec bool)) {
	test(false)
	test(true)
}

func unit(k *XTSKey, dec bool, dst, src []byte, tweak *[16]byte) {
	if dec {
		k.Decrypt(dst, src, tweak)
	} else {
		k.Encrypt(dst, src, tweak)
	}
}

func run(k *XTSKey, dec bool, dst, src []byte, size int, first, step uint64) {
	if dec {
		k.DecryptRun(dst, src, size, first, step)
	} else {
		k.EncryptRun(dst, src, size, first, step)
	}
}

func tweaked(k *XTSKey, dec bool, dst, src []byte, size int, tweaks []byte) {
	if dec {
		k.DecryptTweaked(dst, src, size, tweaks)
	} else {
		k.EncryptTweaked(dst, src, size, tweaks)
	}
}

// framed returns n bytes at an offset inside a larger slice, and a check that
// nothing around them was written.
func framed(t *testing.T, n, offset int) (b []byte, check func()) {
	const margin = 320
	const mark = 0xa5
	frame := bytes.Repeat([]byte{mark}, margin+offset+n+margin)
	start := margin + offset
	return frame[start : start+n : start+n], func() {
		t.Helper()
		for i, v := range frame {
			if v != mark && (i < start || i >= start+n) {
				t.Fatalf("%d bytes at offset %d: wrote at %d", n, offset, i-start)
			}
		}
	}
}

// compare stops the test at the first difference.
func compare(t *testing.T, got, want []byte, format string, args ...any) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: differs at byte %d of %d", fmt.Sprintf(format, args...), i, len(want))
		}
	}
}

func TestEveryLength(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		data := noise(1100, 2)
		for n := 16; n <= len(data); n++ {
			tweak := [16]byte(noise(16, byte(n)))
			src := bytes.Clone(data[:n])
			both(func(dec bool) {
				want := ref.unit(dec, src, tweak)
				dst, intact := framed(t, n, n%5)
				unit(k, dec, dst, src, &tweak)
				compare(t, dst, want, "%d bytes, decrypting %t", n, dec)
				intact()
				compare(t, src, data[:n], "%d bytes, decrypting %t: source changed", n, dec)

				place, intact := framed(t, n, n%7)
				copy(place, src)
				unit(k, dec, place, place, &tweak)
				compare(t, place, want, "%d bytes in place, decrypting %t", n, dec)
				intact()
			})
		}
	})
}

func TestMisalignment(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		for _, n := range []int{16, 17, 31, 64, 79, 100, 256, 257, 512, 527, 528, 1000, 1024} {
			both(func(dec bool) {
				data, tweaks := noise(n+64, 3), noise(16+64, 4)
				for offset := range 64 {
					src, tweak := data[offset:][:n], [16]byte(tweaks[offset:])
					want := ref.unit(dec, src, tweak)
					dst, intact := framed(t, n, 63-offset)
					unit(k, dec, dst, src, (*[16]byte)(tweaks[offset:]))
					compare(t, dst, want, "%d bytes from offset %d, decrypting %t", n, offset, dec)
					intact()
				}
			})
		}
	})
}

// Go promises 8-byte alignment to the struct with the round keys.
func TestMisalignedKeys(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		var shifted struct {
			k0   XTSKey
			pad0 uint64
			k1   XTSKey
			pad1 uint64
			k2   XTSKey
		}
		src, tweak := noise(600, 5), [16]byte(noise(16, 6))
		for _, other := range []*XTSKey{&shifted.k0, &shifted.k1, &shifted.k2} {
			other.Init(k.Level(), append(bytes.Clone(ref.key1), ref.key2...))
			both(func(dec bool) {
				dst := make([]byte, len(src))
				unit(other, dec, dst, src, &tweak)
				compare(t, dst, ref.unit(dec, src, tweak), "decrypting %t", dec)
			})
		}
	})
}

const mostSectors = 17

// sectorSizes are all multiples of 16 up to a little over the largest group of
// any level twice, and those of devices, with and without room for tags.
func sectorSizes() (sizes []int) {
	for n := 16; n <= 1104; n += 16 {
		sizes = append(sizes, n)
	}
	return append(sizes, 1280, 1536, 2048, 2064, 4096, 4112, 4160, 4224, 8192)
}

func TestRuns(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		for i, size := range sectorSizes() {
			src := noise(mostSectors*size, 7)
			first, step := uint64(i)<<28, uint64(1+7*(i%2))
			random := noise(16*mostSectors, 8)
			both(func(dec bool) {
				counted := ref.sectors(dec, src, size, countedTweaks(mostSectors, first, step))
				explicit := ref.sectors(dec, src, size, random)
				for n := 1; n <= mostSectors; n++ {
					dst, intact := framed(t, n*size, n)
					run(k, dec, dst, src[:n*size], size, first, step)
					compare(t, dst, counted[:n*size], "%d sectors of %d, decrypting %t", n, size, dec)
					copy(dst, src)
					tweaked(k, dec, dst, dst, size, random[:16*n:16*n])
					compare(t, dst, explicit[:n*size], "%d sectors of %d, tweaks given, in place, decrypting %t", n, size, dec)
					intact()
				}
			})
		}
	})
}

// Counting carries within 64 bits and no further: IEEE 1619 has 128-bit
// tweaks, dm-crypt's plain64 fills the upper half with zeros.
func TestCountingWraps(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		for _, size := range []int{16, 512, 528} {
			src := noise(mostSectors*size, 9)
			for _, wrap := range []uint64{0, 1 << 8, 1 << 16, 1 << 31, 1 << 32, 1 << 40, 1 << 63} {
				for _, step := range []uint64{1, 8, 0, 3, 1 << 32, 1<<63 + 1, ^uint64(0)} {
					for _, before := range []uint64{0, 1, 2, 3, 5, 8, 9} {
						first := wrap - before*step
						both(func(dec bool) {
							dst := make([]byte, len(src))
							run(k, dec, dst, src, size, first, step)
							want := ref.sectors(dec, src, size, countedTweaks(mostSectors, first, step))
							compare(t, dst, want, "sectors of %d from %#x in steps of %#x, decrypting %t", size, first, step, dec)
						})
					}
				}
			}
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		const size = 512
		src := noise(32*size, 10)
		var wg sync.WaitGroup
		for worker := range 4 {
			want := ref.sectors(worker%2 == 1, src, size, countedTweaks(32, uint64(worker), 1))
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range 20 {
					dst := make([]byte, len(src))
					run(k, worker%2 == 1, dst, src, size, uint64(worker), 1)
					if !bytes.Equal(dst, want) {
						t.Errorf("worker %d: wrong result", worker)
						return
					}
				}
			}()
		}
		wg.Wait()
	})
}
