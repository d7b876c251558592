package luks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// convertible makes a volume of each version that can be converted, with
// keyslots 0 ("small") and 7 ("seventh").
func convertible(tb testing.TB) map[string]memory {
	tb.Helper()
	out := map[string]memory{}
	for name, version := range map[string]int{"LUKS1": 1, "LUKS2": 2} {
		o := smallOptions()
		o.Version, o.KeyslotsSize, o.DataOffset = version, 0, 2<<20
		image, _ := formatted(tb, o)
		e, n := edit(tb, image), cheapSlot("seventh")
		n.Slot = 7
		if _, err := e.AddKey(tb.Context(), open(tb, image, "small"), n); err != nil {
			tb.Fatal(err)
		}
		copy(image[2<<20:], "data")
		out[name] = image
	}
	return out
}

// safeCopy is what is kept of a volume before a replacement is written.
func safeCopy(image memory, p *Replacement) memory {
	h, _ := ReadHeader(image, int64(len(image)))
	return bytes.Clone(image[:max(h.BackupSize(), p.Size())])
}

// replaceJob is a replacement of the header of start.
type replaceJob struct {
	name  string
	start memory
	with  func(st memory) *Replacement
	now   string // passphrase that opens afterwards
}

func replaceJobs(t *testing.T) []replaceJob {
	var jobs []replaceJob
	images := convertible(t)
	for name, image := range images {
		h, err := ReadHeader(image, int64(len(image)))
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, replaceJob{"convert " + name, image, func(st memory) *Replacement {
			p, err := h.Convert(st, 3-h.Version)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}, "small"})
		backup := bytes.Clone(image)
		changed := memory(bytes.Clone(image))
		addKey(t, changed, "small", "later")
		for from, old := range map[string]memory{"changed": changed, "the other version": images[map[string]string{"LUKS1": "LUKS2", "LUKS2": "LUKS1"}[name]]} {
			jobs = append(jobs, replaceJob{"restore " + name + " over " + from, old, func(memory) *Replacement {
				p, err := ReadBackup(bytes.NewReader(backup), int64(len(backup)))
				if err != nil {
					t.Fatal(err)
				}
				return p
			}, "seventh"})
		}
	}
	large := smallOptions()
	large.KeyslotsSize, large.MetadataSize, large.DataOffset, large.Passphrase = 0, 256<<10, 2<<20, []byte("large")
	old, _ := formatted(t, large)
	jobs = append(jobs, replaceJob{"restore LUKS2 over larger metadata", old, jobs[slices.IndexFunc(jobs, func(j replaceJob) bool { return j.name == "restore LUKS2 over changed" })].with, "small"})
	return jobs
}

func unlocks(m memory, pass string) (*Header, error) {
	h, err := ReadHeader(m, int64(len(m)))
	if err != nil {
		return nil, err
	}
	v, err := h.Unlock(context.Background(), m, []byte(pass), UnlockOptions{Slot: AnySlot})
	if err != nil {
		return h, fmt.Errorf("%s copy: %w", h.Copy, err)
	}
	v.Close()
	return h, nil
}

// A crash at any point of a replacement leaves the old header, the new one, or
// none; in the last case what was kept of the old one gives it back, and the
// data is never touched.
func TestReplaceCrash(t *testing.T) {
	for _, j := range replaceJobs(t) {
		t.Run(j.name, func(t *testing.T) {
			r := newRecorder(j.start, -1)
			p := j.with(j.start)
			kept := safeCopy(j.start, p)
			if err := p.Write(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			old := "small"
			if _, err := unlocks(j.start, old); err != nil {
				old = "large"
			}
			err := r.crashes(j.start, rand.New(rand.NewPCG(1, 7)), func(m memory) error {
				if !bytes.Equal(m[2<<20:], j.start[2<<20:]) {
					return errors.New("the data has changed")
				}
				h, err := ReadHeader(m, int64(len(m)))
				if err == nil {
					if _, err := unlocks(m, j.now); err == nil {
						return nil
					}
					_, err = unlocks(m, old)
					return err
				}
				if !errors.Is(err, ErrNotLUKS) {
					return fmt.Errorf("%w (%v)", err, h)
				}
				back := memory(bytes.Clone(m))
				again, err := ReadBackup(kept, int64(len(kept)))
				if err != nil {
					return err
				}
				if err := again.Write(context.Background(), back); err != nil {
					return err
				}
				if !bytes.Equal(back[:len(kept)], kept) {
					return errors.New("what was kept is not given back")
				}
				_, err = unlocks(back, old)
				return err
			})
			if err != nil {
				t.Error(err)
			}
			if last := r.epochs[len(r.epochs)-1]; len(last) != 0 {
				t.Errorf("%d writes are not flushed at the end", len(last))
			}
			h, err := unlocks(r.memory, j.now)
			if err != nil || len(h.Warnings) > 0 || h.Version != p.Header().Version {
				t.Errorf("at the end: %v, %+v", err, h)
			}
		})
	}
}

// Every flush of a replacement is needed.
func TestReplaceNeedsEveryFlush(t *testing.T) {
	jobs := replaceJobs(t)
	need := map[int]bool{}
	flushes := 0
	for _, j := range jobs {
		full := newRecorder(j.start, -1)
		if err := j.with(j.start).Write(t.Context(), full); err != nil {
			t.Fatal(err)
		}
		flushes = max(flushes, full.flushes)
		for ignored := range full.flushes {
			r := newRecorder(j.start, ignored)
			if err := j.with(j.start).Write(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			err := r.crashes(j.start, rand.New(rand.NewPCG(3, 9)), func(m memory) error {
				h, err := ReadHeader(m, int64(len(m)))
				if errors.Is(err, ErrNotLUKS) {
					return nil
				}
				if err != nil {
					return err
				}
				for _, pass := range []string{"small", "large"} {
					if _, err := unlocks(m, pass); err == nil {
						return nil
					}
				}
				return fmt.Errorf("LUKS%d, and nothing opens", h.Version)
			})
			if err != nil || len(r.epochs[len(r.epochs)-1]) > 0 {
				need[ignored] = true
			}
		}
	}
	for i := range flushes {
		if !need[i] {
			t.Errorf("without flush %d every crash is survived", i)
		}
	}
}

// A crash of erase leaves the header, and of the keyslots the old state, those
// not yet reached, or none; in the end there is no trace of them.
func TestEraseCrash(t *testing.T) {
	for name, start := range convertible(t) {
		t.Run(name, func(t *testing.T) {
			before, _ := ReadHeader(start, -1)
			r := newRecorder(start, -1)
			e, err := Edit(t.Context(), r, int64(len(start)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.EraseKeys(t.Context()); err != nil {
				t.Fatal(err)
			}
			err = r.crashes(start, rand.New(rand.NewPCG(2, 2)), func(m memory) error {
				h, err := ReadHeader(m, int64(len(m)))
				if err != nil {
					return err
				}
				if len(h.Keyslots) == 2 {
					return nil
				}
				for _, k := range before.Keyslots {
					if err := forgotten(h, k.Area, start, m); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			h, err := ReadHeader(r.memory, int64(len(start)))
			if err != nil || len(h.Keyslots) > 0 || len(h.Warnings) > 0 {
				t.Errorf("%v, %+v", err, h)
			}
			if !bytes.Equal(r.memory[2<<20:], start[2<<20:]) {
				t.Error("the data has changed")
			}
		})
	}
}

// A crash of wipe leaves a header that can be wiped again, or none; a header
// that is gone leaves no keyslot behind.
func TestWipeCrash(t *testing.T) {
	for name, start := range convertible(t) {
		t.Run(name, func(t *testing.T) {
			before, _ := ReadHeader(start, -1)
			r := newRecorder(start, -1)
			if _, err := Wipe(t.Context(), r, int64(len(start))); err != nil {
				t.Fatal(err)
			}
			err := r.crashes(start, rand.New(rand.NewPCG(2, 3)), func(m memory) error {
				_, err := ReadHeader(m, int64(len(m)))
				if err == nil {
					_, err := Wipe(context.Background(), memory(bytes.Clone(m)), int64(len(m)))
					return err
				}
				if !errors.Is(err, ErrNotLUKS) {
					return err
				}
				for _, k := range before.Keyslots {
					if err := forgotten(&Header{}, k.Area, start, m); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			if !bytes.Equal(r.memory[:2<<20], make([]byte, 2<<20)) {
				t.Error("not all in front of the data is zeros")
			}
			if !bytes.Equal(r.memory[2<<20:], start[2<<20:]) {
				t.Error("the data has changed")
			}
		})
	}
}

// A crash of repair leaves the damaged copy damaged or whole: the volume opens.
func TestRepairCrash(t *testing.T) {
	start := convertible(t)["LUKS2"]
	for name, off := range map[string]int{"primary": 5000, "primary magic": 0, "secondary": 16384 + 5000, "secondary magic": 16384} {
		t.Run(name, func(t *testing.T) {
			damaged := memory(bytes.Clone(start))
			damaged[off] ^= 1
			r := newRecorder(damaged, -1)
			h, c, err := Repair(t.Context(), r, int64(len(start)), false)
			if err != nil || c == nil || len(h.Warnings) > 0 || c.String() != name[:len(c.String())] {
				t.Fatal(err, c, h)
			}
			err = r.crashes(damaged, rand.New(rand.NewPCG(4, 4)), func(m memory) error {
				_, err := unlocks(m, "seventh")
				return err
			})
			if err != nil {
				t.Error(err)
			}
			if !bytes.Equal(r.memory[32768:], start[32768:]) {
				t.Error("more than the header has changed")
			}
			if _, c, err := Repair(t.Context(), r, int64(len(start)), false); err != nil || c != nil {
				t.Errorf("a second time: %v, %v", c, err)
			}
		})
	}
}

// A copy that a change did not reach any more is brought up to date from the
// newer one, whichever that is.
func TestRepairOlderCopy(t *testing.T) {
	for _, newer := range []Copy{Primary, Secondary} {
		start := convertible(t)["LUKS2"]
		image := memory(bytes.Clone(start))
		if err := edit(t, image).SetLabel(t.Context(), "newer"); err != nil {
			t.Fatal(err)
		}
		older := int64(16384)
		if newer == Secondary {
			older = 0
		}
		copy(image[older:older+16384], start[older:])
		h, c, err := Repair(t.Context(), image, int64(len(image)), false)
		if err != nil || c == nil || *c == newer || h.Label != "newer" || len(h.Warnings) > 0 {
			t.Errorf("%s newer: %v, %v, %+v", newer, err, c, h)
		}
	}
}

// A storage that fails at any call makes each of them fail.
func TestHeaderReportsErrors(t *testing.T) {
	damaged := convertible(t)["LUKS2"]
	damaged[5000] ^= 1
	jobs := map[string]func(st Storage, size int64) error{
		"repair": func(st Storage, size int64) error { _, _, err := Repair(t.Context(), st, size, false); return err },
		"wipe":   func(st Storage, size int64) error { _, err := Wipe(t.Context(), st, size); return err },
	}
	starts := map[string]memory{"repair": damaged, "wipe": damaged}
	for _, j := range replaceJobs(t) {
		starts[j.name] = j.start
		jobs[j.name] = func(st Storage, _ int64) error { return j.with(j.start).Write(t.Context(), st) }
	}
	for name, job := range jobs {
		start := starts[name]
		clean := newRecorder(start, -1)
		if err := job(clean, int64(len(start))); err != nil {
			t.Fatal(name, err)
		}
		calls := clean.flushes
		for _, epoch := range clean.epochs {
			calls += len(epoch)
		}
		for n := range calls {
			st := &faulty{memory: bytes.Clone(start), left: n}
			if err := job(st, int64(len(start))); !errors.Is(err, errFault) {
				t.Errorf("%s, call %d fails: %v", name, n, err)
			}
		}
	}
}
