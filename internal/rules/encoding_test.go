package rules

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// A line of objdump: address, bytes in hexadecimal, instruction.
var disassembled = regexp.MustCompile(`^ +[0-9a-f]+:\t([0-9a-f]{2}) [^\t]*\t(\S+)`)

// Encodings as the assembler chose them, read off the machine code: a VEX one
// faults without AVX, an EVEX one without AVX-512, which no test notices on a
// processor that has them. In 64-bit mode the first byte tells.
func TestEncodingsInBinary(t *testing.T) {
	objdump := testenv.Tool(t, "objdump")
	out, err := exec.Command(objdump, "-d", "--wide", asmBinary(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	function := ""
	for line := range strings.Lines(string(out)) {
		if _, name, ok := strings.Cut(line, "<"+module+"/xts/asm."); ok && strings.HasSuffix(line, ">:\n") {
			function, _, _ = strings.Cut(name, ".")
			function = strings.TrimSuffix(function, ">:\n")
			continue
		}
		m := disassembled.FindStringSubmatch(line)
		if m == nil || !strings.HasPrefix(function, "encrypt") && !strings.HasPrefix(function, "decrypt") {
			continue
		}
		seen[function]++
		vex, evex := m[1] == "c4" || m[1] == "c5", m[1] == "62"
		sse := strings.Contains(function, "AESNI")
		if evex && (sse || strings.Contains(function, "AVX")) || vex && sse {
			t.Errorf("%s: this level has no such encoding: %s", function, strings.TrimSpace(line))
		}
	}
	for _, name := range []string{"encryptAESNI4", "encryptAESNI", "decryptAVX", "decryptAVXWide", "encryptVAES512"} {
		if seen[name] < 100 {
			t.Errorf("%d instructions of %s were read", seen[name], name)
		}
	}
}
