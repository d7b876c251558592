// Package speed measures the XTS engine: the benchmark bodies that the command
// "xtsdisk bench" and "go test -bench" share, and the method by which a
// throughput means something. A rate in MB/s drifts with the clock; what is
// told beside it is the fraction of the AES-port limit, measured in the same
// run before and after every sample, and whether that measurement was itself
// undisturbed.
package speed

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"text/tabwriter"

	"github.com/xtsdisk/xtsdisk/xts/asm"
)

// Report measures at every level the sector sizes that matter most, and small
// batches, quickly, and prints the table: about a second a level.
func Report(ctx context.Context, w io.Writer) error {
	cases := Matrix(nil, []int{128, 256}, []int{512, 4096}, false)
	cases = append(cases, InBatches(withoutPeers(Matrix(nil, []int{256}, []int{512}, false)), 4096)...)
	results, err := Measure(ctx, cases, Config{})
	if err != nil {
		return err
	}
	return WriteTable(w, results)
}

// withoutPeers leaves out what has one sector a call whatever the batch.
func withoutPeers(cases []Case) []Case {
	return slices.DeleteFunc(cases, func(c Case) bool { return c.Level == XCrypto })
}

// WriteTable prints results as a table for people.
func WriteTable(w io.Writer, results []Result) error {
	vendor, family, model := asm.Processor()
	_, err := fmt.Fprintf(w, "%s/%s %s family %#x model %#x; fraction: of the AES-port limit measured around each sample (quartiles)\n",
		runtime.GOOS, runtime.GOARCH, vendor, family, model)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "level\taes\tdirection\tbytes\tMB/s\tB/cycle\tfraction\tquartiles\tx/crypto\tlimit B/cycle\tknown\tvalid\t")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%.0f\t%s\t%s\t%s-%s\t%s\t%s\t%s\t%s\t\n",
			r.Case.Level, r.Case.KeyBits, r.Case.direction(), r.Case.shape(), r.MBPerS.Median,
			number(r.BytesPerCycle.Median, 2), number(r.Fraction.Median, 3),
			number(r.Fraction.Low, 3), number(r.Fraction.High, 3),
			overPeer(r, results), number(r.Limit, 3), known(r), validity(r))
	}
	return table.Flush()
}

// overPeer tells how many times x/crypto/xts's rate in the same run a result
// is.
func overPeer(r Result, all []Result) string {
	peer := r.Case
	peer.Level, peer.BatchBytes = XCrypto, 0 // whose calls take a sector whatever the batch
	if x, ok := find(all, peer); ok {
		return fmt.Sprintf("%.1fx", r.MBPerS.Median/x.MBPerS.Median)
	}
	return "-"
}

func known(r Result) string {
	switch {
	case math.IsNaN(r.Limit):
		return "-"
	case r.KnownIsSeen:
		return fmt.Sprintf("unknown, best seen %.3f", r.Known)
	}
	return fmt.Sprintf("%.3f", r.Known)
}

func validity(r Result) string {
	switch {
	case math.IsNaN(r.Limit):
		return "no limit here"
	case !r.Counts():
		return fmt.Sprintf("%d/%d: DOES NOT COUNT", r.Valid, r.Taken)
	}
	return fmt.Sprintf("%d/%d", r.Valid, r.Taken)
}

func number(v float64, digits int) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, v)
}
