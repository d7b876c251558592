package luks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// recorder is Storage that keeps its writes in order, in epochs that flushes end.
type recorder struct {
	memory
	epochs [][]write
	// ignored is the number of a flush that is not done, or -1.
	ignored, flushes int
}

type write struct {
	off  int64
	data []byte
}

func newRecorder(start memory, ignored int) *recorder {
	return &recorder{memory: bytes.Clone(start), epochs: [][]write{nil}, ignored: ignored}
}

func (r *recorder) WriteAt(p []byte, off int64) (int, error) {
	last := len(r.epochs) - 1
	r.epochs[last] = append(r.epochs[last], write{off, bytes.Clone(p)})
	return r.memory.WriteAt(p, off)
}

func (r *recorder) Flush() error {
	if r.flushes != r.ignored {
		r.epochs = append(r.epochs, nil)
	}
	r.flushes++
	return nil
}

// crashes calls check with what a crash can leave of the recorded writes on
// start: whole epochs, and of the next one every prefix and many random
// selections of its 512-byte sectors. It stops at the first complaint.
func (r *recorder) crashes(start memory, rng *rand.Rand, check func(memory) error) error {
	durable := memory(bytes.Clone(start))
	for e, epoch := range r.epochs {
		states := prefixes(durable, epoch)
		if len(epoch) > 0 {
			for range tornStates() {
				states = append(states, torn(durable, epoch, rng))
			}
		}
		for i, s := range states {
			if err := check(s); err != nil {
				return fmt.Errorf("epoch %d of %d, state %d: %w", e, len(r.epochs), i, err)
			}
		}
		for _, w := range epoch {
			copy(durable[w.off:], w.data)
		}
	}
	return nil
}

// tornStates is how many random states are tried for each epoch.
func tornStates() int {
	if testing.Short() {
		return 8
	}
	return 40
}

func prefixes(durable memory, epoch []write) []memory {
	states := []memory{durable}
	now := durable
	for _, w := range epoch {
		now = bytes.Clone(now)
		copy(now[w.off:], w.data)
		states = append(states, now)
	}
	return states
}

// torn applies some sectors of some writes, in any order: each write is left
// out, whole, or in part.
func torn(durable memory, epoch []write, rng *rand.Rand) memory {
	now := memory(bytes.Clone(durable))
	for _, i := range rng.Perm(len(epoch)) {
		w := epoch[i]
		how := rng.IntN(3)
		for off := 0; off < len(w.data) && how > 0; off += 512 {
			if how == 1 || rng.IntN(2) == 0 {
				copy(now[w.off+int64(off):], w.data[off:min(off+512, len(w.data))])
			}
		}
	}
	return now
}

// wholeOrNothing allows no header, or one that opens with its own passphrase.
func wholeOrNothing(passphrases map[string]string) func(memory) error {
	return func(m memory) error {
		h, err := ReadHeader(m, int64(len(m)))
		if errors.Is(err, ErrNotLUKS) {
			return nil
		}
		if err != nil {
			return err
		}
		pass, ok := passphrases[h.UUID]
		if !ok {
			return fmt.Errorf("header with UUID %s", h.UUID)
		}
		v, err := h.Unlock(context.Background(), m, []byte(pass), UnlockOptions{Slot: AnySlot})
		if err != nil {
			return fmt.Errorf("%s header of %q: %w", h.Copy, pass, err)
		}
		v.Close()
		return nil
	}
}

const (
	oldUUID   = "00000000-0000-4000-8000-000000000001"
	freshUUID = "00000000-0000-4000-8000-000000000002"
)

// crashStarts are what Format may find on the storage.
func crashStarts(t *testing.T) map[string]memory {
	const size = 3 << 20
	old := func(metadata int64) memory {
		o := smallOptions()
		o.MetadataSize, o.UUID, o.Passphrase = metadata, oldUUID, []byte("old")
		image, _ := formatted(t, o)
		return append(image, make(memory, size)...)[:size]
	}
	lvm := make(memory, size)
	copy(lvm[512:], "LABELONE")
	stale := old(1 << 20)
	clear(stale[:4096]) // only a secondary, behind the end of the new header
	return map[string]memory{
		"empty":                          make(memory, size),
		"LUKS2":                          old(16 << 10),
		"LUKS2 of larger metadata":       old(256 << 10),
		"LUKS2 secondary behind the end": stale,
		"LVM":                            lvm,
	}
}

func recordFormat(t *testing.T, start memory, ignored int) *recorder {
	t.Helper()
	r := newRecorder(start, ignored)
	o := smallOptions()
	o.UUID, o.Passphrase = freshUUID, []byte("new")
	v, err := Format(t.Context(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	return r
}

// A crash at any point of Format leaves no header, the old or the new one,
// each of them whole; afterwards it is the new one, durable.
func TestFormatCrash(t *testing.T) {
	passphrases := map[string]string{oldUUID: "old", freshUUID: "new"}
	for name, start := range crashStarts(t) {
		t.Run(name, func(t *testing.T) {
			r := recordFormat(t, start, -1)
			if err := r.crashes(start, rand.New(rand.NewPCG(1, 2)), wholeOrNothing(passphrases)); err != nil {
				t.Error(err)
			}
			if last := r.epochs[len(r.epochs)-1]; len(last) != 0 {
				t.Errorf("%d writes are not flushed at the end", len(last))
			}
			if v := open(t, r.memory, "new"); v.Header.UUID != freshUUID {
				t.Errorf("UUID %s", v.Header.UUID)
			}
		})
	}
}

// Without any one of its flushes Format would not survive every crash: what
// TestFormatCrash looks at is enough to tell.
func TestFormatNeedsEveryFlush(t *testing.T) {
	passphrases := map[string]string{oldUUID: "old", freshUUID: "new"}
	starts := crashStarts(t)
	flushes := recordFormat(t, starts["empty"], -1).flushes
	if flushes != 4 {
		t.Errorf("%d flushes", flushes)
	}
	for ignored := range flushes {
		seen := false
		for _, start := range starts {
			r := recordFormat(t, start, ignored)
			err := r.crashes(start, rand.New(rand.NewPCG(3, 4)), wholeOrNothing(passphrases))
			if err != nil || len(r.epochs[len(r.epochs)-1]) > 0 {
				seen = true
				break
			}
		}
		if !seen {
			t.Errorf("without flush %d every crash is survived", ignored)
		}
	}
}

// A storage that fails at any call makes Format fail.
func TestFormatReportsErrors(t *testing.T) {
	clean := recordFormat(t, make(memory, 2<<20), -1)
	calls := clean.flushes
	for _, e := range clean.epochs {
		calls += len(e)
	}
	for n := range calls {
		st := &faulty{memory: make(memory, 2<<20), left: n}
		if _, err := Format(t.Context(), st, smallOptions()); !errors.Is(err, errFault) {
			t.Errorf("call %d fails: %v", n, err)
		}
	}
}

var errFault = errors.New("fault")

type faulty struct {
	memory
	left int
}

func (f *faulty) fail() error {
	if f.left--; f.left < 0 {
		return errFault
	}
	return nil
}

func (f *faulty) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fail(); err != nil {
		return 0, err
	}
	return f.memory.WriteAt(p, off)
}

func (f *faulty) Flush() error { return f.fail() }
