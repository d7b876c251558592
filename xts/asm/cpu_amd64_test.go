//go:build !purego

package asm

import (
	"strings"
	"testing"
)

var levelsInBuild = []Level{Generic, AESNI4, AESNI, AVX, VAESAVX2, VAES256, VAES512}

// fakeCPU answers CPUID and XGETBV.
type fakeCPU struct {
	vendor  string
	eax1    uint32 // family and model
	ecx1    uint32
	ebx7    uint32
	ecx7    uint32
	edx7    uint32
	edx71   uint32 // leaf 7, subleaf 1
	sub7    uint32 // the highest subleaf of leaf 7
	xcr0    uint32
	maxLeaf uint32
}

const (
	ecx1All = 1<<1 | 1<<9 | 1<<25 | 1<<27 | 1<<28 // PCLMULQDQ, SSSE3, AES, OSXSAVE, AVX
	ebx7All = 1<<5 | 1<<8 | 1<<16 | 1<<17 | 1<<30 | 1<<31
	ecx7All = 1<<9 | 1<<10 // VAES, VPCLMULQDQ
)

func everything() fakeCPU {
	return fakeCPU{vendor: "GenuineIntel", eax1: 0x000c06f2, ecx1: ecx1All, ebx7: ebx7All, ecx7: ecx7All, sub7: 2, xcr0: 0xe7, maxLeaf: 0x1f}
}

func (f fakeCPU) detect(t *testing.T) processor {
	return detect(func(leaf, sub uint32) (a, b, c, d uint32) {
		word := func(i int) uint32 {
			v := f.vendor[4*i:]
			return uint32(v[0]) | uint32(v[1])<<8 | uint32(v[2])<<16 | uint32(v[3])<<24
		}
		switch {
		case leaf > f.maxLeaf:
			t.Errorf("CPUID leaf %d is beyond the highest, %d", leaf, f.maxLeaf)
		case leaf == 0:
			return f.maxLeaf, word(0), word(2), word(1)
		case leaf == 1:
			return f.eax1, 0, f.ecx1, 0
		case leaf == 7 && sub == 0:
			return f.sub7, f.ebx7, f.ecx7, f.edx7
		case leaf == 7 && sub == 1:
			if f.sub7 < 1 {
				t.Error("CPUID leaf 7 has no subleaf 1")
			}
			return 0, 0, 0, f.edx71
		}
		return 0, 0, 0, 0
	}, func() uint32 {
		if f.ecx1>>27&1 == 0 {
			t.Error("XGETBV without OSXSAVE faults")
		}
		return f.xcr0
	})
}

func TestDetect(t *testing.T) {
	all := []Level{AESNI4, AESNI, AVX, VAESAVX2, VAES256, VAES512}
	for _, c := range []struct {
		name   string
		change func(*fakeCPU)
		levels []Level
	}{
		{"all", func(*fakeCPU) {}, all},
		{"no AES", func(f *fakeCPU) { f.ecx1 &^= 1 << 25 }, nil},
		{"no SSSE3", func(f *fakeCPU) { f.ecx1 &^= 1 << 9 }, all[2:]},
		{"no PCLMULQDQ", func(f *fakeCPU) { f.ecx1 &^= 1 << 1 }, all[:1]},
		{"no OSXSAVE", func(f *fakeCPU) { f.ecx1 &^= 1 << 27 }, all[:2]},
		{"no AVX", func(f *fakeCPU) { f.ecx1 &^= 1 << 28 }, all[:2]},
		{"YMM state off", func(f *fakeCPU) { f.xcr0 = 0xe3 }, all[:2]},
		{"XMM state off", func(f *fakeCPU) { f.xcr0 = 0xe5 }, all[:2]},
		{"opmask state off", func(f *fakeCPU) { f.xcr0 = 0xc7 }, all[:4]},
		{"upper ZMM state off", func(f *fakeCPU) { f.xcr0 = 0x67 }, all[:4]},
		{"ZMM halves state off", func(f *fakeCPU) { f.xcr0 = 0xa7 }, all[:4]},
		{"no AVX-512 F", func(f *fakeCPU) { f.ebx7 &^= 1 << 16 }, all[:4]},
		{"no AVX-512 DQ", func(f *fakeCPU) { f.ebx7 &^= 1 << 17 }, all[:4]},
		{"no AVX-512 BW", func(f *fakeCPU) { f.ebx7 &^= 1 << 30 }, all[:4]},
		{"no AVX-512 VL", func(f *fakeCPU) { f.ebx7 &^= 1 << 31 }, all[:4]},
		{"no BMI2", func(f *fakeCPU) { f.ebx7 &^= 1 << 8 }, all[:4]},
		{"no AVX2", func(f *fakeCPU) { f.ebx7 &^= 1 << 5 }, all[:3]},
		{"no VAES", func(f *fakeCPU) { f.ecx7 &^= 1 << 9 }, all[:3]},
		{"no VPCLMULQDQ", func(f *fakeCPU) { f.ecx7 &^= 1 << 10 }, all[:3]},
		{"no leaf 7", func(f *fakeCPU) { f.maxLeaf = 6 }, all[:3]},
		{"no leaf 1", func(f *fakeCPU) { f.maxLeaf = 0 }, nil},
	} {
		f := everything()
		c.change(&f)
		p := f.detect(t)
		var got []Level
		for _, l := range all {
			if p.runs(l) {
				got = append(got, l)
			}
		}
		if !equal(got, c.levels) {
			t.Errorf("%s: levels %v, want %v", c.name, got, c.levels)
		}
	}
	const allOf512 = "AES-NI, PCLMULQDQ, AVX, AVX2, BMI2, VAES, VPCLMULQDQ, AVX-512 F+BW+DQ+VL"
	if m := strings.Join((processor{}).missing(VAES512), ", "); m != allOf512 {
		t.Errorf("missing names %q", m)
	}
}

func equal(a, b []Level) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Family and model as the manuals compose them, by CPUID values of real parts.
func TestFamilyModel(t *testing.T) {
	for _, c := range []struct{ eax, family, model uint32 }{
		{0x000606a6, 6, 0x6a}, // Ice Lake server
		{0x000806c1, 6, 0x8c}, // Tiger Lake
		{0x000c06f2, 6, 0xcf}, // Emerald Rapids
		{0x00b00f21, 0x1a, 2}, // Zen 5 server
		{0x00a60f12, 0x19, 0x61},
	} {
		if f, m := familyModel(c.eax); f != c.family || m != c.model {
			t.Errorf("%#x: family %#x model %#x, want %#x %#x", c.eax, f, m, c.family, c.model)
		}
	}
}

// The width by microarchitecture, once all levels are in the build and now.
func TestBestLevel(t *testing.T) {
	complete := func(Level) bool { return true }
	for _, c := range []struct {
		vendor    string
		eax       uint32
		best, now Level
	}{
		{"GenuineIntel", 0x000606a6, VAES256, VAES256}, // Ice Lake server
		{"GenuineIntel", 0x000706e5, VAES256, VAES256}, // Ice Lake client
		{"GenuineIntel", 0x000806c1, VAES256, VAES256}, // Tiger Lake
		{"GenuineIntel", 0x000806d1, VAES256, VAES256}, // Tiger Lake H
		{"GenuineIntel", 0x000a0671, VAES512, VAES512}, // Rocket Lake
		{"GenuineIntel", 0x000806f8, VAES512, VAES512}, // Sapphire Rapids
		{"GenuineIntel", 0x000c06f2, VAES512, VAES512}, // Emerald Rapids
		{"AuthenticAMD", 0x00a60f12, VAES512, VAES512}, // Zen 4
		{"AuthenticAMD", 0x00b00f21, VAES512, VAES512}, // Zen 5
	} {
		f := everything()
		f.vendor, f.eax1 = c.vendor, c.eax
		p := f.detect(t)
		if l, why := p.best(complete); l != c.best || why == "" {
			t.Errorf("%s %#x: best %v (%s), want %v", c.vendor, c.eax, l, why, c.best)
		}
		if l, _ := p.best(built); l != c.now {
			t.Errorf("%s %#x: best of this build %v, want %v", c.vendor, c.eax, l, c.now)
		}
	}
	f := everything()
	f.ecx1 &^= 1 << 25
	if l, why := f.detect(t).best(complete); l != Generic || !strings.Contains(why, "AES-NI") {
		t.Errorf("without AES-NI: %v, %q", l, why)
	}
}

func TestPortLimit(t *testing.T) {
	AddChain(0)
	AddChain(1)
	for _, l := range Levels()[1:] {
		w := LimitWidth(l)
		if n := PortLimit(w, 14, 3); n != 3*12*w/128 {
			t.Errorf("PortLimit(%d, 14, 3) = %d blocks", w, n)
		}
	}
	if n := PortLimit(64, 10, 10); n != 0 {
		t.Errorf("PortLimit of a width that does not exist: %d", n)
	}
	if n := PortLimit(128, 10, 0); n != 0 {
		t.Errorf("PortLimit without iterations: %d", n)
	}
	if w := LimitWidth(Generic); w != 0 {
		t.Errorf("LimitWidth(Generic) = %d", w)
	}
}
