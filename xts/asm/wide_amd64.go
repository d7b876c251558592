//go:build !purego

package asm

import "sync"

// The levels aesni and avx have two kernels each. The wide one, for long runs
// of sectors, keeps tweaks in memory, since 8 blocks in flight take the
// registers (_gen/fold_wide.go); the other does everything else.

// tweakScratch is that memory. It is on the heap because a goroutine's stack
// is copied when it grows, and what it leaves behind is not cleared. The
// kernels clear it.
type tweakScratch [256]byte

var tweakScratches = sync.Pool{New: func() any { return new(tweakScratch) }}

const (
	wideGroup = 128  // bytes, of which a sector must be a whole number
	wideLeast = 2048 // bytes, from which on it pays to fetch the memory
)

func wide(size, n uint64) bool { return size%wideGroup == 0 && size*n >= wideLeast }

// callWide is call for the wide kernels.
func (k *XTSKey) callWide(dst, src *byte, size, n, mode uint64, tweaks *byte, first, step uint64) {
	keys := &k.sched.enc[0]
	scratch := tweakScratches.Get().(*tweakScratch)
	cleared := false
	defer func() {
		if !cleared { // the kernel faulted, on mapped memory that went away
			*scratch = tweakScratch{}
		}
		tweakScratches.Put(scratch)
	}()
	switch dec := mode&modeDecrypt != 0; {
	case k.level == AVX && !dec:
		encryptAVXWide(keys, dst, src, size, n, mode, tweaks, first, step, &scratch[0])
	case k.level == AVX:
		decryptAVXWide(keys, dst, src, size, n, mode, tweaks, first, step, &scratch[0])
	case !dec:
		encryptAESNIWide(keys, dst, src, size, n, mode, tweaks, first, step, &scratch[0])
	default:
		decryptAESNIWide(keys, dst, src, size, n, mode, tweaks, first, step, &scratch[0])
	}
	cleared = true
}
