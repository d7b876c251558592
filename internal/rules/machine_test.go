package rules

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// The machine code of the kernels, as it is in a linked binary: the assembler
// chooses encodings, and a kernel that has one of a feature that its level does
// not require would fault on some processor that nobody here has.

// kernelBinary builds the test binary of xts/asm, which holds every kernel, and
// reads the symbols of the package's functions.
func kernelBinary(t *testing.T) (binary string, symbols map[string]elf.Symbol) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "asm.test")
	cmd := exec.Command("go", "test", "-c", "-o", binary, module+"/xts/asm")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build xts/asm: %v\n%s", err, out)
	}
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	symbols = map[string]elf.Symbol{}
	for _, s := range all {
		name, ok := strings.CutPrefix(s.Name, module+"/xts/asm.")
		if ok && s.Size > 0 {
			symbols[strings.TrimSuffix(name, ".abi0")] = s
		}
	}
	return binary, symbols
}

// machineRule is what the machine code of a level may have.
type machineRule struct {
	vex, evex bool
	ymm, zmm  bool
}

// kernelName is encrypt or decrypt, the level, and what kind of kernel it is
// where a level has several.
var kernelName = regexp.MustCompile(`^(?:en|de)crypt([A-Z0-9]+?)(?:[A-Z][a-z]+)?$`)

// machineRules are by the level in a kernel's name.
var machineRules = map[string]machineRule{
	"AESNI4":   {},
	"AESNI":    {},
	"AVX":      {vex: true},
	"VAESAVX2": {vex: true, ymm: true},
	"VAES256":  {vex: true, evex: true, ymm: true},
	"VAES512":  {vex: true, evex: true, ymm: true, zmm: true},
}

// machineInstruction is a line of objdump.
type machineInstruction struct {
	// The first byte that is not a segment or address-size prefix: in 64-bit mode
	// 0x62 begins EVEX, 0xc4 and 0xc5 begin VEX, and nothing else.
	prefix byte
	text   string // AT&T syntax, without objdump's comment
}

var objdumpLine = regexp.MustCompile(`^ +[0-9a-f]+:\t(?:(?:2e|36|3e|26|64|65|67) )*([0-9a-f]{2})[0-9a-f ]*\t(.+)$`)

// disassemble reads a function's machine code by binutils' objdump, which knows
// all instructions there are; Go's own does not know VEX.
func disassemble(t *testing.T, objdump, binary string, symbol elf.Symbol) (code []machineInstruction) {
	t.Helper()
	out, err := exec.Command(objdump, "-d", "-w", "-z", fmt.Sprintf("--start-address=%#x", symbol.Value),
		fmt.Sprintf("--stop-address=%#x", symbol.Value+symbol.Size), binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		m := objdumpLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		var prefix byte
		if _, err := fmt.Sscanf(m[1], "%02x", &prefix); err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(m[2], "#")
		code = append(code, machineInstruction{prefix, strings.TrimSpace(text)})
	}
	if len(code) == 0 {
		t.Fatalf("%s: objdump shows no instructions", symbol.Name)
	}
	return code
}

// breaks tells what is wrong with code under a rule.
func (r machineRule) breaks(code []machineInstruction) (faults []string) {
	wide := false
	for i, ins := range code {
		vex := ins.prefix == 0xc4 || ins.prefix == 0xc5
		evex := ins.prefix == 0x62
		ymm, zmm := strings.Contains(ins.text, "%ymm"), strings.Contains(ins.text, "%zmm")
		wide = wide || ymm || zmm
		switch {
		case strings.Contains(ins.text, "(bad)"):
			faults = append(faults, "not an instruction: "+ins.text)
		case evex && !r.evex:
			faults = append(faults, "EVEX: "+ins.text)
		case vex && !r.vex:
			faults = append(faults, "VEX: "+ins.text)
		case ymm && !r.ymm, zmm && !r.zmm:
			faults = append(faults, "too wide: "+ins.text)
		case r.vex && !vex && !evex && strings.Contains(ins.text, "%xmm"):
			faults = append(faults, "SSE among VEX: "+ins.text)
		case strings.HasPrefix(ins.text, "ret") && wide && (i == 0 || code[i-1].text != "vzeroupper"):
			faults = append(faults, "no vzeroupper before "+ins.text)
		}
	}
	if last := code[len(code)-1].text; !strings.HasPrefix(last, "ret") {
		faults = append(faults, "ends in "+last)
	}
	return faults
}

func TestMachineCode(t *testing.T) {
	objdump := testenv.Tool(t, "objdump")
	binary, symbols := kernelBinary(t)
	disassembled := map[string][]machineInstruction{}
	for _, name := range generatedAssembly(t) {
		text, err := os.ReadFile(filepath.Join(asmFolder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range textDirective.FindAllStringSubmatch(string(text), -1) {
			function := m[1]
			level := "" // of what only measures
			if m := kernelName.FindStringSubmatch(function); m != nil {
				level = m[1]
			}
			rule, ok := machineRules[level]
			switch {
			case !ok && strings.HasPrefix(name, "xts_"):
				t.Errorf("%s: no rule for %s", name, function)
				continue
			case function == "expandKey" || strings.HasSuffix(function, "Limit128"): // run wherever AES-NI is
				rule = machineRules["AESNI4"]
			case !ok:
				rule = machineRules["VAES512"]
			}
			symbol, ok := symbols[function]
			if !ok { // the linker left it out, as nothing there calls it
				if strings.HasPrefix(name, "xts_") {
					t.Errorf("%s is not in the binary", function)
				}
				continue
			}
			code := disassemble(t, objdump, binary, symbol)
			disassembled[function] = code
			for _, fault := range rule.breaks(code) {
				t.Errorf("%s: %s", function, fault)
			}
		}
	}
	// The rules find what they are there for: no level passes as a lesser one.
	for _, c := range []struct{ function, as, fault string }{
		{"encryptVAES512", "AESNI4", "VEX: "}, {"encryptVAES512", "AVX", "EVEX: "}, {"encryptVAES512", "VAESAVX2", "EVEX: "},
		{"encryptVAES512", "VAES256", "too wide: "}, {"encryptAESNI4", "VAES256", "SSE among VEX: "},
	} {
		faults := strings.Join(machineRules[c.as].breaks(disassembled[c.function]), "\n")
		if !strings.Contains("\n"+faults, "\n"+c.fault) {
			t.Errorf("%s passes as %s", c.function, c.as)
		}
	}
	bare := []machineInstruction{{0xc5, "vpxor %ymm0,%ymm0,%ymm0"}, {0xc3, "ret"}}
	if len(machineRules["VAESAVX2"].breaks(bare)) != 1 || len(machineRules["VAESAVX2"].breaks(bare[:1])) != 1 {
		t.Error("a return without vzeroupper, or no return, is not found")
	}
}
