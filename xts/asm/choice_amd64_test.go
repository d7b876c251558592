//go:build !purego

package asm

import (
	"slices"
	"strings"
	"testing"
)

// CPUID and XCR0 of real processors, as far as detection reads them, each from
// the one before with what was new. Family and model are those of the parts
// named; see wide256 for the source of the widths.
const (
	ecxSSSE3  = 1 << 9
	ecxAES    = 1 << 25
	ecxPCLMUL = 1 << 1
	ecxAVX    = 1<<27 | 1<<28 // OSXSAVE, AVX
	ebxAVX2   = 1<<5 | 1<<8   // AVX2, BMI2
	ebxAVX512 = 1<<16 | 1<<17 | 1<<30 | 1<<31
	ecxVAES   = 1 << 9
	ecxVPCLMU = 1 << 10
	edxHybrid = 1 << 15
	edxAVX10  = 1 << 19
)

func conroe() fakeCPU {
	return fakeCPU{vendor: "GenuineIntel", eax1: 0x000006f6, ecx1: ecxSSSE3, maxLeaf: 10}
}

func westmere() fakeCPU {
	f := conroe()
	f.eax1, f.ecx1, f.maxLeaf = 0x000206c2, f.ecx1|ecxAES|ecxPCLMUL, 11
	return f
}

func sandyBridge() fakeCPU {
	f := westmere()
	f.eax1, f.ecx1, f.xcr0, f.maxLeaf = 0x000206a7, f.ecx1|ecxAVX, 7, 13
	return f
}

func haswell() fakeCPU {
	f := sandyBridge()
	f.eax1, f.ebx7 = 0x000306c3, ebxAVX2
	return f
}

// skylakeServer has AVX-512 and no VAES.
func skylakeServer() fakeCPU {
	f := haswell()
	f.eax1, f.ebx7, f.xcr0, f.maxLeaf = 0x00050654, f.ebx7|ebxAVX512, 0xe7, 0x16
	return f
}

func iceLake() fakeCPU {
	f := skylakeServer()
	f.eax1, f.ecx7, f.maxLeaf = 0x000606a6, ecxVAES|ecxVPCLMU, 0x1b
	return f
}

func tigerLake() fakeCPU      { f := iceLake(); f.eax1 = 0x000806c1; return f }
func rocketLake() fakeCPU     { f := iceLake(); f.eax1 = 0x000a0671; return f }
func sapphireRapids() fakeCPU { f := iceLake(); f.eax1, f.sub7 = 0x000806f8, 1; return f }

// alderLake has large and small cores, and AVX-512 on none.
func alderLake() fakeCPU {
	f := haswell()
	f.eax1, f.ecx7, f.edx7, f.sub7, f.maxLeaf = 0x00090672, ecxVAES|ecxVPCLMU, edxHybrid, 1, 0x20
	return f
}

func zen3() fakeCPU {
	f := haswell()
	f.vendor, f.eax1, f.ecx7, f.maxLeaf = "AuthenticAMD", 0x00a20f10, ecxVAES|ecxVPCLMU, 0x10
	return f
}

func zen4() fakeCPU {
	f := zen3()
	f.eax1, f.ebx7, f.xcr0, f.sub7 = 0x00a60f12, f.ebx7|ebxAVX512, 0xe7, 1
	return f
}

func zen5() fakeCPU { f := zen4(); f.eax1 = 0x00b00f21; return f }

func with(f fakeCPU, change func(*fakeCPU)) fakeCPU {
	change(&f)
	return f
}

var choiceCases = []struct {
	name string
	cpu  fakeCPU
	best Level
	// word is in what VAES512 lacks, or empty if it can run though it may not be
	// the best.
	word string
}{
	{"Conroe: no AES", conroe(), Generic, "AES-NI, PCLMULQDQ, AVX, "},
	{"Westmere", westmere(), AESNI, "AVX, AVX2"},
	{"Westmere whose PCLMULQDQ is masked", with(westmere(), func(f *fakeCPU) { f.ecx1 &^= ecxPCLMUL }), AESNI4, "PCLMULQDQ"},
	{"Sandy Bridge", sandyBridge(), AVX, "AVX2"},
	{"Haswell", haswell(), AVX, "VAES"},
	{"Skylake server: AVX-512 without VAES", skylakeServer(), AVX, "VAES, VPCLMULQDQ"},
	{"Ice Lake server", iceLake(), VAES256, ""},
	{"Ice Lake", with(iceLake(), func(f *fakeCPU) { f.eax1 = 0x000706e5 }), VAES256, ""},
	{"Tiger Lake", tigerLake(), VAES256, ""},
	{"Tiger Lake H", with(tigerLake(), func(f *fakeCPU) { f.eax1 = 0x000806d1 }), VAES256, ""},
	{"Rocket Lake", rocketLake(), VAES512, ""},
	{"Alder Lake", alderLake(), VAESAVX2, "AVX-512"},
	{"Alder Lake, AVX-512 on the large cores", with(alderLake(), func(f *fakeCPU) { f.ebx7, f.xcr0 = f.ebx7|ebxAVX512, 0xe7 }),
		VAESAVX2, "AVX-512 F+BW+DQ+VL (perhaps not on every core of this hybrid processor)"},
	{"such a one that says no more of leaf 7", with(alderLake(), func(f *fakeCPU) { f.ebx7, f.xcr0, f.sub7 = f.ebx7|ebxAVX512, 0xe7, 0 }),
		VAESAVX2, "not on every core"},
	{"a hybrid with AVX10: on all cores", with(alderLake(), func(f *fakeCPU) { f.ebx7, f.xcr0, f.edx71 = f.ebx7|ebxAVX512, 0xe7, edxAVX10 }), VAES512, ""},
	{"Sapphire Rapids", sapphireRapids(), VAES512, ""},
	{"Emerald Rapids", with(sapphireRapids(), func(f *fakeCPU) { f.eax1 = 0x000c06f2 }), VAES512, ""},
	{"Zen 3", zen3(), VAESAVX2, "AVX-512"},
	{"Zen 4", zen4(), VAES512, ""},
	{"Zen 5 server", zen5(), VAES512, ""},
	{"Zen 5, two passes", with(zen5(), func(f *fakeCPU) { f.eax1 = 0x00b20f40 }), VAES512, ""},
	{"AVX state off", with(sapphireRapids(), func(f *fakeCPU) { f.xcr0 = 3 }), AESNI,
		"AVX (the system has not enabled it), AVX-512 F+BW+DQ+VL (the system has not enabled it)"},
	{"AVX state off without OSXSAVE", with(sapphireRapids(), func(f *fakeCPU) { f.ecx1 &^= 1 << 27 }), AESNI, "AVX (the system has not enabled it)"},
	{"AVX-512 state off", with(sapphireRapids(), func(f *fakeCPU) { f.xcr0 = 7 }), VAESAVX2, "AVX-512 F+BW+DQ+VL (the system has not enabled it)"},
	{"opmask state off on Ice Lake", with(iceLake(), func(f *fakeCPU) { f.xcr0 = 0xc7 }), VAESAVX2, "AVX-512 F+BW+DQ+VL (the system has not enabled it)"},
	{"a guest whose VPCLMULQDQ is masked", with(sapphireRapids(), func(f *fakeCPU) { f.ecx7 &^= ecxVPCLMU }), AVX, "VPCLMULQDQ"},
	{"a guest whose VAES is masked", with(zen4(), func(f *fakeCPU) { f.ecx7 &^= ecxVAES }), AVX, "VAES"},
	{"a guest without AVX-512 on Sapphire Rapids", with(sapphireRapids(), func(f *fakeCPU) { f.ebx7, f.xcr0 = ebxAVX2, 7 }), VAESAVX2, "AVX-512"},
}

// The choice, with all levels in the build; then with every subset of them: the
// best of what is there, which always runs.
func TestChoice(t *testing.T) {
	for _, c := range choiceCases {
		p := c.cpu.detect(t)
		best, why := p.best(func(Level) bool { return true })
		if best != c.best || !strings.HasSuffix(why, ".") {
			t.Errorf("%s: best %v (%s), want %v", c.name, best, why, c.best)
		}
		lacks := strings.Join(p.missing(VAES512), ", ")
		if (lacks == "") != (c.word == "") || !strings.Contains(lacks, c.word) {
			t.Errorf("%s: vaes512 lacks %q, want %q", c.name, lacks, c.word)
		}
		for subset := range 1 << len(levelNames) {
			there := func(l Level) bool { return subset>>l&1 != 0 }
			l, _ := p.best(there)
			switch {
			case l == Generic:
				if i := slices.IndexFunc(AllLevels()[1:], func(l Level) bool { return there(l) && p.runs(l) }); i >= 0 {
					t.Fatalf("%s: generic, though %v runs", c.name, AllLevels()[1+i])
				}
			case !there(l) || !p.runs(l):
				t.Fatalf("%s, subset %#b: %v does not run", c.name, subset, l)
			case there(c.best) && l != c.best:
				t.Fatalf("%s, subset %#b: %v, though %v is there", c.name, subset, l, c.best)
			}
		}
	}
}

// Why tells the microarchitecture where it decided, and what is missing where
// nothing can run; a build without the right level does not speak of it.
func TestWhy(t *testing.T) {
	all := func(Level) bool { return true }
	if _, why := tigerLake().detect(t).best(all); !strings.Contains(why, "Tiger Lake") {
		t.Errorf("Tiger Lake: %s", why)
	}
	for _, f := range []fakeCPU{sapphireRapids(), zen4(), alderLake()} {
		if _, why := f.detect(t).best(all); !strings.Contains(why, "fastest level in this build") {
			t.Errorf("%#x: %s", f.eax1, why)
		}
	}
	if _, why := conroe().detect(t).best(all); !strings.Contains(why, "lacks AES-NI,") {
		t.Errorf("Conroe: %s", why)
	}
	only512 := func(l Level) bool { return l == VAES512 }
	if l, why := iceLake().detect(t).best(only512); l != VAES512 || strings.Contains(why, "Ice Lake") {
		t.Errorf("Ice Lake without vaes256: %v, %s", l, why)
	}
	none := func(Level) bool { return false }
	if l, why := zen4().detect(t).best(none); l != Generic || !strings.Contains(why, "no level") {
		t.Errorf("a build without levels: %v, %s", l, why)
	}
}
