//go:build unix && !purego

package asm

import (
	"os"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// A program may have data units in a mapped file, which another cuts: then a
// kernel faults, and the program may carry on. The encrypted tweak that goes
// from call to call is not left behind.
func TestSavedTweakAfterFault(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		if k.Level() == Generic {
			t.Skip("keeps no tweak between calls")
		}
		page := os.Getpagesize()
		b, err := unix.Mmap(-1, 0, 3*largeCap, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(b)
		if err := unix.Mprotect(b[len(b)-page:], unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}

		saved := onlySavedTweak(t)
		*saved = [16]byte{1}
		func() {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if recover() == nil {
					t.Error("no fault")
				}
			}()
			k.Encrypt(b, b, new([16]byte))
		}()
		if *saved != ([16]byte{}) {
			t.Errorf("the saved tweak is still %x", *saved)
		}
	})
}

// The same for the memory in which wide kernels keep tweaks.
func TestScratchAfterFault(t *testing.T) {
	if raceDetector {
		t.Skip("sync.Pool forgets at random")
	}
	forWide(t, func(t *testing.T, k *XTSKey, scratch *tweakScratch) {
		page := os.Getpagesize()
		b, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(b)
		if err := unix.Mprotect(b[page:], unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if recover() == nil {
				t.Error("no fault")
			}
			if *scratch != (tweakScratch{}) {
				t.Errorf("left %x", *scratch)
			}
		}()
		k.EncryptRun(b, b, 512, 1, 1)
	})
}

// onlySavedTweak empties the pool of saved tweaks and makes it give out one.
func onlySavedTweak(t *testing.T) *[16]byte {
	one := new([16]byte)
	usual := savedTweaks.New
	t.Cleanup(func() { savedTweaks.New = usual })
	savedTweaks.New = func() any { return one }
	for savedTweaks.Get() != any(one) {
	}
	return one
}
