package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	asmFolder      = "../../xts/asm"
	maxKernelBytes = 16 << 10 // of XTS, all functions of a level together
)

// The committed assembly is what the generator makes, byte for byte.
func TestAssemblyUpToDate(t *testing.T) {
	if testing.Short() {
		t.Skip("the generator is a module of its own: not built with -short")
	}
	dir := t.TempDir()
	cmd := exec.Command("go", "-C", filepath.Join(asmFolder, "_gen"), "run", ".", "-dir", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("run the generator: %v\n%s", err, out)
	}
	made, err := os.ReadDir(dir)
	if err != nil || len(made) == 0 {
		t.Fatalf("the generator made nothing: %v", err)
	}
	for _, file := range made {
		want, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(asmFolder, file.Name()))
		if err != nil || string(got) != string(want) {
			t.Errorf("xts/asm/%s is not what the generator makes; run: go generate ./xts/asm (%v)", file.Name(), err)
		}
	}
	for _, name := range generatedAssembly(t) {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s says that it is generated, but the generator does not make it", name)
		}
	}
}

// A reader finds his way: each kernel has a map of its registers and a comment
// for each section.
func TestAssemblyCommented(t *testing.T) {
	const linesPerSection = 100
	for _, name := range generatedAssembly(t) {
		text, err := os.ReadFile(filepath.Join(asmFolder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, function := range strings.Split(string(text), "\nTEXT ")[1:] {
			symbol, _, _ := strings.Cut(function, "(")
			if !strings.Contains(function, "// Registers:\n") {
				t.Errorf("%s: %s has no register map", name, symbol)
			}
			lines, sections := strings.Count(function, "\n"), strings.Count(function, "\t// -- ")
			if sections*linesPerSection < lines-linesPerSection {
				t.Errorf("%s: %s has %d section comments in %d lines", name, symbol, sections, lines)
			}
		}
	}
}

func generatedAssembly(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(asmFolder, "*.s"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(text), "// Code generated") {
			names = append(names, filepath.Base(file))
		}
	}
	if len(names) == 0 {
		t.Fatal("no generated assembly found")
	}
	return names
}

var textDirective = regexp.MustCompile(`(?m)^TEXT ·(\w+)\(SB\)`)

// The machine code of a level stays small, so that it fits the instruction
// cache beside other work.
func TestKernelBytes(t *testing.T) {
	_, symbols := kernelBinary(t)
	for _, name := range generatedAssembly(t) {
		if !strings.HasPrefix(name, "xts_") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(asmFolder, name))
		if err != nil {
			t.Fatal(err)
		}
		var total uint64
		for _, m := range textDirective.FindAllStringSubmatch(string(text), -1) {
			symbol, ok := symbols[m[1]]
			if !ok {
				t.Errorf("%s: no symbol %s in the binary", name, m[1])
			}
			total += symbol.Size
		}
		t.Logf("%s: %d bytes of code", name, total)
		if total > maxKernelBytes {
			t.Errorf("%s: %d bytes of code, at most %d", name, total, maxKernelBytes)
		}
	}
}
