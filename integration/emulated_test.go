//go:build linux

package integration

import (
	"bytes"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// emulated lists CPUs of qemu-user, which does their instructions in software:
// one that a CPU lacks faults. runs are the levels that can run on it, beside
// generic; the last is the one to choose.
var emulated = []struct {
	cpu  string
	runs []string
}{
	{"Conroe", nil},
	{"Westmere", []string{"aesni4", "aesni"}},
	{"Westmere,-pclmulqdq", []string{"aesni4"}},
	{"SandyBridge", []string{"aesni4", "aesni", "avx"}},
	{"Haswell", []string{"aesni4", "aesni", "avx"}},
	{"max,-xsave", []string{"aesni4", "aesni"}}, // the state of AVX is off
	{"max,+vaes,-vpclmulqdq", []string{"aesni4", "aesni", "avx"}},
	{"max,-vaes,+vpclmulqdq", []string{"aesni4", "aesni", "avx"}},
	{"max,+vaes,+vpclmulqdq", []string{"aesni4", "aesni", "avx", "vaes-avx2"}},
	{"max,+vaes,+vpclmulqdq,+avx512f,+avx512bw,+avx512vl,+avx512dq",
		[]string{"aesni4", "aesni", "avx", "vaes-avx2", "vaes256", "vaes512"}},
}

// notEmulated finds qemu's words for what it leaves out of a CPU, where it
// matters here.
var notEmulated = regexp.MustCompile(`doesn't support requested feature: \S+\.(pclmulqdq|aes|avx|avx2|bmi2|vaes|vpclmulqdq|avx512\w+) \[`)

// The program on other processors: it sees what they have, chooses the best of
// it, and with each level writes what this processor reads, and reads what this
// processor wrote.
func TestEmulatedProcessors(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is not built for amd64 here")
	}
	qemu := testenv.Tool(t, "qemu-x86_64-static")
	b := newBench(t)
	untried := versionOf(b).built()
	built := slices.Clone(untried)
	plain := random(300<<10+512, 11) // two calls of a kernel and more
	b.write("plain", plain)
	b.xtsdisk(append([]string{"--level", "generic", "encrypt", "plain", "volume"}, cheapKDF...)...)
	for _, e := range emulated {
		t.Run(e.cpu, func(t *testing.T) {
			b := *b
			b.tb = t
			out, err := exec.Command(qemu, "-cpu", e.cpu, program, "--version").CombinedOutput()
			if m := notEmulated.FindSubmatch(out); m != nil {
				t.Skipf("this qemu does not emulate %s", m[1])
			} else if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			want := []string{"generic"}
			for _, l := range e.runs {
				if slices.Contains(built, l) {
					want = append(want, l)
				}
			}
			v := versionOf(&b, qemu, "-cpu", e.cpu)
			if !slices.Equal(v.Levels, want) || v.Level != want[len(want)-1] {
				t.Errorf("levels %v, chosen %s; want %v and the last", v.Levels, v.Level, want)
			}
			for _, level := range v.Levels {
				run := func(args ...string) []byte {
					return b.run(qemu, append([]string{"-cpu", e.cpu, program, "--level", level, "--passphrase-file", b.pass}, args...)...)
				}
				if got := run("cat", "volume"); !bytes.Equal(got, plain) {
					t.Errorf("%s reads something else: %s", level, firstDifference(got, plain))
				}
				run(append([]string{"encrypt", "plain", "emulated", "--force"}, cheapKDF...)...)
				if got := b.xtsdisk("--level", "generic", "cat", "emulated"); !bytes.Equal(got, plain) {
					t.Errorf("%s wrote something else: %s", level, firstDifference(got, plain))
				}
				untried = slices.DeleteFunc(untried, func(l string) bool { return l == level })
			}
		})
	}
	if len(untried) > 0 {
		t.Run("others", func(t *testing.T) {
			t.Skipf("on no CPU that this qemu emulates: %s", strings.Join(untried, ", "))
		})
	}
}
