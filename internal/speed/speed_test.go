package speed

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/xts"
)

// All peers of a case do the same work: the same bytes come out.
func TestBodiesDoTheSameWork(t *testing.T) {
	for _, units := range []bool{false, true} {
		want := map[Case][]byte{}
		for _, c := range Matrix(nil, []int{128, 192, 256}, []int{16, 512, 1420, 4096, 65536}, units) {
			body, err := c.NewBody(c.Batch())
			if err != nil {
				t.Fatal(err)
			}
			if body.Bytes%c.Size != 0 || body.Bytes != len(body.buf) {
				t.Errorf("%v: %d bytes", c, body.Bytes)
			}
			body.Call()
			if bytes.Equal(body.buf, make([]byte, body.Bytes)) {
				t.Errorf("%v: the buffer is as it was", c)
			}
			peer := c
			peer.Level = ""
			if want[peer] == nil {
				want[peer] = body.buf
			} else if !bytes.Equal(body.buf, want[peer]) {
				t.Errorf("%v gives other bytes than its peers", c)
			}
		}
	}
}

func TestBodyErrors(t *testing.T) {
	for _, c := range []Case{{Level: "fastest", KeyBits: 256, Size: 512}, {Level: XCrypto, KeyBits: 256, Size: 1420, Units: true}} {
		if _, err := c.NewBody(1 << 15); err == nil {
			t.Errorf("%v: no error", c)
		}
		if _, err := Measure(t.Context(), []Case{c}, Config{}); err == nil {
			t.Errorf("%v: measured", c)
		}
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		v       []float64
		q, want float64
	}{
		{[]float64{3}, 0.25, 3},
		{[]float64{5, 1, 3}, 0.5, 3},
		{[]float64{4, 1, 2, 3}, 0.5, 2.5},
		{[]float64{4, 0, 2, 3, 1}, 0.25, 1},
		{[]float64{4, 0, 2, 3, 1}, 1, 4},
	} {
		if got := quantile(c.v, c.q); got != c.want {
			t.Errorf("quantile %v of %v: %v, want %v", c.q, c.v, got, c.want)
		}
	}
	if !math.IsNaN(quantile(nil, 0.5)) {
		t.Error("nothing has a median")
	}
}

// sampleAt is a sample whose limits lie at shares of a known 4 bytes a cycle,
// on a clock of 2 GHz.
func sampleAt(bytesPerNS, before, after float64) sample {
	return sample{bytesPerNS: bytesPerNS, before: limit{8 * before, 2}, after: limit{8 * after, 2}}
}

// Only samples between two undisturbed limits count, and the result says how
// many they were.
func TestInvalidSamplesAreLeftOut(t *testing.T) {
	task := &task{c: Case{Level: "generic", KeyBits: 256}, hasLimit: true, known: 4, samples: []sample{
		sampleAt(4, 1, 1), sampleAt(4, 0.98, 1.02), sampleAt(6, 1, 1),
		sampleAt(100, 0.96, 1), sampleAt(100, 1, 0.9), sampleAt(1, 1.04, 1),
	}}
	r := task.result()
	if r.Valid != 3 || r.Taken != 6 || !r.Counts() || r.KnownIsSeen {
		t.Errorf("%+v", r)
	}
	if r.Fraction.Median != 0.5 || r.MBPerS.Median != 4000 || r.BytesPerCycle.Median != 2 || r.Limit != 4 {
		t.Errorf("%+v", r)
	}
	task.samples = task.samples[2:]
	if r := task.result(); r.Valid != 1 || r.Counts() {
		t.Errorf("one valid sample of four counts: %+v", r)
	}
	task.samples = task.samples[1:]
	if r := task.result(); r.Valid != 0 || r.Counts() || r.MBPerS.Median != 100000 {
		t.Errorf("without a valid sample: %+v", r)
	}
}

// Where the limit is not known, the best seen is what others are held to.
func TestBestSeenStandsIn(t *testing.T) {
	task := &task{c: Case{Level: "generic", KeyBits: 256}, hasLimit: true}
	for range 8 {
		task.samples = append(task.samples, sampleAt(4, 1, 1))
	}
	task.samples = append(task.samples, sampleAt(2, 0.5, 0.5))
	r := task.result()
	if !r.KnownIsSeen || r.Known != 4 || r.Valid != 8 || r.Taken != 9 || !r.Counts() {
		t.Errorf("%+v", r)
	}
}

func TestKnownStarts(t *testing.T) {
	for _, c := range []struct {
		vendor        string
		family, model uint32
		starts512     float64
	}{
		{"GenuineIntel", 6, 0xcf, 1},
		{"AuthenticAMD", 0x1a, 0x02, 2},
		{"AuthenticAMD", 0x19, 0x11, 0}, // known from tables only
		{"GenuineIntel", 6, 0x55, 0},
		{"", 0, 0, 0},
	} {
		if got := knownStarts(c.vendor, c.family, c.model)[512]; got != c.starts512 {
			t.Errorf("%s %#x %#x: %v, want %v", c.vendor, c.family, c.model, got, c.starts512)
		}
	}
}

func TestMeasure(t *testing.T) {
	cases := Matrix([]string{"generic"}, []int{256}, []int{512}, false)
	results, err := Measure(t.Context(), cases, Config{Samples: 2, SampleTime: time.Microsecond, Batch: 1024})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(cases) || len(cases) != 4 {
		t.Fatalf("%d results of %d cases", len(results), len(cases))
	}
	for i, r := range results {
		if r.Case != cases[i] || r.Taken < 2 || r.MBPerS.Median <= 0 {
			t.Errorf("%+v", r)
		}
	}
	var table strings.Builder
	if err := WriteTable(&table, results); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{XCrypto, "generic", "encrypt", "decrypt", "run 512", "1.0x"} {
		if !strings.Contains(table.String(), word) {
			t.Errorf("%q is not in the table:\n%s", word, table.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, cases, Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A table says when a line does not count, and never prints NaN.
func TestTableOfInvalid(t *testing.T) {
	nan := math.NaN()
	none := Quartiles{nan, nan, nan}
	var table strings.Builder
	err := WriteTable(&table, []Result{
		{Case: Case{Level: "disturbed"}, MBPerS: Quartiles{1, 1, 1}, Limit: 1, Known: 2, Valid: 1, Taken: 9},
		{Case: Case{Level: "unmeasured", Units: true}, MBPerS: Quartiles{1, 1, 1}, BytesPerCycle: none, Fraction: none, Limit: nan, Valid: 9, Taken: 9},
		{Case: Case{Level: "unlisted"}, MBPerS: Quartiles{1, 1, 1}, Limit: 1, Known: 1, KnownIsSeen: true, Valid: 9, Taken: 9},
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(table.String(), "\n")
	for i, word := range map[int]string{2: "1/9: DOES NOT COUNT", 3: "no limit here", 4: "unknown, best seen 1.000"} {
		if !strings.Contains(lines[i], word) {
			t.Errorf("%q is not in line %q", word, lines[i])
		}
	}
	if strings.Contains(table.String(), "NaN") {
		t.Error(table.String())
	}
}

func TestMatrixLeavesOutWhatPeersLack(t *testing.T) {
	for _, c := range Matrix(xts.Levels(), []int{256}, []int{512, 1420}, true) {
		if c.Level == XCrypto && c.Size == 1420 {
			t.Error("x/crypto/xts has no ciphertext stealing")
		}
	}
	for _, c := range Matrix(nil, []int{256}, []int{512, 1420}, false) {
		if c.Size == 1420 {
			t.Error("a run of sectors of 1420 bytes")
		}
	}
}
