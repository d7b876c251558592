//go:build !purego

package asm

import (
	"fmt"
	"strings"
)

// The choice of a level. It is made once, at the first use (see Default).

func missing(l Level) []string {
	if !built(l) {
		return []string{notInBuild}
	}
	return thisProcessor().missing(l)
}

func bestLevel() (Level, string) { return thisProcessor().best(built) }

// wide256 lists the microarchitectures on which 256-bit vectors beat 512-bit
// ones though both are there: the first that had both, Sunny Cove and Willow
// Cove, lower the clock of the whole core while it uses 512-bit vectors, by more
// than the width gains.
//
// All others take 512 bits. Intel's Cypress Cove (Rocket Lake) and Golden Cove
// (Sapphire Rapids) and what follows keep their clock. AMD's Zen 4, and Zen 5
// where it is made for notebooks, do a 512-bit instruction in two passes of 256
// bits: the same AES rounds a cycle from half the instructions, at no other
// clock; Zen 5 elsewhere does it in one. A processor that is not listed is newer
// than the list.
var wide256 = []struct {
	vendor        string
	family, model uint32
	name          string
}{
	{"GenuineIntel", 6, 0x6a, "Ice Lake server"},
	{"GenuineIntel", 6, 0x6c, "Ice Lake server"},
	{"GenuineIntel", 6, 0x7d, "Ice Lake"},
	{"GenuineIntel", 6, 0x7e, "Ice Lake"},
	{"GenuineIntel", 6, 0x9d, "Ice Lake NNP-I"},
	{"GenuineIntel", 6, 0x8c, "Tiger Lake"},
	{"GenuineIntel", 6, 0x8d, "Tiger Lake"},
}

// prefers256 names p's microarchitecture if it is one of wide256.
func (p processor) prefers256() (name string, ok bool) {
	for _, m := range wide256 {
		if p.vendor == m.vendor && p.family == m.family && p.model == m.model {
			return m.name, true
		}
	}
	return "", false
}

// best chooses among the levels in the build, and says why.
func (p processor) best(built func(Level) bool) (Level, string) {
	order := []Level{VAES512, VAES256, VAESAVX2, AVX, AESNI, AESNI4}
	name, narrow := p.prefers256()
	if narrow {
		order[0], order[1] = VAES256, VAES512
	}
	for _, l := range order {
		if !built(l) || !p.runs(l) {
			continue
		}
		if l == VAES256 && narrow {
			return l, fmt.Sprintf("It is the fastest level on this microarchitecture (%s), which lowers its clock for 512-bit vectors.", name)
		}
		return l, "It is the fastest level in this build whose instructions the processor has and the system enables."
	}
	if p.runs(AESNI4) {
		return Generic, "This build has no level whose instructions the processor has and the system enables, so crypto/aes does the work."
	}
	return Generic, "The processor lacks " + strings.Join(p.missing(AESNI4), ", ") + ", so crypto/aes does the work."
}
