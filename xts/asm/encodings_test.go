package asm

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What instructions a level may use, read off its assembly: only such as the
// features stand for that the level requires. That the assembler encodes them
// as meant is tested on the machine code, in internal/rules.

// instructions beyond a level's features, by groups
const (
	sse41 = `PINSR[BDQ]|PEXTR[BDQ]|P?BLEND|PTEST|PMOV[SZ]X|PCMP(EQ|GT)Q|PM(AX|IN)(SB|SD|UW|UD)|PMUL(LD|DQ)|PACKUSDW|ROUND|INSERTPS|EXTRACTPS|DPP|MPSADBW|PHMIN|MOVNTDQA|PCMP[EI]STR`
	clmul = `V?PCLMUL`
	avx2  = `VPBROADCAST|VBROADCASTI|VINSERTI|VEXTRACTI|VPERM2I|VPERM[DQ]|VPBLENDD|VPS[LR][LAR]V|VPMASKMOV|VP?GATHER`
	bmi   = `BZHI|SHLX|SHRX|SARX|RORX|PEXT[LQ]|PDEP|MULX|ANDN|BLS|BEXTR|TZCNT|LZCNT|POPCNT|MOVBE|ADCX|ADOX`
	// of AVX-512, what is not in F, BW, DQ and VL
	moreAVX512 = `VPERM[BT]|VPERM[IT]2B|VPSH[LR]D[VWDQ]|VPMULTISHIFT|VGF2P8|VPCOMPRESS[BW]|VPEXPAND[BW]|VPDP|VPOPCNT|VPSHUFBITQMB|VPMADD52|VPCONFLICT|VPLZCNT|VP2INTERSECT`
)

// encoding is what a level's assembly is made of.
type encoding struct {
	widths  string // of vector registers
	highest int    // vector register
	vex     bool   // VEX or EVEX throughout; else neither
	masks   bool   // opmask registers
	never   *regexp.Regexp
}

func never(groups ...string) *regexp.Regexp {
	return regexp.MustCompile(`^(` + strings.Join(groups, "|") + `)`)
}

var encodings = map[Level]encoding{
	AESNI4:   {"X", 15, false, false, never(sse41, clmul, bmi)},
	AESNI:    {"X", 15, false, false, never(sse41, bmi)},
	AVX:      {"X", 15, true, false, never(avx2, bmi)},
	VAESAVX2: {"XY", 15, true, false, never(bmi)},
	VAES256:  {"XY", 31, true, true, never(moreAVX512)},
	VAES512:  {"XYZ", 31, true, true, never(moreAVX512)},
}

// kernelName is encrypt or decrypt, the level in capitals, and what kind of
// kernel it is where a level has several: encryptVAESAVX2, decryptAVXWide.
var kernelName = regexp.MustCompile(`^(?:en|de)crypt([A-Z0-9]+?)([A-Z][a-z]+)?$`)

// levelOf is the level of a kernel.
func levelOf(name string) (Level, bool) {
	m := kernelName.FindStringSubmatch(name)
	for _, l := range AllLevels()[1:] {
		if m != nil && m[1] == strings.ToUpper(strings.ReplaceAll(l.String(), "-", "")) {
			return l, true
		}
	}
	return Generic, false
}

// encodingOf is the rule for a function; there is none for those that only
// measure.
func (f function) encodingOf() (e encoding, ok bool) {
	if l, kernel := levelOf(f.name); kernel {
		return encodings[l], true
	}
	if f.name == "expandKey" || strings.HasSuffix(f.name, "Limit128") || strings.HasPrefix(f.file, "cpu") {
		return encodings[AESNI4], true
	}
	return e, false
}

// SSE instructions with memory operands want them aligned to 16 bytes, which
// Go promises for nothing; the moves named here do not.
var unalignedMoves = []string{"MOVOU", "MOVQ"}

// And VMOVDQA and VMOVAPS and the like want alignment whatever the encoding.
var alignedMoves = regexp.MustCompile(`^V?MOV(DQA|AP|O$|NTDQ)`)

func (f function) misencoded(e encoding) (faults []string) {
	for i, ins := range f.code {
		memory := slices.ContainsFunc(ins.operands, isMemory)
		vector := false
		for _, o := range ins.operands {
			if maskName.MatchString(o) && !e.masks {
				faults = append(faults, f.at(i)+" takes an opmask")
			}
			if !vectorName.MatchString(o) {
				continue
			}
			vector = true
			number := o[1:]
			if !strings.Contains(e.widths, o[:1]) || e.highest < 16 && len(number) == 2 && number > "15" {
				faults = append(faults, f.at(i)+" uses "+o)
			}
		}
		switch isVEX := strings.HasPrefix(ins.name, "V"); {
		case isVEX && !e.vex:
			faults = append(faults, f.at(i)+" takes VEX or EVEX")
		case vector && !isVEX && e.vex:
			faults = append(faults, f.at(i)+" is SSE, which waits for the upper halves of registers")
		case vector && !isVEX && memory && !slices.Contains(unalignedMoves, ins.name), memory && alignedMoves.MatchString(ins.name):
			faults = append(faults, f.at(i)+" with a memory operand needs alignment")
		}
		if e.never.MatchString(ins.name) {
			faults = append(faults, f.at(i)+" is not in what the level requires")
		}
	}
	return faults
}

func TestEncodings(t *testing.T) {
	found := map[Level]int{}
	for _, f := range functions(t) {
		l, kernel := levelOf(f.name)
		if !kernel && strings.HasPrefix(f.file, "xts_") {
			t.Errorf("%s: %s is named after no level", f.file, f.name)
		}
		found[l]++
		if e, ok := f.encodingOf(); ok {
			for _, fault := range f.misencoded(e) {
				t.Error(fault)
			}
		}
	}
	for _, l := range levelsInBuild {
		if found[l] < 2 && l != Generic {
			t.Errorf("%v: %d kernels found", l, found[l])
		}
	}
	for name, want := range map[string]Level{"encryptAESNI": AESNI, "decryptAESNI4": AESNI4, "encryptAVXWide": AVX, "decryptVAESAVX2": VAESAVX2, "encryptVAES512Unit": VAES512} {
		if l, ok := levelOf(name); !ok || l != want {
			t.Errorf("%s is of %v", name, l)
		}
	}
}

// The check finds what it is there for.
func TestEncodingsFinds(t *testing.T) {
	for _, c := range []struct {
		level Level
		line  string
	}{
		{AESNI4, "VPXOR X1, X2, X3"}, {AESNI4, "PCLMULQDQ $0, X1, X2"}, {AESNI4, "PXOR (SI), X1"}, {AESNI4, "MOVO (SI), X1"}, {AESNI4, "PINSRQ $1, AX, X1"},
		{AESNI, "VMOVQ AX, X1"}, {AESNI, "SHRXQ AX, CX, DX"}, {AESNI, "PXOR X16, X1"}, {AESNI, "PBLENDVB X0, X1, X2"}, {AESNI, "AESENC 16(R8), X1"},
		{AVX, "VPXOR Y1, Y2, Y3"}, {AVX, "VPBROADCASTQ X1, X2"}, {AVX, "PXOR X1, X2"}, {AVX, "VMOVDQA (SI), X1"}, {AVX, "VAESENC X16, X1, X1"}, {AVX, "BZHIQ AX, CX, DX"},
		{VAESAVX2, "VAESENC Z1, Z2, Z3"}, {VAESAVX2, "VPXOR Y20, Y1, Y2"}, {VAESAVX2, "VMOVDQU8 (SI), K1, Y2"}, {VAESAVX2, "MOVQ AX, X1"}, {VAESAVX2, "BZHIQ AX, CX, DX"},
		{VAES256, "VPXORQ Z1, Z2, Z3"}, {VAES256, "VPERMB Y1, Y2, Y3"}, {VAES512, "VMOVDQA64 (SI), Z1"}, {VAES512, "MOVOU (SI), X1"}, {VAES512, "VGF2P8MULB Z1, Z2, Z3"},
	} {
		if len(assembled(c.line).misencoded(encodings[c.level])) == 0 {
			t.Errorf("%v: not found: %s", c.level, c.line)
		}
	}
}
