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

// versionOf is what the program says of itself, run by a command that may stand
// before it, such as an emulator.
func versionOf(b *bench, before ...string) (v version) {
	b.tb.Helper()
	command := append(before, program, "version", "--json")
	if err := json.Unmarshal(b.run(command[0], command[1:]...), &v); err != nil {
		b.tb.Fatal(err)
	}
	if !slices.Contains(v.Levels, "generic") || !slices.Contains(v.Levels, v.Level) {
		b.tb.Fatalf("levels %v, chosen %q", v.Levels, v.Level)
	}
	for _, l := range v.All {
		if runs := slices.Contains(v.Levels, l.Name); l.Runs != runs || runs != (len(l.Missing) == 0) {
			b.tb.Errorf("levels %v, and of one of them %+v", v.Levels, l)
		}
	}
	return v
}

type version struct {
	Levels []string
	Level  string
	All    []struct {
		Name    string
		Runs    bool
		Missing []string
	} `json:"all_levels"`
}

// built is the levels whose code is in the program.
func (v version) built() (names []string) {
	for _, l := range v.All {
		if !slices.ContainsFunc(l.Missing, func(m string) bool { return strings.Contains(m, "in this build") }) {
			names = append(names, l.Name)
		}
	}
	return names
}

// availableLevels asks the program which levels run here.
func availableLevels(b *bench) []string {
	b.tb.Helper()
	return versionOf(b).Levels
}

// levelFlags is what a level needs, by the kernel's names.
var levelFlags = map[string]string{
	"aesni4":    "aes ssse3",
	"aesni":     "aes ssse3 pclmulqdq",
	"avx":       "aes pclmulqdq avx",
	"vaes-avx2": "aes pclmulqdq avx avx2 vaes vpclmulqdq",
	"vaes256":   "aes pclmulqdq avx avx2 vaes vpclmulqdq avx512f avx512bw avx512vl avx512dq bmi2",
	"vaes512":   "aes pclmulqdq avx avx2 vaes vpclmulqdq avx512f avx512bw avx512vl avx512dq bmi2",
}

// The program must see every level that the kernel says this CPU can run.
func TestLevelsOfThisCPU(t *testing.T) {
	v := versionOf(newBench(t))
	for name, flags := range levelFlags {
		if !slices.Contains(v.built(), name) {
			continue
		}
		if got, want := slices.Contains(v.Levels, name), cpuHas(strings.Fields(flags)...); got != want {
			t.Errorf("%s: available %v, and /proc/cpuinfo says %v", name, got, want)
		}
	}
}

// cpuHas reads the kernel's list of CPU features, an opinion independent of
// the program's own detection. Every core must have them.
func cpuHas(flags ...string) bool {
	if runtime.GOARCH != "amd64" {
		return false
	}
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return false
	}
	cores := 0
	for line := range strings.Lines(string(data)) {
		if name, list, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "flags" {
			have := strings.Fields(list)
			if slices.ContainsFunc(flags, func(f string) bool { return !slices.Contains(have, f) }) {
				return false
			}
			cores++
		}
	}
	return cores > 0
}
