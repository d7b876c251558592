//go:build !purego

package asm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// Does time depend on secrets? The other tests read it off the assembly; this
// one measures, as dudect does (Reparaz, Balasch, Verbauwhede, "Dude, is my code
// constant time?", DATE 2017): one class of inputs is always the same and one
// always new, drawn at random for each call, and Welch's t-test tells whether
// their times have different means; on all of them, and with more and more of
// the long times cropped, which are those of interrupts.

// leakAt is the |t| beyond which times differ; dudect's authors take 4.5. A
// leak's t grows with the root of the number of samples, chance's does not, so
// what is beyond it must be so again in a second run.
const leakAt = 5

// timed is something to time: prepare draws an input of either class, and run
// works on it. No branch and no address depends on the class before the time is
// taken: the processor would predict what follows otherwise for either class,
// which can be measured.
type timed struct {
	prepare func(r *rand.Rand, class uint64) // 0: always the same, 1: always new
	run     func()
}

// leak returns the largest |t| of the croppings.
func (f timed) leak(seed uint64, samples int) float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	classes, all := make([]uint64, samples), make([]float64, samples)
	for i := range samples {
		classes[i] = r.Uint64() >> 63
		f.prepare(r, classes[i])
		start := time.Now()
		f.run()
		all[i] = float64(time.Since(start))
	}
	var times [2][]float64
	for i := samples / 20; i < samples; i++ { // without the cold ones
		times[classes[i]] = append(times[classes[i]], all[i])
	}
	slices.Sort(all)
	worst := 0.0
	for crop := range 12 {
		// All, then what is below 1-2^(-k/2): finer where the times are dense.
		below := math.Inf(1)
		if crop > 0 {
			below = all[int(float64(len(all)-1)*(1-math.Exp2(-float64(crop)/2)))]
		}
		if t := welch(upTo(times[0], below), upTo(times[1], below)); !math.IsNaN(t) {
			worst = max(worst, math.Abs(t))
		}
	}
	return worst
}

func upTo(v []float64, limit float64) []float64 {
	return slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return x > limit })
}

// welch is the t statistic of two samples of unequal variances.
func welch(a, b []float64) float64 {
	if len(a) < 100 || len(b) < 100 { // what is left tells nothing
		return math.NaN()
	}
	meanA, varA := moments(a)
	meanB, varB := moments(b)
	return (meanA - meanB) / math.Sqrt(varA/float64(len(a))+varB/float64(len(b)))
}

func moments(v []float64) (mean, variance float64) {
	for _, x := range v {
		mean += x
	}
	mean /= float64(len(v))
	for _, x := range v {
		variance += (x - mean) * (x - mean)
	}
	return mean, variance / float64(len(v)-1)
}

// leaks repeats a measurement that finds something, and tells whether it is
// there again.
func (f timed) leaks(samples int) (t float64, again bool) {
	for seed := range uint64(2) {
		if t = f.leak(seed, samples); t <= leakAt {
			return t, false
		}
	}
	return t, true
}

// workload is a kernel's buffers, at the same places for every input.
type workload struct {
	key       [64]byte
	data, dst []byte
	tweaks    []byte
	size, n   int
	dec       bool
	k         *XTSKey
	l         Level
	secret    []byte // what the classes differ in: data, tweaks or key
}

// prepare gives all inputs random values, and then class 0 zeros in what is
// secret: as special a value as there is.
func (w *workload) prepare(r *rand.Rand, class uint64) {
	for _, input := range [][]byte{w.data, w.tweaks, w.key[:]} {
		for i := range input {
			input[i] = byte(r.Uint64())
		}
	}
	for i := range w.secret {
		w.secret[i] &= -byte(class)
	}
	w.k.Init(w.l, w.key[:])
}

func (w *workload) run() {
	switch {
	case w.size%16 == 0 && w.dec:
		w.k.DecryptTweaked(w.dst, w.data, w.size, w.tweaks)
	case w.size%16 == 0:
		w.k.EncryptTweaked(w.dst, w.data, w.size, w.tweaks)
	case w.dec:
		w.k.Decrypt(w.dst, w.data, (*[16]byte)(w.tweaks))
	default:
		w.k.Encrypt(w.dst, w.data, (*[16]byte)(w.tweaks))
	}
}

func newWorkload(l Level, secret string, size, n int, dec bool) *workload {
	w := &workload{
		data: make([]byte, size*n), dst: make([]byte, size*n), tweaks: make([]byte, 16*n),
		size: size, n: n, dec: dec, k: new(XTSKey), l: l,
	}
	w.secret = map[string][]byte{"data": w.data, "tweak": w.tweaks, "key": w.key[:]}[secret]
	return w
}

// Every level with assembly, in either direction, on a data unit with
// ciphertext stealing and on sectors, for classes of data, tweaks and keys.
func TestTimes(t *testing.T) {
	if os.Getenv("XTSDISK_LONG") == "" {
		t.Skip("minutes of measuring: with XTSDISK_LONG or ci.sh --long only")
	}
	const samples = 100000
	for _, l := range levelsInBuild[1:] {
		t.Run(l.String(), func(t *testing.T) {
			testenv.Feature(t, Supported(l) == nil, l.String())
			for _, secret := range []string{"data", "tweak", "key"} {
				for _, shape := range []struct{ size, n int }{{527, 1}, {112, 5}} {
					both(func(dec bool) {
						w := newWorkload(l, secret, shape.size, shape.n, dec)
						worst, again := timed{w.prepare, w.run}.leaks(samples)
						name := fmt.Sprintf("%s, %d of %d bytes, decrypting %t", secret, shape.n, shape.size, dec)
						t.Logf("%s: |t| at most %.1f", name, worst)
						if again {
							t.Errorf("%s: time depends on it: |t| is %.1f", name, worst)
						}
					})
				}
			}
		})
	}
}

// The measurement finds what it is there for: kernels with a little more in
// them, each of which does something that depends on a secret.
func TestTimesFinds(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("not with -short: a second of measuring, of what emulators and the race detector blur")
	}
	testenv.Feature(t, Supported(AESNI4) == nil, "aesni4")
	for name, leaky := range map[string]struct {
		secret string
		more   func(w *workload)
	}{
		"a branch on the carry of each doubling": {"tweak", func(w *workload) {
			lo, hi := binary.LittleEndian.Uint64(w.tweaks), binary.LittleEndian.Uint64(w.tweaks[8:])
			for range w.size / 16 {
				carry := hi >> 63
				hi, lo = hi<<1|lo>>63, lo<<1
				if carry != 0 {
					lo ^= 0x87
					sunk++
				}
			}
			sunk += int(lo ^ hi)
		}},
		"a comparison that ends early": {"data", func(w *workload) {
			for i := 0; i < len(w.data) && w.data[i] == 0; i++ {
				sunk++
			}
		}},
		"table lookups by bytes of the key": {"key", func(w *workload) {
			for _, b := range w.key {
				sunk += int(farTable[int(b)<<14])
			}
		}},
	} {
		w := newWorkload(AESNI4, leaky.secret, 527, 1, false)
		f := timed{w.prepare, func() { w.run(); leaky.more(w) }}
		worst, found := f.leaks(10000)
		t.Logf("%s: |t| is %.1f", name, worst)
		if !found {
			t.Errorf("%s: not found, |t| is %.1f", name, worst)
		}
	}
}

var (
	sunk     int
	farTable = bytes.Repeat([]byte{1}, 256<<14) // entries far apart: a cache holds few of them
)
