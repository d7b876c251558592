//go:build !race

// With the race detector, telling it what the assembly reads and writes makes
// the arguments escape, which allocates; without, nothing may.

package xts_test

import (
	"testing"

	"github.com/xtsdisk/xtsdisk/xts"
)

func TestNoAllocation(t *testing.T) {
	buf, out := make([]byte, 64*512), make([]byte, 64*512)
	tweaks := make([][16]byte, 64)
	long := make([]byte, 300001) // more than one assembly call, and stealing
	onEachLevel(t, func(t *testing.T, level string) {
		for _, size := range keySizes {
			c := newCipher(t, level, testKey(size))
			calls := map[string]func(){
				"Encrypt": func() { tweak := [16]byte{1}; c.Encrypt(out, buf, &tweak) },
				"Decrypt": func() { tweak := [16]byte{1}; c.Decrypt(buf, buf, &tweak) },
				// Stealing, and the shortest unit there is.
				"Encrypt, 999 bytes":      func() { var tweak [16]byte; c.Encrypt(buf[:999], buf[:999], &tweak) },
				"Decrypt, 17 bytes":       func() { var tweak [16]byte; c.Decrypt(out[:17], buf[:17], &tweak) },
				"Encrypt, long":           func() { var tweak [16]byte; c.Encrypt(long, long, &tweak) },
				"EncryptTweaked":          func() { c.EncryptTweaked(out, buf, 512, tweaks) },
				"DecryptTweaked in place": func() { c.DecryptTweaked(buf, buf, 512, tweaks) },
				"EncryptTweaked, local":   func() { local := [64][16]byte{}; c.EncryptTweaked(out, buf, 512, local[:]) },
			}
			for kind := range xts.Plain64BE + 1 {
				calls["EncryptRun "+kind.String()] = func() {
					c.EncryptRun(out, buf, xts.Run{SectorSize: 512, Kind: kind, First: 1<<32 - 5, Step: 3})
				}
				calls["DecryptRun "+kind.String()] = func() {
					c.DecryptRun(buf, buf, xts.Run{SectorSize: 128, Kind: kind, First: 1<<32 - 5})
				}
			}
			for name, call := range calls {
				if n := testing.AllocsPerRun(20, call); n != 0 {
					t.Errorf("%s with a key of %d bits: %v allocations a call", name, size*8, n)
				}
			}
		}
	})
}
