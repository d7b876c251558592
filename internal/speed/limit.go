package speed

import (
	"math"
	"time"

	"github.com/xtsdisk/xtsdisk/xts/asm"
)

// The AES-port limit is what a loop of independent AES rounds reaches with
// data and keys in registers: no code encrypts faster. Its unit is bytes per
// clock cycle, and cycles are counted by a chain of dependent additions, one
// cycle each, since no counter in reach counts cycles of a clock that changes.

// limit is one measurement of the limit and the clock.
type limit struct {
	bytesPerNS  float64
	cyclesPerNS float64
}

func (l limit) bytesPerCycle() float64 { return l.bytesPerNS / l.cyclesPerNS }

const (
	chainCycles     = 40000 // 10 µs: long against the clock's resolution, short against a time slice
	limitIterations = 2000  // some 30 µs
	limitRepeats    = 3     // the fastest counts: what disturbs only slows down
)

// measureLimit measures at a vector width in bits. ok is false where there is
// nothing to measure with.
func measureLimit(width, rounds int) (l limit, ok bool) {
	if width == 0 {
		return limit{}, false
	}
	for range limitRepeats {
		start := time.Now()
		asm.AddChain(chainCycles)
		chain := time.Since(start)
		start = time.Now()
		blocks := asm.PortLimit(width, rounds, limitIterations)
		loop := time.Since(start)
		if blocks == 0 || chain <= 0 || loop <= 0 {
			return limit{}, false
		}
		l.cyclesPerNS = max(l.cyclesPerNS, chainCycles/float64(chain.Nanoseconds()))
		l.bytesPerNS = max(l.bytesPerNS, float64(blocks)*16/float64(loop.Nanoseconds()))
	}
	return l, true
}

// A measurement counts if the limit measured before and after it lies this
// close to what the processor is known to reach: then nothing disturbed it,
// and neither the clock nor the ports were shared.
const leastValid, mostValid = 0.97, 1.03

func (l limit) valid(known float64) bool {
	r := l.bytesPerCycle() / known
	return r >= leastValid && r <= mostValid
}

// widthOf is the vector width at which a level's fraction is told. crypto/aes,
// below "generic" and x/crypto/xts, works on single blocks of 128 bits.
func widthOf(level string) int {
	if level == XCrypto {
		return 128
	}
	l, err := asm.ParseLevel(level)
	if err != nil {
		return 0
	}
	if l == asm.Generic {
		return 128
	}
	return asm.LimitWidth(l)
}

// startsPerCycle is how many AES rounds on a vector of a width the ports of a
// microarchitecture begin in a cycle.
type startsPerCycle map[int]float64

// knownStarts holds only what was measured. For others the best that the run
// itself saw stands in, which a run disturbed throughout would not notice.
func knownStarts(vendor string, family, model uint32) startsPerCycle {
	switch {
	case vendor == "GenuineIntel" && family == 6 && (model == 0x8f || model == 0xcf):
		return startsPerCycle{128: 2, 256: 2, 512: 1} // Sapphire and Emerald Rapids
	case vendor == "AuthenticAMD" && family == 0x1a && model < 0x20:
		return startsPerCycle{128: 2, 256: 2, 512: 2} // Zen 5, server
	}
	return nil
}

// knownLimit returns the limit in bytes per cycle, 0 if it is not known.
func knownLimit(width, rounds int) float64 {
	starts := knownStarts(asm.Processor())[width]
	return starts * float64(width) / 8 / float64(rounds)
}

// bestSeen is the stand-in where no limit is known: the upper decile, since
// the very best are those whose add chain was the most disturbed.
func bestSeen(limits []limit) float64 {
	var all []float64
	for _, l := range limits {
		all = append(all, l.bytesPerCycle())
	}
	if len(all) == 0 {
		return math.NaN()
	}
	return quantile(all, 0.9)
}
