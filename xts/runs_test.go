package xts_test

import (
	"crypto/aes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	xcrypto "golang.org/x/crypto/xts"

	"github.com/xtsdisk/xtsdisk/xts"
)

// ivOf is a sector's tweak as dm-crypt's crypt_iv_plain_gen,
// crypt_iv_plain64_gen and crypt_iv_plain64be_gen make it.
func ivOf(kind xts.TweakKind, number uint64) (iv [16]byte) {
	switch kind {
	case xts.Plain:
		binary.LittleEndian.PutUint32(iv[0:], uint32(number&0xffffffff))
	case xts.Plain64:
		binary.LittleEndian.PutUint64(iv[0:], number)
	case xts.Plain64BE:
		binary.BigEndian.PutUint64(iv[8:], number)
	}
	return iv
}

// expectRun is what a run must give, a sector at a time by the reference.
func (r reference) expectRun(plain []byte, run xts.Run) (want []byte) {
	step := run.Step
	if step == 0 {
		step = 1
	}
	number := run.First + run.Offset
	for sector := range slices.Chunk(plain, run.SectorSize) {
		want = append(want, r.encrypt(sector, ivOf(run.Kind, number))...)
		number += step
	}
	return want
}

// runBothWays holds one run to a known answer, with canaries around.
func runBothWays(t *testing.T, c *xts.Cipher, run xts.Run, plain, want []byte) {
	t.Helper()
	name := fmt.Sprintf("%d sectors, %+v", len(plain)/run.SectorSize, run)
	got, check := framed(len(plain), 5)
	c.EncryptRun(got, plain, run)
	differ(t, name+": encryption", got, want)
	c.DecryptRun(got, got, run)
	differ(t, name+": decryption in place", got, plain)
	c.EncryptRun(got, got, run)
	differ(t, name+": encryption in place", got, want)
	check(t)
	back, check := framed(len(plain), 9)
	c.DecryptRun(back, want, run)
	differ(t, name+": decryption", back, plain)
	check(t)
}

var sectorSizes = []int{16, 32, 48, 64, 80, 96, 112, 128, 144, 192, 240, 256, 272, 496, 512, 528, 1024, 1520, 2048, 4096, 4112}

func TestRuns(t *testing.T) {
	for _, size := range keySizes {
		key := testKey(size)
		ref := newReference(key)
		other, err := xcrypto.NewCipher(aes.NewCipher, key)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprintf("key%d", size*8), func(t *testing.T) {
			for _, sectorSize := range sectorSizes {
				plain := stream("run", 17*sectorSize)
				run := xts.Run{SectorSize: sectorSize, Kind: xts.Plain64, First: 1000, Step: uint64(sectorSize/512 + 1)}
				want := ref.expectRun(plain, run)
				theirs := make([]byte, len(plain))
				for i := range 17 {
					other.Encrypt(theirs[i*sectorSize:], plain[i*sectorSize:][:sectorSize], run.First+uint64(i)*run.Step)
				}
				differ(t, "the reference against x/crypto/xts", want, theirs)
				onEachLevel(t, func(t *testing.T, level string) {
					c := newCipher(t, level, key)
					for n := range 18 {
						runBothWays(t, c, run, plain[:n*sectorSize], want[:n*sectorSize])
					}
				})
			}
		})
	}
}

// Sectors and runs beyond the cap of one assembly call, at every place the
// cut can fall relative to a batch of tweaks.
func TestLongRuns(t *testing.T) {
	key := testKey(64)
	ref := newReference(key)
	for _, c := range []struct{ sectorSize, sectors int }{
		{512, 64}, {512, 65}, {512, 256}, {512, 257}, {512, 271}, {512, 600}, {528, 511}, {4096, 31}, {4096, 33}, {4096, 67},
		{16, 5000}, {48, 2800}, {65536, 5}, {65552, 3}, {131072, 3}, {131088, 3}, {262160, 2}, {32752, 9},
	} {
		plain := stream("long run", c.sectorSize*c.sectors)
		run := xts.Run{SectorSize: c.sectorSize, First: 1 << 33, Step: 8}
		want := ref.expectRun(plain, run)
		tweaks := make([][16]byte, c.sectors)
		for i := range tweaks {
			tweaks[i] = ivOf(xts.Plain64, run.First+uint64(i)*8)
		}
		onEachLevel(t, func(t *testing.T, level string) {
			cipher := newCipher(t, level, key)
			runBothWays(t, cipher, run, plain, want)
			tweakedBothWays(t, cipher, c.sectorSize, tweaks, plain, want)
		})
	}
}

// The numbers' boundaries: 32 bits wrap for plain and carry for the others, 64
// bits wrap without a carry into the upper half, with every kind of step.
func TestTweakKindBoundaries(t *testing.T) {
	const sectorSize, sectors = 64, 11
	key := testKey(32)
	ref := newReference(key)
	plain := stream("boundaries", sectorSize*sectors)
	var runs []xts.Run
	for _, kind := range []xts.TweakKind{xts.Plain64, xts.Plain, xts.Plain64BE} {
		for _, edge := range []uint64{0, 1 << 8, 1 << 16, 1 << 31, 1 << 32, 1 << 33, 1 << 63} {
			for _, before := range []uint64{0, 1, 2, 3, 4, 5, 7, 8, 9, 40, 64} {
				for _, step := range []uint64{0, 1, 3, 8, 128, 1<<31 + 1, 1 << 32, 1<<32 + 1, 1 << 63, math.MaxUint64} {
					run := xts.Run{SectorSize: sectorSize, Kind: kind, First: edge - before, Step: step}
					runs = append(runs, run)
					if step == 8 {
						run.First, run.Offset = run.First-1<<40, 1<<40
						runs = append(runs, run)
					}
				}
			}
		}
	}
	if testing.Short() {
		runs = slices.DeleteFunc(runs, func(r xts.Run) bool { return (r.First+r.Step)%4 == 2 })
	}
	wants := make([][]byte, len(runs))
	for i, run := range runs {
		wants[i] = ref.expectRun(plain, run)
	}
	onEachLevel(t, func(t *testing.T, level string) {
		c := newCipher(t, level, key)
		got := make([]byte, len(plain))
		for i, run := range runs {
			c.EncryptRun(got, plain, run)
			differ(t, fmt.Sprintf("encryption, %+v", run), got, wants[i])
			c.DecryptRun(got, got, run)
			differ(t, fmt.Sprintf("decryption, %+v", run), got, plain)
		}
	})
}

func TestTweak(t *testing.T) {
	for number, want := range map[uint64]map[xts.TweakKind][16]byte{
		0x0102030405060708: {
			xts.Plain64:   {8, 7, 6, 5, 4, 3, 2, 1},
			xts.Plain:     {8, 7, 6, 5},
			xts.Plain64BE: {8: 1, 2, 3, 4, 5, 6, 7, 8},
		},
		1 << 32: {xts.Plain64: {4: 1}, xts.Plain: {}, xts.Plain64BE: {11: 1}},
	} {
		for kind, tweak := range want {
			if got := kind.Tweak(number); got != tweak {
				t.Errorf("%v.Tweak(%#x) = %x, want %x", kind, number, got, tweak)
			}
		}
	}
}

func tweakedBothWays(t *testing.T, c *xts.Cipher, sectorSize int, tweaks [][16]byte, plain, want []byte) {
	t.Helper()
	name := fmt.Sprintf("%d sectors of %d under given tweaks", len(tweaks), sectorSize)
	before := slices.Clone(tweaks)
	got, check := framed(len(plain), 3)
	c.EncryptTweaked(got, plain, sectorSize, tweaks)
	differ(t, name+": encryption", got, want)
	c.DecryptTweaked(got, got, sectorSize, tweaks)
	differ(t, name+": decryption in place", got, plain)
	c.EncryptTweaked(got, got, sectorSize, tweaks)
	differ(t, name+": encryption in place", got, want)
	c.DecryptTweaked(got, want, sectorSize, tweaks)
	differ(t, name+": decryption", got, plain)
	check(t)
	if !slices.Equal(tweaks, before) {
		t.Fatalf("%s: the tweaks were changed", name)
	}
}

func TestTweakedRuns(t *testing.T) {
	for _, size := range keySizes {
		key := testKey(size)
		ref := newReference(key)
		for _, sectorSize := range sectorSizes {
			plain := stream("tweaked", 17*sectorSize)
			var want []byte
			var tweaks [][16]byte
			for i, sector := range slices.Collect(slices.Chunk(plain, sectorSize)) {
				tweaks = append(tweaks, [16]byte(stream(fmt.Sprintf("tweak %d", i), 16)))
				want = append(want, ref.encrypt(sector, tweaks[i])...)
			}
			onEachLevel(t, func(t *testing.T, level string) {
				c := newCipher(t, level, key)
				for n := range 18 {
					tweakedBothWays(t, c, sectorSize, tweaks[:n], plain[:n*sectorSize], want[:n*sectorSize])
				}
			})
		}
	}
}
