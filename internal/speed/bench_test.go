package speed

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/xtsdisk/xtsdisk/xts"
)

// What to measure; the levels and shapes for BenchmarkFractions only.
var (
	levelsFlag  = flag.String("levels", "", "levels, and the peers x/crypto/xts and openssl; none: all that are here")
	sizesFlag   = flag.String("sizes", "", "bytes of a sector or data unit; none: many")
	keysFlag    = flag.String("keys", "128,192,256", "bits of the AES key")
	shapesFlag  = flag.String("shapes", "run,unit", "run: sectors, 128 KiB a call; unit: one data unit a call")
	batchFlag   = flag.Int("batch", 0, "bytes a call of a run; 0: 128 KiB")
	samplesFlag = flag.Int("samples", 0, "valid samples wanted of each; 0: 25")
	roundsFlag  = flag.Int("rounds", 3, "of BenchmarkRuns and BenchmarkUnits: figures in each cell of their tables")
)

// BenchmarkXTS runs every case as an ordinary benchmark, for benchstat.
func BenchmarkXTS(b *testing.B) {
	cases := Matrix(nil, []int{128, 256}, []int{512, 4096}, false)
	cases = append(cases, InBatches(withoutPeers(Matrix(nil, []int{256}, []int{512}, false)), 4096)...)
	cases = append(cases, Matrix(nil, []int{256}, []int{16, 64, 256, 512, 1420, 4096}, true)...)
	for _, c := range cases {
		b.Run(c.String(), func(b *testing.B) {
			body, err := c.NewBody(c.Batch())
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(body.Bytes))
			b.ReportAllocs()
			for b.Loop() {
				body.Call()
			}
		})
	}
}

// A table is printed once, however often the framework repeats a benchmark.
var fractionsOnce, runsOnce, unitsOnce, reportOnce sync.Once

// unitSizes are those of single data units that tables tell: from one block to
// 64 KiB, and one with ciphertext stealing.
var unitSizes = []int{16, 64, 256, 512, 1024, 1420, 2048, 4096, 16384, 65536}

// BenchmarkFractions prints the whole table of fractions, or of what flags say:
//
//	go test ./internal/speed -run '^$' -bench Fractions -benchtime 1x -args -levels vaes512,openssl -keys 256 -sizes 512,4096 -shapes run
func BenchmarkFractions(b *testing.B) {
	fractionsOnce.Do(func() {
		levels, peers := everyone(b)
		wanted := append([]string{XCrypto}, levels...)
		if *levelsFlag != "" {
			wanted = strings.Split(*levelsFlag, ",")
		}
		keys, sizes := integers(b, *keysFlag), integers(b, *sizesFlag)
		if len(sizes) == 0 {
			sizes = unitSizes
		}
		var cases []Case
		if strings.Contains(*shapesFlag, "run") {
			cases = InBatches(Matrix(levels, keys, sizes, false), *batchFlag)
		}
		if strings.Contains(*shapesFlag, "unit") {
			cases = append(cases, Matrix(levels, keys, sizes, true)...)
		}
		cases = slices.DeleteFunc(cases, func(c Case) bool {
			return !slices.Contains(wanted, c.Level) || c.Level == openSSL && c.KeyBits == 192
		})
		results := measure(b, cases, peers)
		fmt.Println()
		if err := WriteTable(os.Stdout, results); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkRuns prints the table of runs of sectors of docs/benchmarking.md,
// measured three times:
//
//	go test ./internal/speed -run '^$' -bench Runs -benchtime 1x
func BenchmarkRuns(b *testing.B) {
	runsOnce.Do(func() {
		levels, peers := everyone(b)
		cases := Matrix(levels, []int{256, 128}, []int{512, 4096}, false)
		small := InBatches(withoutPeers(Matrix(nil, []int{256, 128}, []int{512}, false)), 4096)
		rounds := inRounds(b, append(cases, small...), peers)
		if err := WriteMarkdown(os.Stdout, rounds, false); err != nil {
			b.Fatal(err)
		}
		fmt.Println()
		if err := WriteRatios(os.Stdout, rounds); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkUnits prints the tables of single data units of
// docs/benchmarking.md, measured three times:
//
//	go test ./internal/speed -run '^$' -bench Units -benchtime 1x
func BenchmarkUnits(b *testing.B) {
	unitsOnce.Do(func() {
		levels, peers := everyone(b)
		rounds := inRounds(b, Matrix(levels, []int{256, 128}, unitSizes, true), peers)
		if err := WriteMarkdown(os.Stdout, rounds, true); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkReport prints the short table:
//
//	go test ./internal/speed -run '^$' -bench Report -benchtime 1x
func BenchmarkReport(b *testing.B) {
	reportOnce.Do(func() {
		fmt.Println()
		if err := Report(b.Context(), os.Stdout); err != nil {
			b.Fatal(err)
		}
	})
}

// everyone is the peers, x/crypto/xts excepted, which Matrix adds, and all
// levels that run here.
func everyone(b *testing.B) (levels []string, peers map[string]Peer) {
	levels = xts.Levels()
	p, err := startOpenSSL(b)
	if err != nil {
		b.Logf("without OpenSSL: %v", err)
		return levels, nil
	}
	return append([]string{openSSL}, levels...), map[string]Peer{openSSL: p.time}
}

func measure(b *testing.B, cases []Case, peers map[string]Peer) []Result {
	results, err := Measure(b.Context(), cases, Config{Samples: *samplesFlag, Peers: peers})
	if err != nil {
		b.Fatal(err)
	}
	return results
}

func inRounds(b *testing.B, cases []Case, peers map[string]Peer) (rounds [][]Result) {
	for range *roundsFlag {
		rounds = append(rounds, measure(b, cases, peers))
	}
	fmt.Println()
	return rounds
}

func integers(b *testing.B, list string) (values []int) {
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		v, err := strconv.Atoi(word)
		if err != nil {
			b.Fatal(err)
		}
		values = append(values, v)
	}
	return values
}
