package asm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// These tests read the assembly itself for what no run can show on every
// processor: encodings, clearing, and that no branch or address depends on
// data. The files are read whatever the build, so the tests run everywhere.

type instruction struct {
	line     int
	name     string
	operands []string // the destination last
}

type function struct {
	file, name, flags, frame string
	code                     []instruction
}

var (
	textLine    = regexp.MustCompile(`^TEXT ·(\w+)\(SB\), ([A-Z|]+), \$(\d+)(?:-\d+)?$`)
	vectorName  = regexp.MustCompile(`^[XYZ]\d+$`)
	maskName    = regexp.MustCompile(`^K[0-7]$`)
	generalName = regexp.MustCompile(`^([ABCD]X|SI|DI|BP|SP|R\d+)$`)
)

func isMemory(operand string) bool { return strings.HasSuffix(operand, ")") }

// functions parses all assembly of the package.
func functions(t *testing.T) (all []function) {
	t.Helper()
	files, err := filepath.Glob("*.s")
	if err != nil || len(files) < 4 {
		t.Fatalf("assembly not found: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			line, _, _ = strings.Cut(line, "//")
			line = strings.TrimSpace(line)
			if m := textLine.FindStringSubmatch(line); m != nil {
				all = append(all, function{file: file, name: m[1], flags: m[2], frame: m[3]})
				continue
			}
			skip := line == "" || strings.HasSuffix(line, ":") || strings.HasPrefix(line, "#") ||
				strings.HasPrefix(line, "DATA") || strings.HasPrefix(line, "GLOBL") || strings.HasPrefix(line, "PCALIGN")
			if skip {
				continue
			}
			if strings.HasPrefix(line, "TEXT") || len(all) == 0 {
				t.Fatalf("%s:%d: not understood: %s", file, i+1, line)
			}
			f := &all[len(all)-1]
			name, rest, _ := strings.Cut(line, " ")
			ins := instruction{line: i + 1, name: name}
			if rest = strings.TrimSpace(rest); rest != "" {
				ins.operands = strings.Split(rest, ", ")
			}
			f.code = append(f.code, ins)
		}
	}
	return all
}

func (f function) at(i int) string { return fmt.Sprintf("%s:%d: %s", f.file, f.code[i].line, f.name) }

// Whoever uses wide registers ends their use, or every SSE instruction after
// would pay for it.
func TestZeroUpper(t *testing.T) {
	for _, f := range functions(t) {
		wide := false
		for i, ins := range f.code {
			wide = wide || slices.ContainsFunc(ins.operands, func(o string) bool { return o[0] == 'Y' || o[0] == 'Z' })
			if ins.name == "RET" && wide && f.code[i-1].name != "VZEROUPPER" {
				t.Errorf("%s: no VZEROUPPER before RET", f.at(i))
			}
		}
		if f.code[len(f.code)-1].name != "RET" {
			t.Errorf("%s: %s does not end in RET", f.file, f.name)
		}
	}
}

// Before every return of a function that handled keys, each vector register
// that it used is cleared. VZEROUPPER does not do that: it leaves the low
// halves, and all of registers 16 to 31.
func TestRegistersCleared(t *testing.T) {
	cleared := map[string]bool{"PXOR": true, "VPXOR": true, "VPXORD": true}
	for _, f := range functions(t) {
		if !strings.HasSuffix(f.name, "Key") && !strings.Contains(f.name, "crypt") {
			continue
		}
		used := map[string]bool{}
		for _, ins := range f.code {
			for _, o := range ins.operands {
				if vectorName.MatchString(o) {
					used[o[1:]] = true
				}
			}
		}
		for i, ins := range f.code {
			if ins.name != "RET" {
				continue
			}
			left := maps.Clone(used)
			for j := i - 1; j >= 0; j-- {
				c := f.code[j]
				if c.name == "VZEROUPPER" {
					continue
				}
				if !cleared[c.name] || c.operands[0] != c.operands[len(c.operands)-1] {
					break
				}
				delete(left, c.operands[0][1:])
			}
			if len(left) > 0 {
				t.Errorf("%s: of %d vector registers, not cleared before RET: %v", f.at(i), len(used), slices.Sorted(maps.Keys(left)))
			}
		}
	}
}

// Secrets stay out of stack frames, which Go copies and does not clear: there
// are no frames, and nothing is stored to the stack.
func TestNoStack(t *testing.T) {
	for _, f := range functions(t) {
		if f.frame != "0" || !strings.Contains(f.flags, "NOSPLIT") {
			t.Errorf("%s: %s has a frame of %s bytes, flags %s", f.file, f.name, f.frame, f.flags)
		}
		for i, ins := range f.code {
			if strings.HasPrefix(ins.name, "PUSH") || strings.HasPrefix(ins.name, "POP") || ins.name == "CALL" {
				t.Errorf("%s: %s", f.at(i), ins.name)
			}
			if n := len(ins.operands); n > 1 && strings.HasPrefix(f.file, "xts") && strings.HasSuffix(ins.operands[n-1], "P)") &&
				!strings.HasPrefix(ins.name, "CMP") && !strings.HasPrefix(ins.name, "TEST") {
				t.Errorf("%s: %s stores to %s", f.at(i), ins.name, ins.operands[n-1])
			}
		}
	}
}

// Time must not depend on data, tweaks or keys. They are only in vector
// registers and in memory. So no instruction may move something from there to a
// general register, the flags or a mask, but the number of rounds and
// parameters; and no address may be made of a vector. What branches, addresses
// and conditional moves then depend on are lengths, counts and pointers.
func TestConstantTime(t *testing.T) {
	checked := 0
	for _, f := range functions(t) {
		if strings.HasPrefix(f.file, "cpu") {
			continue
		}
		for _, fault := range f.timing() {
			t.Error(fault)
		}
		checked++
	}
	if checked < 8 {
		t.Errorf("only %d functions found", checked)
	}
}

var (
	// These tell of vectors in the flags or in a general register that they do
	// not name as an operand.
	flagsOfVectors = regexp.MustCompile(`^V?PTEST$|^VTESTP|^V?U?COMIS|^V?PCMP[EI]STR|^KO?R?TEST`)
	vectorIndex    = regexp.MustCompile(`\([XYZ]\d+\*\d\)`)
)

const roundsAt = "720(R8)" // in the schedule

func mayLoad(operand string) bool { return strings.HasSuffix(operand, "(FP)") || operand == roundsAt }

// timing finds what could make a function's time depend on secrets.
func (f function) timing() (faults []string) {
	fault := func(i int, format string, args ...any) {
		faults = append(faults, f.at(i)+": "+f.code[i].name+" "+fmt.Sprintf(format, args...))
	}
	for i, ins := range f.code {
		n := len(ins.operands)
		vector := slices.ContainsFunc(ins.operands, vectorName.MatchString)
		if flagsOfVectors.MatchString(ins.name) {
			fault(i, "makes flags of data or masks")
		}
		if slices.ContainsFunc(ins.operands, vectorIndex.MatchString) {
			fault(i, "makes addresses of data")
		}
		if n == 0 {
			continue
		}
		target := ins.operands[n-1]
		switch {
		case vector && maskName.MatchString(target):
			fault(i, "makes a mask of data")
		case vector && generalName.MatchString(target):
			fault(i, "moves data to %s", target)
		case !vector && generalName.MatchString(target) && slices.ContainsFunc(ins.operands[:n-1], maskName.MatchString):
			fault(i, "moves a mask to %s", target)
		case vector || ins.name == "LEAQ" || strings.HasPrefix(ins.name, "PREFETCH"):
		default: // general registers and flags, and what they are loaded from or compared with
			for _, o := range ins.operands {
				if isMemory(o) && !mayLoad(o) {
					fault(i, "reads or writes %s", o)
				}
			}
		}
	}
	return faults
}

// The check finds what it is there for.
func TestConstantTimeFinds(t *testing.T) {
	for _, line := range []string{
		"VPTEST Y1, Y2", "PTEST X1, X2", "VMOVQ X3, AX", "MOVQ X3, AX", "PEXTRQ $1, X2, R9", "VPEXTRQ $0, X2, R9", "PMOVMSKB X1, AX",
		"VPMOVMSKB Y1, AX", "VPCMPUB $4, Z1, Z2, K1", "VPTESTMQ Z1, Z1, K2", "VPMOVB2M Z1, K1", "KMOVQ K1, AX", "KORTESTQ K1, K1",
		"VPGATHERDD K1, (AX)(Z3*4), Z4", "MOVQ (SI), AX", "MOVBQZX 3(SI)(AX*1), CX", "CMPQ 8(SI), $0", "TESTB $1, (DI)", "ADDQ 16(SI), AX",
		"VPCMPISTRI $12, X1, X2", "VUCOMISD X1, X2", "CMOVQEQ (SI), AX", "VTESTPS X1, X2", "KMOVQ (SI), K1", "MOVQ AX, (DI)",
	} {
		if f := assembled(line); len(f.timing()) == 0 {
			t.Errorf("not found: %s", line)
		}
	}
	for _, line := range []string{
		"MOVQ size+24(FP), AX", "MOVQ 720(R8), R9", "CMPQ AX, $16", "CMOVQEQ CX, AX", "VPBROADCASTQ R9, Z1", "VMOVQ R13, X9", "VPINSRQ $1, AX, X2, X2",
		"VINSERTI128 $1, (SI), Y1, Y2", "VPCMPGTQ Y1, Y2, Y3", "KMOVQ AX, K1", "VMOVDQU8 (SI), K1, Z3", "LEAQ 64(SI)(AX*1), DI", "PREFETCHT0 4096(SI)",
		"VBROADCASTI32X4 16(R8), Z3", "VPBLENDVB Y1, (DI), Y2, Y3", "BZHIQ AX, R9, R9", "MOVOU X1, (DI)", "VEXTRACTI128 $1, Y3, (DI)",
	} {
		if faults := assembled(line).timing(); len(faults) > 0 {
			t.Errorf("%s: %v", line, faults)
		}
	}
}

// assembled is a function of one instruction, then RET.
func assembled(line string) function {
	name, rest, _ := strings.Cut(line, " ")
	return function{file: "xts_test.s", name: "test", code: []instruction{{1, name, strings.Split(rest, ", ")}, {2, "RET", nil}}}
}
