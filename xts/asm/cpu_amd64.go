//go:build !purego

package asm

import (
	"sync"
)

// Detection by CPUID and XGETBV of our own: golang.org/x/sys/cpu tells VAES
// only together with AVX-512, and the levels need it apart. Sources: Intel SDM
// volume 2A, CPUID, and volume 1, sections 13.2, 14.3 and 15.2-15.4 (state
// that the system must have enabled); AMD APM volume 3, appendix E. What
// follows from it is in choice_amd64.go.

// cpuid executes CPUID.
//
//go:noescape
func cpuid(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)

// xgetbv returns the low half of XCR0. It needs OSXSAVE.
//
//go:noescape
func xgetbv() (eax uint32)

// feature is a bit set of what levels need.
type feature uint32

const (
	featSSSE3 feature = 1 << iota
	featAES
	featPCLMULQDQ
	featAVX // with the system's consent: XMM and YMM state
	featAVX2
	featBMI2
	featVAES
	featVPCLMULQDQ
	featAVX512 // F, BW, DQ, VL with the system's consent: opmask and ZMM state
)

var featureNames = []string{"SSSE3", "AES-NI", "PCLMULQDQ", "AVX", "AVX2", "BMI2", "VAES", "VPCLMULQDQ", "AVX-512 F+BW+DQ+VL"}

// vexAES is what 128-bit VEX encodings of AES and carryless products take; the
// features VAES and VPCLMULQDQ are about wider and EVEX encodings.
const vexAES = featAES | featPCLMULQDQ | featAVX

// requires lists what each level needs, whether or not this build has it. The
// levels with EVEX encodings also have VEX ones of AVX2.
var requires = [...]feature{
	AESNI4:   featAES | featSSSE3,
	AESNI:    featAES | featSSSE3 | featPCLMULQDQ,
	AVX:      vexAES,
	VAESAVX2: vexAES | featVAES | featVPCLMULQDQ | featAVX2,
	VAES256:  vexAES | featVAES | featVPCLMULQDQ | featAVX2 | featAVX512 | featBMI2,
	VAES512:  vexAES | featVAES | featVPCLMULQDQ | featAVX2 | featAVX512 | featBMI2,
}

// state bits of XCR0
const (
	xcr0AVX    = 0x06 // XMM, YMM
	xcr0AVX512 = 0xe6 // those, opmask, ZMM0-15 upper halves, ZMM16-31
)

// processor is what detection found.
type processor struct {
	has           feature // may be used, whatever core a thread is moved to
	disabled      feature // is there, but the system has not enabled its registers
	uneven        feature // is there, but perhaps not on every core
	vendor        string
	family, model uint32
}

// cpuidFunc and xgetbvFunc are the instructions, or a test's tables of answers.
type (
	cpuidFunc  func(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)
	xgetbvFunc func() uint32
)

var thisProcessor = sync.OnceValue(func() processor { return detect(cpuid, xgetbv) })

func detect(cpuid cpuidFunc, xgetbv xgetbvFunc) processor {
	maxLeaf, b, c, d := cpuid(0, 0)
	p := processor{vendor: vendorName(b, d, c)}
	if maxLeaf < 1 {
		return p
	}
	eax, _, c1, _ := cpuid(1, 0)
	p.family, p.model = familyModel(eax)
	p.set(c1, 9, featSSSE3)
	p.set(c1, 25, featAES)
	p.set(c1, 1, featPCLMULQDQ)

	var xcr0 uint32
	if c1>>27&1 != 0 { // OSXSAVE: XGETBV may be executed
		xcr0 = xgetbv()
	}
	p.setState(c1>>28&1 != 0, xcr0&xcr0AVX == xcr0AVX, featAVX)
	if maxLeaf < 7 {
		return p
	}
	_, b7, c7, d7 := cpuid(7, 0)
	p.set(b7, 8, featBMI2)
	p.set(b7, 5, featAVX2)
	p.set(c7, 9, featVAES)
	p.set(c7, 10, featVPCLMULQDQ)
	const fdqbwvl = 1<<16 | 1<<17 | 1<<30 | 1<<31
	p.setState(b7&fdqbwvl == fdqbwvl, xcr0&xcr0AVX512 == xcr0AVX512, featAVX512)
	if hybrid := d7>>15&1 != 0; hybrid && !avx10(cpuid) {
		p.uneven = p.has & featAVX512
		p.has &^= featAVX512
	}
	return p
}

// avx10 tells whether AVX10 is there (CPUID leaf 7, subleaf 1, EDX).
//
// Hybrid processors have kinds of cores that differ in more than speed. A
// thread may be moved between any two instructions, so only what all cores have
// may be used, while CPUID speaks of the core that executes it. Intel gives all
// cores of a hybrid the same features, AVX-512 excepted: the first Alder Lakes
// had it on the large cores with some firmware, and the small ones, which have
// VAES on 256-bit vectors, fault on it. With AVX10 it is on cores of all kinds
// again: that is what it is for (Intel AVX10 Architecture Specification,
// introduction). AMD's small cores have all that the large ones have.
func avx10(cpuid cpuidFunc) bool {
	if subleaves, _, _, _ := cpuid(7, 0); subleaves < 1 {
		return false
	}
	_, _, _, d := cpuid(7, 1)
	return d>>19&1 != 0
}

// setState is set for features whose registers the system saves and restores,
// or else must not be touched.
func (p *processor) setState(there, enabled bool, f feature) {
	switch {
	case there && enabled:
		p.has |= f
	case there:
		p.disabled |= f
	}
}

func (p *processor) set(word uint32, bit uint, f feature) {
	if word>>bit&1 != 0 {
		p.has |= f
	}
}

func vendorName(words ...uint32) string {
	var b []byte
	for _, w := range words {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return string(b)
}

// familyModel decodes CPUID leaf 1, EAX.
func familyModel(eax uint32) (family, model uint32) {
	family, model = eax>>8&0xf, eax>>4&0xf
	if family == 6 || family == 15 {
		model |= eax >> 16 & 0xf << 4
	}
	if family == 15 {
		family += eax >> 20 & 0xff
	}
	return family, model
}

// missing names the features that l needs and p lacks.
func (p processor) missing(l Level) (names []string) {
	for i, name := range featureNames {
		f := feature(1) << i
		switch {
		case requires[l]&f == 0 || p.has&f != 0:
		case p.disabled&f != 0:
			names = append(names, name+" (the system has not enabled it)")
		case p.uneven&f != 0:
			names = append(names, name+" (perhaps not on every core of this hybrid processor)")
		default:
			names = append(names, name)
		}
	}
	return names
}

func (p processor) runs(l Level) bool { return len(p.missing(l)) == 0 }
