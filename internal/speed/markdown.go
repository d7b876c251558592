package speed

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// WriteMarkdown prints the results of rounds of the same cases as a table of
// docs/benchmarking.md: a line for each level, direction and key size, a column
// for each size, and in each cell the rounds' medians. Those are fractions of
// the AES-port limit of the level's own vectors; or with ofWidest, so that
// levels can be compared with each other, of the widest vectors that run here.
// The column of a batch that is not the default tells the share of the default
// batch's speed instead. A figure in brackets does not count: too few of its
// samples were valid.
func WriteMarkdown(w io.Writer, rounds [][]Result, ofWidest bool) error {
	var rows, columns []Case
	for _, r := range rounds[0] {
		row, column := split(r.Case)
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
		if !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
	}
	var text strings.Builder
	text.WriteString("| level | direction | AES |")
	for _, c := range columns {
		text.WriteString(" " + c.shape() + " |")
	}
	text.WriteString("\n|-|-|-|" + strings.Repeat("-|", len(columns)) + "\n")
	for _, row := range rows {
		fmt.Fprintf(&text, "| `%s` | %s | %d |", row.Level, row.direction(), row.KeyBits)
		for _, c := range columns {
			c.Level, c.Decrypt, c.KeyBits = row.Level, row.Decrypt, row.KeyBits
			text.WriteString(" " + cell(rounds, c, ofWidest) + " |")
		}
		text.WriteString("\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// split divides a case into what names a line and what names a column.
func split(c Case) (row, column Case) {
	row = Case{Level: c.Level, Decrypt: c.Decrypt, KeyBits: c.KeyBits}
	column = c
	column.Level, column.Decrypt, column.KeyBits = "", false, 0
	return row, column
}

func cell(rounds [][]Result, c Case, ofWidest bool) string {
	var figures []string
	for _, results := range rounds {
		r, ok := find(results, c)
		if !ok {
			return "–"
		}
		v, counts := r.Fraction.Median, r.Counts()
		if ofWidest {
			v = r.BytesPerCycle.Median / widestKnown(results, c.rounds())
		}
		if c.BatchBytes != 0 {
			large := c
			large.BatchBytes = 0
			l, _ := find(results, large)
			v, counts = v/l.Fraction.Median, counts && l.Counts()
		}
		figures = append(figures, figure(v, counts))
	}
	return strings.Join(figures, " ")
}

func find(results []Result, c Case) (Result, bool) {
	i := slices.IndexFunc(results, func(r Result) bool { return r.Case == c })
	if i < 0 {
		return Result{}, false
	}
	return results[i], true
}

// widestKnown is the limit in bytes per cycle of the widest vectors: known, or
// the best that was seen at any level.
func widestKnown(results []Result, rounds int) float64 {
	best := knownLimit(widest(), rounds)
	if best != 0 {
		return best
	}
	for _, r := range results {
		if r.Case.rounds() == rounds {
			best = max(best, r.Known)
		}
	}
	return best
}

// figure is a fraction without its leading zero.
func figure(v float64, counts bool) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	s := strings.TrimPrefix(fmt.Sprintf("%.3f", v), "0")
	if !counts {
		return "(" + s + ")"
	}
	return s
}

// WriteRatios prints, for each level, the range of how many times the rate of
// golang.org/x/crypto/xts it reached in the same round.
func WriteRatios(w io.Writer, rounds [][]Result) error {
	type span struct{ low, high float64 }
	var levels []string
	spans := map[string]span{}
	for _, results := range rounds {
		for _, r := range results {
			peer := r.Case
			peer.Level, peer.BatchBytes = XCrypto, 0
			x, ok := find(results, peer)
			if !ok || r.Case.Level == XCrypto {
				continue
			}
			ratio := r.MBPerS.Median / x.MBPerS.Median
			s, seen := spans[r.Case.Level]
			if !seen {
				levels = append(levels, r.Case.Level)
				s = span{ratio, ratio}
			}
			spans[r.Case.Level] = span{min(s.low, ratio), max(s.high, ratio)}
		}
	}
	for _, l := range levels {
		if _, err := fmt.Fprintf(w, "`%s`: %.1f to %.1f times %s\n", l, spans[l].low, spans[l].high, XCrypto); err != nil {
			return err
		}
	}
	return nil
}
