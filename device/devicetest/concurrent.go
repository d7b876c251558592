package devicetest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/device"
)

// stripe is the length, in bytes, of what one goroutine owns before the next:
// no multiple or divisor of any sector, so that sectors have several owners.
const stripe = 209

// How long the goroutines go on: a fast device needs many rounds before two
// meet in one sector, a slow one has not the time for as many.
const (
	minRounds, maxRounds = 100, 20_000
	enough               = 300 * time.Millisecond
)

// testConcurrent lets goroutines write into the same sectors, each its own
// bytes only, and wants every one to find what it wrote.
func testConcurrent(t *testing.T, d device.Device) {
	const owners = 6
	fill(t, d)
	want := contents(t, d)
	stripes := int(min(d.Size(), max(4*int64(d.SectorSize()), 4096))) / stripe
	start := time.Now()
	var wg sync.WaitGroup
	errs := make(chan error, owners)
	for owner := range owners {
		wg.Go(func() {
			o := &owned{d: d, want: want, rng: rand.New(rand.NewPCG(uint64(owner), 7))}
			for round := 0; round < minRounds || round < maxRounds && time.Since(start) < enough; round++ {
				at := o.rng.IntN(stripes/owners)*owners + owner
				if err := o.step(int64(at) * stripe); err != nil {
					errs <- fmt.Errorf("goroutine %d: %w", owner, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	compare(t, d, want, "concurrent writes")
}

// owned is what one goroutine does to its own stripes.
type owned struct {
	d    device.Device
	want []byte // only the goroutine's own stripes
	rng  *rand.Rand
}

// step reads, changes and reads the stripe at off.
func (o *owned) step(off int64) error {
	want := o.want[off : off+stripe]
	if err := o.verify(off, want); err != nil {
		return err
	}
	from := o.rng.IntN(stripe)
	part := want[from : from+1+o.rng.IntN(stripe-from)]
	var err error
	switch o.rng.IntN(8) {
	case 0:
		clear(part)
		err = o.d.WriteZeroes(off+int64(from), int64(len(part)))
	case 1:
		err = o.d.Flush()
	default:
		for i := range part {
			part[i] = byte(o.rng.Uint32())
		}
		_, err = o.d.WriteAt(part, off+int64(from))
	}
	if err != nil {
		return err
	}
	return o.verify(off, want)
}

func (o *owned) verify(off int64, want []byte) error {
	got := make([]byte, len(want))
	if n, err := o.d.ReadAt(got, off); n != len(got) || err != nil && err != io.EOF {
		return fmt.Errorf("ReadAt of %d bytes at %d: %d, %w", len(got), off, n, err)
	}
	if !bytes.Equal(got, want) {
		i := firstDifference(got, want)
		return fmt.Errorf("byte %d is %#02x, not %#02x as written", off+int64(i), got[i], want[i])
	}
	return nil
}

// testOverlap lets a small write meet a large one that covers the same sectors
// and wants the large one whole outside the small one.
func testOverlap(t *testing.T, d device.Device) {
	const from, n = 100, 50 // the small write, in a sector or page
	size := int(min(d.Size(), 4*int64(max(d.SectorSize(), 4096))))
	got := make([]byte, size)
	start := time.Now()
	for round := 0; round < minRounds || round < maxRounds && time.Since(start) < enough; round++ {
		large, small := byte(2*round+1), byte(2*round)
		errs := make(chan error, 2)
		go func() {
			_, err := d.WriteAt(bytes.Repeat([]byte{large}, size), 0)
			errs <- err
		}()
		go func() {
			_, err := d.WriteAt(bytes.Repeat([]byte{small}, n), from)
			errs <- err
		}()
		for range 2 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.ReadAt(got, 0); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		for i, b := range got {
			inside := i >= from && i < from+n
			if b != large && !(inside && b == small) {
				t.Fatalf("round %d: byte %d is %#02x after overlapping writes of %#02x and %#02x", round, i, b, large, small)
			}
		}
	}
}
