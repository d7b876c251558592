package speed

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/xts"
	"github.com/xtsdisk/xtsdisk/xts/asm"
)

const (
	bulkBytes  = 1 << 30
	bulkChunk  = 128 << 10 // of the xor: as a call of the engine does it
	bulkRounds = 7
)

// BenchmarkBulk compares 1 GiB in place, far more than any cache, with an xor
// in place of the same width and prefetching, in turns; the median counts.
// Where memory is faster than the engine is out of a cache, the engine's rate
// there is the bound that it cannot pass: the lesser of the two.
//
// It does so in pages of 4 KiB, which is what Go's memory is in if Linux is not
// asked for more, and in huge pages. What these gain is mostly that addresses
// next to each other are so in the host's memory too: a huge page that was split
// into small ones again is nearly as fast.
//
//	go test ./internal/speed -run '^$' -bench Bulk -benchtime 1x
func BenchmarkBulk(b *testing.B) {
	for _, pages := range []string{"4k", "huge"} {
		b.Run("pages="+pages, func(b *testing.B) {
			buf := bulkBuffer(b, pages == "huge")
			for _, name := range xts.Levels()[1:] {
				for _, c := range Matrix([]string{name}, []int{256}, []int{512, 4096}, false) {
					if c.Level != XCrypto {
						b.Run(c.String(), func(b *testing.B) { bulk(b, c, buf) })
					}
				}
			}
		})
	}
}

func bulk(b *testing.B, c Case, buf []byte) {
	cipher, err := xts.NewCipher(c.key(), xts.WithLevel(c.Level))
	if err != nil {
		b.Fatal(err)
	}
	work := runCall(cipher, buf, c)
	xor := func() {
		for i := 0; i < len(buf); i += bulkChunk {
			if !asm.Xor(widthOf(c.Level), buf[i:i+bulkChunk]) {
				b.Fatal("no xor of this width here")
			}
		}
	}
	small, err := c.NewBody(c.Batch())
	if err != nil {
		b.Fatal(err)
	}
	cached := func() {
		for range len(buf) / small.Bytes {
			small.Call()
		}
	}
	var ofXor, ofBound, rates []float64
	for b.Loop() {
		for range bulkRounds {
			before, engine, after := timed(xor), timed(work), timed(xor)
			memory := (before + after) / 2
			ofXor = append(ofXor, memory/engine)
			ofBound = append(ofBound, max(memory, timed(cached))/engine)
			rates = append(rates, float64(len(buf))/engine/1e6)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(quantile(rates, 0.5), "MB/s")
	b.ReportMetric(quantile(ofXor, 0.5), "of-xor")
	b.ReportMetric(quantile(ofBound, 0.5), "of-bound")
}

// BenchmarkThreads compares two threads, each in a buffer of its own that
// stays in its cache, with one: the rate of both by the rate of one.
//
//	go test ./internal/speed -run '^$' -bench Threads -benchtime 1x
func BenchmarkThreads(b *testing.B) {
	for _, name := range xts.Levels()[1:] {
		c := Case{Level: name, KeyBits: 256, Size: 512}
		b.Run(c.String(), func(b *testing.B) {
			var ratios []float64
			for b.Loop() {
				for range 2*bulkRounds + 1 {
					ratios = append(ratios, 2*threads(b, c, 1)/threads(b, c, 2))
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(quantile(ratios, 0.5), "of-one")
			b.ReportMetric(slices.Max(ratios), "best-of-one")
		})
	}
}

// threads returns the seconds that n threads take for the same work each.
func threads(b *testing.B, c Case, n int) float64 {
	const calls = 2000 // some 25 ms at 10 GB/s
	bodies := make([]Body, n)
	for i := range bodies {
		var err error
		if bodies[i], err = c.NewBody(c.Batch()); err != nil {
			b.Fatal(err)
		}
		bodies[i].Call()
	}
	return timed(func() {
		var all sync.WaitGroup
		for _, body := range bodies {
			all.Go(func() {
				for range calls {
					body.Call()
				}
			})
		}
		all.Wait()
	})
}

func timed(f func()) float64 {
	start := time.Now()
	f()
	return time.Since(start).Seconds()
}
