//go:build !purego

package asm

import (
	"bytes"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// forWide runs test at each level with wide kernels, with a pool of scratch
// memory that holds one piece, in a frame that is checked to be left alone.
func forWide(t *testing.T, test func(t *testing.T, k *XTSKey, scratch *tweakScratch)) {
	for _, l := range []Level{AESNI, AVX} {
		t.Run(l.String(), func(t *testing.T) {
			testenv.Feature(t, Supported(l) == nil, l.String())
			var k XTSKey
			k.Init(l, noise(64, 1))
			frame := bytes.Repeat([]byte{0xa5}, 3*len(tweakScratch{}))
			scratch := (*tweakScratch)(frame[len(tweakScratch{}):])
			usual := tweakScratches.New
			defer func() { tweakScratches.New = usual }()
			tweakScratches.New = func() any { return scratch }
			for tweakScratches.Get() != any(scratch) {
			}
			test(t, &k, scratch)
			for i, b := range frame {
				if inside := i/len(scratch) == 1; !inside && b != 0xa5 {
					t.Fatalf("wrote at %d, outside of the scratch memory", i-len(scratch))
				}
			}
		})
	}
}

// The tweaks in scratch memory are cleared before a call returns.
func TestScratchCleared(t *testing.T) {
	if raceDetector {
		t.Skip("sync.Pool forgets at random")
	}
	forWide(t, func(t *testing.T, k *XTSKey, scratch *tweakScratch) {
		data := make([]byte, largeCap)
		both(func(dec bool) {
			for _, size := range []int{128, 512, 4096, largeCap} { // the last: by calls that hand on the tweak
				*scratch = tweakScratch(bytes.Repeat([]byte{1}, len(scratch)))
				run(k, dec, data, data, size, 5, 1)
				if *scratch != (tweakScratch{}) {
					t.Errorf("sectors of %d, decrypting %t: left %x", size, dec, *scratch)
				}
			}
		})
	})
}

// Whatever kernel does the work, by length: the same comes out. (The other
// tests compare with the reference on either side of the border, too.)
func TestWideBorder(t *testing.T) {
	for n, want := range map[uint64]bool{1: false, 3: false, 4: true, 64: true} {
		if wide(512, n) != want {
			t.Errorf("%d sectors of 512: wide is %t", n, !want)
		}
	}
	if wide(528, 64) || wide(64, 100) || !wide(smallCap, 1) {
		t.Error("sectors that are not whole groups, or a long unit, take the wrong kernel")
	}
}
