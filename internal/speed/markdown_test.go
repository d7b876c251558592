package speed

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func resultOf(c Case, fraction float64, valid int) Result {
	return Result{Case: c, MBPerS: Quartiles{Median: 1000 * fraction}, Fraction: Quartiles{Median: fraction},
		BytesPerCycle: Quartiles{Median: 2 * fraction}, Limit: 2, Known: 2, Valid: valid, Taken: 10}
}

// The tables of docs/benchmarking.md: every round in its cell, what does not
// count in brackets, small batches as a share of large ones.
func TestMarkdown(t *testing.T) {
	large := Case{Level: "quick", KeyBits: 256, Size: 512}
	peer := Case{Level: XCrypto, KeyBits: 256, Size: 512}
	small := InBatches([]Case{large}, 4096)[0]
	other := Case{Level: "quick", KeyBits: 256, Size: 4096}
	if large.BatchBytes != 0 || small.Batch() != 4096 || small.String() != "quick/encrypt/aes256/run512/batch4096" {
		t.Errorf("%v, %v", large, small)
	}
	rounds := [][]Result{
		{resultOf(peer, 0.1, 9), resultOf(large, 0.8, 9), resultOf(small, 0.76, 9), resultOf(other, 1, 9)},
		{resultOf(peer, 0.2, 9), resultOf(large, 0.6, 9), resultOf(small, 0.54, 4), resultOf(other, math.NaN(), 9)},
	}
	var table strings.Builder
	if err := WriteMarkdown(&table, rounds, false); err != nil {
		t.Fatal(err)
	}
	const want = `| level | direction | AES | run 512 | run 512 in 4096 | run 4096 |
|-|-|-|-|-|-|
| ` + "`x/crypto/xts`" + ` | encrypt | 256 | .100 .200 | – | – |
| ` + "`quick`" + ` | encrypt | 256 | .800 .600 | .950 (.900) | 1.000 – |
`
	if table.String() != want {
		t.Errorf("%s\nwant\n%s", table.String(), want)
	}
	table.Reset()
	if err := WriteMarkdown(&table, rounds, true); err != nil {
		t.Fatal(err)
	}
	wide := 2.0
	if k := knownLimit(widest(), 14); k != 0 {
		wide = k
	}
	if cell := figure(2*0.8/wide, true); !strings.Contains(table.String(), "| "+cell+" ") {
		t.Errorf("of the widest limit, %s is missing:\n%s", cell, table.String())
	}
	table.Reset()
	if err := WriteRatios(&table, rounds); err != nil || table.String() != "`quick`: 2.7 to 8.0 times x/crypto/xts\n" {
		t.Errorf("%q, %v", table.String(), err)
	}
}

// A peer's rate is converted from its own clock to that of the limit loop, and
// does not count when its clock was not steady.
func TestPeer(t *testing.T) {
	s := sampleAt(4, 1, 1).onClockOf(Elsewhere{Before: 4, After: 4})
	if s.bytesPerNS != 2 || !s.isValid(4) {
		t.Errorf("on a core with twice the clock: %+v", s)
	}
	for _, w := range []Elsewhere{{}, {Before: 1, After: 2}, {Before: 2, After: 1}} {
		if s := sampleAt(4, 1, 1).onClockOf(w); s.isValid(4) {
			t.Errorf("%+v counts", w)
		}
	}
	fault := errors.New("the peer is gone")
	asked := 0
	peers := map[string]Peer{"peer": func(c Case, bytes, calls int) (Elsewhere, error) {
		if asked++; asked > 4 {
			return Elsewhere{}, fault
		}
		if bytes != 4096 {
			t.Errorf("a peer is given %d bytes", bytes)
		}
		return Elsewhere{time.Duration(calls) * time.Millisecond, 2, 2}, nil
	}}
	cases := []Case{{Level: "peer", KeyBits: 256, Size: 512, BatchBytes: 4500}}
	results, err := Measure(t.Context(), cases, Config{Samples: 1, Peers: peers})
	if err != nil || results[0].MBPerS.Median <= 0 {
		t.Errorf("%+v, %v", results, err)
	}
	if _, err := Measure(t.Context(), cases, Config{Samples: 9, Peers: peers}); !errors.Is(err, fault) {
		t.Errorf("a peer that fails: %v", err)
	}
}
