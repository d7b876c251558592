package xts_test

import (
	"bytes"
	"testing"

	"github.com/xtsdisk/xtsdisk/xts"
)

// fuzzCiphers makes a cipher of every level from the same key.
func fuzzCiphers(f failer, key []byte, keySize uint8) []*xts.Cipher {
	whole := make([]byte, keySizes[int(keySize)%len(keySizes)])
	copy(whole, key)
	var ciphers []*xts.Cipher
	for _, level := range xts.Levels() {
		ciphers = append(ciphers, newCipher(f, level, whole, xts.AllowEqualHalves()))
	}
	return ciphers
}

// FuzzLevels holds all levels against each other on data units of any length:
// the first is generic, which the other tests hold against the standard.
func FuzzLevels(f *testing.F) {
	f.Add([]byte("key"), uint8(0), []byte("tweak"), []byte("sixteen bytes or"), uint8(0))
	f.Add(testKey(64), uint8(2), bytes.Repeat([]byte{0xff}, 16), stream("seed", 47), uint8(1))
	f.Add(testKey(48), uint8(1), []byte{}, stream("seed", 4096+15), uint8(63))
	f.Fuzz(func(t *testing.T, key []byte, keySize uint8, tweakBytes, plain []byte, offset uint8) {
		if len(plain) < 16 {
			return
		}
		var tweak [16]byte
		copy(tweak[:], tweakBytes)
		var want, wantPlain []byte
		for _, c := range fuzzCiphers(t, key, keySize) {
			got, check := framed(len(plain), int(offset%64))
			c.Encrypt(got, plain, &tweak)
			if want == nil {
				want = bytes.Clone(got)
			}
			differ(t, c.Level()+": encryption", got, want)
			c.Decrypt(got, got, &tweak)
			differ(t, c.Level()+": round trip", got, plain)
			c.Decrypt(got, plain, &tweak)
			if wantPlain == nil {
				wantPlain = bytes.Clone(got)
			}
			differ(t, c.Level()+": decryption", got, wantPlain)
			check(t)
		}
	})
}

// FuzzLevelsRun does the same for runs of sectors with counted tweaks.
func FuzzLevelsRun(f *testing.F) {
	f.Add([]byte("key"), uint8(0), uint8(0), uint16(31), uint64(0), uint64(1), uint64(0), stream("seed", 2048), uint8(0))
	f.Add(testKey(64), uint8(2), uint8(1), uint16(0), uint64(1<<32-3), uint64(1), uint64(0), stream("seed", 17*16), uint8(1))
	f.Add(testKey(48), uint8(1), uint8(2), uint16(255), uint64(1<<64-8), uint64(8), uint64(7), stream("seed", 5*4096), uint8(63))
	f.Fuzz(func(t *testing.T, key []byte, keySize, kind uint8, blocks uint16, first, step, offset uint64, plain []byte, shift uint8) {
		run := xts.Run{SectorSize: (int(blocks)%1024 + 1) * 16, Kind: xts.TweakKind(kind % 3), First: first, Step: step, Offset: offset}
		plain = plain[:len(plain)/run.SectorSize*run.SectorSize]
		var want []byte
		for _, c := range fuzzCiphers(t, key, keySize) {
			got, check := framed(len(plain), int(shift%64))
			c.EncryptRun(got, plain, run)
			if want == nil {
				want = bytes.Clone(got)
			}
			differ(t, c.Level()+": encryption", got, want)
			back := make([]byte, len(plain))
			c.DecryptRun(back, got, run)
			differ(t, c.Level()+": decryption", back, plain)
			c.DecryptRun(got, got, run)
			differ(t, c.Level()+": decryption in place", got, plain)
			check(t)
		}
	})
}
