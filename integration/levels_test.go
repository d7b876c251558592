//go:build linux

package integration

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// availableLevels asks the program which levels run here.
func availableLevels(b *bench) []string {
	b.tb.Helper()
	var v struct {
		Levels []string
		Level  string
	}
	if err := json.Unmarshal(b.run(program, "version", "--json"), &v); err != nil {
		b.tb.Fatal(err)
	}
	if !slices.Contains(v.Levels, "generic") || !slices.Contains(v.Levels, v.Level) {
		b.tb.Fatalf("levels %v, chosen %q", v.Levels, v.Level)
	}
	return v.Levels
}

// The program must see every level that the kernel says this CPU can run.
func TestLevelsOfThisCPU(t *testing.T) {
	b := newBench(t)
	levels := availableLevels(b)
	for name, flags := range map[string][]string{
		"aesni4":  {"aes"},
		"vaes512": {"aes", "vaes", "vpclmulqdq", "avx512f", "avx512bw", "avx512vl", "avx512dq", "bmi2"},
	} {
		if got, want := slices.Contains(levels, name), cpuHas(flags...); got != want {
			t.Errorf("%s: available %v, and /proc/cpuinfo says %v", name, got, want)
		}
	}
}

// cpuHas reads the kernel's list of CPU features, an opinion independent of
// the program's own detection.
func cpuHas(flags ...string) bool {
	if runtime.GOARCH != "amd64" {
		return false
	}
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if name, list, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "flags" {
			have := strings.Fields(list)
			return !slices.ContainsFunc(flags, func(f string) bool { return !slices.Contains(have, f) })
		}
	}
	return false
}
