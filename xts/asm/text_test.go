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

// sseOnly tells whether a function must do without VEX and EVEX encodings.
func (f function) sseOnly() bool {
	return strings.Contains(f.name, "AESNI") || f.name == "expandKey" || f.name == "aesLimit128" || f.name == "xorLimit128" || strings.HasPrefix(f.file, "cpu")
}

// SSE instructions with memory operands want them aligned to 16 bytes, which
// Go promises for nothing; the moves named here do not.
var unalignedMoves = []string{"MOVOU", "MOVQ"}

func TestEncodings(t *testing.T) {
	for _, f := range functions(t) {
		for i, ins := range f.code {
			if !f.sseOnly() {
				continue
			}
			if strings.HasPrefix(ins.name, "V") {
				t.Errorf("%s: %s takes VEX or EVEX", f.at(i), ins.name)
			}
			if strings.HasPrefix(f.name, "encrypt") || strings.HasPrefix(f.name, "decrypt") {
				if strings.HasPrefix(ins.name, "PCLMUL") {
					t.Errorf("%s: %s is not in this level", f.at(i), ins.name)
				}
			}
			vector := slices.ContainsFunc(ins.operands, vectorName.MatchString)
			if vector && slices.ContainsFunc(ins.operands, isMemory) && !slices.Contains(unalignedMoves, ins.name) {
				t.Errorf("%s: %s with a memory operand needs alignment", f.at(i), ins.name)
			}
		}
	}
}

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
// registers: so no instruction may move something from there to a general
// register or the flags, or make a mask of it, and general registers are
// loaded from parameters and the number of rounds only.
func TestConstantTime(t *testing.T) {
	const roundsAt = "720(R8)"
	flags := regexp.MustCompile(`^V?P?TEST|^VPCMP|^VPMOV.*2M$|^V?U?COMIS|^KO?R?TEST|MOVMSK|^V?PEXTR`)
	for _, f := range functions(t) {
		if strings.HasPrefix(f.file, "cpu") {
			continue
		}
		for i, ins := range f.code {
			n := len(ins.operands)
			vector := slices.ContainsFunc(ins.operands, vectorName.MatchString)
			if vector && flags.MatchString(ins.name) {
				t.Errorf("%s: %s makes flags or a mask of data", f.at(i), ins.name)
			}
			if n == 0 || !generalName.MatchString(ins.operands[n-1]) {
				continue
			}
			for _, o := range ins.operands[:n-1] {
				if vectorName.MatchString(o) || maskName.MatchString(o) {
					t.Errorf("%s: %s moves %s to %s", f.at(i), ins.name, o, ins.operands[n-1])
				}
				if isMemory(o) && ins.name != "LEAQ" && !strings.HasSuffix(o, "(FP)") && o != roundsAt {
					t.Errorf("%s: %s loads %s into %s", f.at(i), ins.name, o, ins.operands[n-1])
				}
			}
		}
	}
}
