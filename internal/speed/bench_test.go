package speed

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// BenchmarkXTS runs every case as an ordinary benchmark, for benchstat.
func BenchmarkXTS(b *testing.B) {
	cases := Matrix(nil, []int{128, 256}, []int{512, 4096}, false)
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
var fractionsOnce, reportOnce sync.Once

// BenchmarkFractions prints the whole table of fractions:
//
//	go test ./internal/speed -run '^$' -bench Fractions -benchtime 1x
func BenchmarkFractions(b *testing.B) {
	fractionsOnce.Do(func() {
		cases := Matrix(nil, []int{128, 192, 256}, []int{16, 64, 256, 512, 1024, 2048, 4096, 16384, 65536}, false)
		cases = append(cases, Matrix(nil, []int{128, 256}, []int{16, 64, 256, 512, 1024, 1420, 2048, 4096, 16384, 65536}, true)...)
		results, err := Measure(b.Context(), cases, Config{})
		if err != nil {
			b.Fatal(err)
		}
		fmt.Println()
		if err := WriteTable(os.Stdout, results); err != nil {
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
