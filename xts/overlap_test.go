package xts_test

import (
	"testing"
	"unsafe"
)

// Tweaks inside the output would be overwritten before they are used.
func TestTweaksOverlap(t *testing.T) {
	onEachLevel(t, func(t *testing.T, level string) {
		c := newCipher(t, level, testKey(64))
		memory := make([][16]byte, 128)
		flat := unsafe.Slice(&memory[0][0], 128*16)
		other := make([]byte, 1024)
		for _, f := range []tweakedFunc{c.EncryptTweaked, c.DecryptTweaked} {
			for first := range 70 {
				// Two tweaks of 16 bytes against an output of 64 blocks from block 2 on.
				tweaks, dst := memory[first:first+2], flat[32:][:1024]
				if first == 0 || first >= 66 {
					f(dst, other, 512, tweaks)
				} else {
					mustPanic(t, "xts: the tweaks overlap the output", func() { f(dst, other, 512, tweaks) })
				}
			}
			f(other, flat[:1024], 512, memory[:2]) // inside the input they only get read
		}
	})
}
