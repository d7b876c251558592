//go:build !purego

package asm

import (
	"fmt"
	"strings"
	"sync"
)

// Detection by CPUID and XGETBV of our own: golang.org/x/sys/cpu tells VAES
// only together with AVX-512, and the levels need it apart. Sources: Intel SDM
// volume 2A, CPUID, and volume 1, sections 13.2, 14.3 and 15.2-15.4 (state
// that the system must have enabled); AMD APM volume 3, appendix E.

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

// requires lists what each level needs, whether or not this build has it.
var requires = [...]feature{
	AESNI4:   featAES | featSSSE3,
	AESNI:    featAES | featSSSE3 | featPCLMULQDQ,
	AVX:      featAES | featPCLMULQDQ | featAVX,
	VAESAVX2: featAES | featVAES | featVPCLMULQDQ | featAVX | featAVX2,
	VAES256:  featAES | featVAES | featVPCLMULQDQ | featAVX512 | featBMI2,
	VAES512:  featAES | featVAES | featVPCLMULQDQ | featAVX512 | featBMI2,
}

// state bits of XCR0
const (
	xcr0AVX    = 0x06 // XMM, YMM
	xcr0AVX512 = 0xe6 // those, opmask, ZMM0-15 upper halves, ZMM16-31
)

// processor is what detection found.
type processor struct {
	has           feature
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
	avx := xcr0&xcr0AVX == xcr0AVX
	if avx {
		p.set(c1, 28, featAVX)
	}
	if maxLeaf < 7 {
		return p
	}
	_, b7, c7, _ := cpuid(7, 0)
	p.set(b7, 8, featBMI2)
	if p.has&featAVX == 0 { // VEX and EVEX encodings fault
		return p
	}
	p.set(b7, 5, featAVX2)
	p.set(c7, 9, featVAES)
	p.set(c7, 10, featVPCLMULQDQ)
	const fdqbwvl = 1<<16 | 1<<17 | 1<<30 | 1<<31
	if xcr0&xcr0AVX512 == xcr0AVX512 && b7&fdqbwvl == fdqbwvl {
		p.has |= featAVX512
	}
	return p
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
func (p processor) missing(l Level) string {
	var names []string
	for i, name := range featureNames {
		if f := feature(1) << i; requires[l]&f != 0 && p.has&f == 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// prefers512 tells whether 512-bit vectors beat 256-bit ones here. They do
// from Sapphire Rapids, Rocket Lake and Zen 4 on; on the first processors that
// have both, their use lowers the clock of the whole core by more than it
// gains. A processor that is not listed is newer than the list.
func (p processor) prefers512() bool {
	if p.vendor != "GenuineIntel" || p.family != 6 {
		return true
	}
	switch p.model {
	case 0x6a, 0x6c, // Ice Lake server
		0x7d, 0x7e, // Ice Lake client
		0x8c, 0x8d: // Tiger Lake
		return false
	}
	return true
}

// supported is Supported for the levels with assembly.
func supported(l Level) error {
	if !built(l) {
		return fmt.Errorf("level %v is not in this build", l)
	}
	if m := thisProcessor().missing(l); m != "" {
		return fmt.Errorf("level %v needs processor features that are missing here or not enabled by the system: %s", l, m)
	}
	return nil
}

func bestLevel() (Level, string) { return thisProcessor().best(built) }

// best chooses among the levels in the build, and says why.
func (p processor) best(built func(Level) bool) (Level, string) {
	order := []Level{VAES512, VAES256, VAESAVX2, AVX, AESNI, AESNI4}
	if !p.prefers512() {
		order[0], order[1] = VAES256, VAES512
	}
	for _, l := range order {
		switch {
		case !built(l) || p.missing(l) != "":
		case l == VAES256 && !p.prefers512():
			return l, "It is the fastest level on this microarchitecture, which lowers its clock for 512-bit vectors."
		default:
			return l, "It is the fastest level in this build whose instructions the processor has and the system enables."
		}
	}
	return Generic, "The processor lacks " + p.missing(AESNI4) + ", so crypto/aes does the work."
}
