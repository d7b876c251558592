//go:build unix

package asm

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// guarded is memory between two pages that can't be touched.
type guarded struct{ inside []byte }

func newGuarded(t *testing.T, n int) guarded {
	t.Helper()
	page := os.Getpagesize()
	inner := (n + page - 1) / page * page
	all, err := unix.Mmap(-1, 0, inner+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(all); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{all[:page], all[page+inner:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return guarded{all[page : page+inner : page+inner]}
}

func (g guarded) start(n int) []byte { return g.inside[:n:n] }
func (g guarded) end(n int) []byte   { return g.inside[len(g.inside)-n:] }

// Nothing is read or written, nor prefetched so that it faults, beyond either
// end of source, target and tweaks.
func TestGuardPages(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		const longest = 1200
		from, to, tweaks := newGuarded(t, longest), newGuarded(t, longest), newGuarded(t, 16)
		data, tweak := noise(longest, 19), [16]byte(noise(16, 20))
		at := []func(guarded, int) []byte{guarded.start, guarded.end}
		for n := 16; n <= longest; n++ {
			both(func(dec bool) {
				want := ref.unit(dec, data[:n], tweak)
				for _, place := range at {
					src, dst, tw := place(from, n), place(to, n), place(tweaks, 16)
					copy(src, data)
					copy(tw, tweak[:])
					unit(k, dec, dst, src, (*[16]byte)(tw))
					compare(t, dst, want, "%d bytes, decrypting %t", n, dec)
					unit(k, dec, src, src, (*[16]byte)(tw))
					compare(t, src, want, "%d bytes in place, decrypting %t", n, dec)
				}
			})
		}
	})
}

func TestGuardPagesOfRuns(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		for _, size := range []int{16, 48, 240, 256, 272, 512, 528, 768, 4096, 4112} {
			data, given := noise(mostSectors*size, 21), noise(16*mostSectors, 22)
			from, to, tweaks := newGuarded(t, len(data)), newGuarded(t, len(data)), newGuarded(t, len(given))
			both(func(dec bool) {
				want := ref.sectors(dec, data, size, given)
				for n := 1; n <= mostSectors; n++ {
					for _, place := range []func(guarded, int) []byte{guarded.start, guarded.end} {
						src, dst, tw := place(from, n*size), place(to, n*size), place(tweaks, 16*n)
						copy(src, data)
						copy(tw, given)
						tweaked(k, dec, dst, src, size, tw)
						compare(t, dst, want[:n*size], "%d sectors of %d, decrypting %t", n, size, dec)
						run(k, dec, src, src, size, 1, 1)
					}
				}
			})
		}
	})
}

// Nor beyond a key, which need not be as long as what a load takes.
func TestGuardPagesOfKeys(t *testing.T) {
	forLevels(t, func(t *testing.T, k *XTSKey, ref reference) {
		key := append(bytes.Clone(ref.key1), ref.key2...)
		memory, src, tweak := newGuarded(t, len(key)), noise(64, 23), [16]byte(noise(16, 24))
		for _, place := range []func(guarded, int) []byte{guarded.start, guarded.end} {
			guardedKey := place(memory, len(key))
			copy(guardedKey, key)
			other := new(XTSKey)
			other.Init(k.Level(), guardedKey)
			both(func(dec bool) {
				dst := make([]byte, len(src))
				unit(other, dec, dst, src, &tweak)
				compare(t, dst, ref.unit(dec, src, tweak), "decrypting %t", dec)
			})
		}
	})
}
