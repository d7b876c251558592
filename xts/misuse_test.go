package xts_test

import (
	"testing"

	"github.com/xtsdisk/xtsdisk/xts"
)

type unitFunc func(dst, src []byte, tweak *[16]byte)

func TestUnitMisuse(t *testing.T) {
	onEachLevel(t, func(t *testing.T, level string) {
		c := newCipher(t, level, testKey(64))
		buf := make([]byte, 256)
		long := make([]byte, xts.MaxUnitSize+1)
		for _, f := range []unitFunc{c.Encrypt, c.Decrypt} {
			for n := range 16 {
				mustPanic(t, "xts: data unit of less than 16 bytes", func() { f(buf, buf[:n], new([16]byte)) })
			}
			mustPanic(t, "xts: data unit of more than 2^20 blocks", func() { f(long, long, new([16]byte)) })
			for n := range 32 {
				mustPanic(t, "xts: output is shorter than input", func() { f(buf[100:100+n], buf[:32], new([16]byte)) })
			}
			const partial = "xts: input and output overlap in part"
			for shift := 1; shift < 64; shift++ {
				mustPanic(t, partial, func() { f(buf[shift:], buf[:64], new([16]byte)) })
				mustPanic(t, partial, func() { f(buf, buf[shift:][:64], new([16]byte)) })
			}
			// Neighbours do not overlap, and what dst has beyond len(src) may
			// be anything, src included.
			f(buf[64:128], buf[:64], new([16]byte))
			f(buf[:64], buf[64:128], new([16]byte))
			f(buf, buf[64:128], new([16]byte))
			f(buf, buf[:64], new([16]byte))
		}
		if string(long) != string(make([]byte, len(long))) {
			t.Error("a refused call wrote to its output")
		}
	})
}

type runFunc func(dst, src []byte, r xts.Run)

type tweakedFunc func(dst, src []byte, sectorSize int, tweaks [][16]byte)

func TestRunMisuse(t *testing.T) {
	const (
		notMultiple = "xts: sector size is not a positive multiple of 16"
		tooLarge    = "xts: sector size of more than 2^20 blocks"
		notWhole    = "xts: input is not a whole number of sectors"
		short       = "xts: output is shorter than input"
		partial     = "xts: input and output overlap in part"
	)
	onEachLevel(t, func(t *testing.T, level string) {
		c := newCipher(t, level, testKey(32))
		check := func(message string, dst, src []byte, sectorSize int) {
			t.Helper()
			tweaks := make([][16]byte, 8)
			if sectorSize > 0 {
				tweaks = tweaks[:min(8, len(src)/sectorSize)]
			}
			for _, f := range []runFunc{c.EncryptRun, c.DecryptRun} {
				mustPanic(t, message, func() { f(dst, src, xts.Run{SectorSize: sectorSize}) })
			}
			for _, f := range []tweakedFunc{c.EncryptTweaked, c.DecryptTweaked} {
				mustPanic(t, message, func() { f(dst, src, sectorSize, tweaks) })
			}
		}
		buf := make([]byte, 1024)
		for _, size := range []int{0, -16, -512, 1, 8, 15, 17, 511, 520 - 1} {
			check(notMultiple, buf, buf, size)
		}
		check(tooLarge, buf, buf, xts.MaxUnitSize+16)
		for _, n := range []int{1, 16, 511, 513, 1008} {
			check(notWhole, buf, buf[:n], 512)
		}
		check(short, buf[:1023], buf, 512)
		check(short, nil, buf, 512)
		for _, shift := range []int{1, 16, 64, 511} {
			check(partial, buf[shift:], buf[:512], 64)
			check(partial, buf, buf[shift:][:512], 64)
		}
	})
}

func TestTweakMisuse(t *testing.T) {
	onEachLevel(t, func(t *testing.T, level string) {
		c := newCipher(t, level, testKey(32))
		buf := make([]byte, 1024)
		for _, f := range []runFunc{c.EncryptRun, c.DecryptRun} {
			mustPanic(t, "xts: invalid tweak kind", func() { f(buf, buf, xts.Run{SectorSize: 512, Kind: xts.Plain64BE + 1}) })
			f(nil, nil, xts.Run{SectorSize: 512}) // a run of none is nothing to do
			f(buf[:0], buf[:0], xts.Run{SectorSize: 512, Kind: xts.Plain64BE})
		}
		for _, f := range []tweakedFunc{c.EncryptTweaked, c.DecryptTweaked} {
			for _, n := range []int{0, 1, 3} {
				mustPanic(t, "xts: the number of tweaks is not that of the sectors", func() { f(buf, buf, 512, make([][16]byte, n)) })
			}
			f(nil, nil, 512, nil)
		}
	})
	mustPanic(t, "xts: invalid tweak kind", func() { (xts.Plain64BE + 1).Tweak(0) })
	if got := (xts.Plain64BE + 1).String(); got != "invalid" {
		t.Errorf("an invalid kind is called %q", got)
	}
}
