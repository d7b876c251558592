package devicetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
)

// tearSize is the unit, in bytes, that a disk writes whole or not at all.
const tearSize = 512

// ReplayOptions bounds a replay.
type ReplayOptions struct {
	// Subsets is how many random subsets of the unsynced operations are tried
	// after each operation, besides all, none, and each one alone left out or
	// kept; 0 means 8.
	Subsets int
	// Seed makes the random choices; a failure reports it.
	Seed uint64
	// States is about how many crashes are tried at most; 0 means 20000. Where
	// there are more, operations are skipped evenly, but never the ones around
	// a flush, a mark or a change of the folder.
	States int
}

// State tells at what point of the log a crash happened, and what survived.
type State struct {
	Done  int      // operations of the log that had been carried out
	Marks []string // marks among them
	Lost  string   // which of the unsynced operations survived, in words
}

// Reached reports whether the mark had been logged before the crash.
func (s State) Reached(mark string) bool { return slices.Contains(s.Marks, mark) }

// CrashError tells after which crash a check failed.
type CrashError struct {
	State State  // at what point, and what survived
	Last  string // the last operation before the crash
	Seed  uint64
	Err   error // what the check returned
}

// Error describes the crash and what was wrong after it.
func (e *CrashError) Error() string {
	return fmt.Sprintf("crash after %d operations (last: %s; marks: %s; survived: %s; seed %d): %v",
		e.State.Done, e.Last, strings.Join(e.State.Marks, ", "), e.State.Lost, e.Seed, e.Err)
}

// Unwrap returns what the check returned.
func (e *CrashError) Unwrap() error { return e.Err }

// Replay crashes a device at every point of ops, the log of a device.Record
// over a device that held initial, and calls check with what the disk may hold
// then: everything that was flushed, and of the rest any part, in units of 512
// bytes. Discarded ranges hold what they held, zeros or noise. image is
// check's own; it may write to it, as a recovery would.
//
// Replay returns a *CrashError for the first check that fails.
func Replay(initial *device.Memory, ops []device.Op, check func(image *device.Memory, s State) error, o ReplayOptions) error {
	return replay(ops, o, &diskCrash{file: newFileState(initial, initial.Size()), check: check})
}

// crash is a storage model that follows a log.
type crash interface {
	// apply follows one operation.
	apply(o device.Op, rng *rand.Rand)
	// unsynced is how many operations may be lost.
	unsynced() int
	// try checks the storage as it is if exactly the chosen of the unsynced
	// operations survive.
	try(c chooser, s State) error
}

// replay tries the crashes after each operation.
func replay(ops []device.Op, o ReplayOptions, model crash) error {
	if o.Subsets == 0 {
		o.Subsets = 8
	}
	if o.States == 0 {
		o.States = 20000
	}
	rng := rand.New(rand.NewPCG(o.Seed, 99))
	every := max(1, len(ops)*(o.Subsets+4)/o.States)
	var s State
	for i := 0; i <= len(ops); i++ {
		last := "none"
		if i > 0 {
			last = ops[i-1].String()
			if model.apply(ops[i-1], rng); ops[i-1].Kind == device.OpMark {
				s.Marks = append(s.Marks, ops[i-1].Name)
			}
		}
		if i%every != 0 && !pivotal(ops, i) {
			continue
		}
		s.Done = i
		for _, c := range choosers(model.unsynced(), o.Subsets, rng) {
			s.Lost = c.name
			if err := model.try(c, s); err != nil {
				return &CrashError{State: s, Last: last, Seed: o.Seed, Err: err}
			}
		}
	}
	return nil
}

// pivotal reports whether one of the operations beside the crash after i of
// them is more than a change of data.
func pivotal(ops []device.Op, i int) bool {
	for _, j := range []int{i - 1, i} {
		if j < 0 || j >= len(ops) {
			return true
		}
		switch ops[j].Kind {
		case device.OpWrite, device.OpZero, device.OpDiscard:
		default:
			return true
		}
	}
	return false
}

// chooser decides which of the unsynced operations survive a crash. The number
// of an operation counts over all files and the folder.
type chooser struct {
	name string
	keep func(i int) bool
	// tear decides on the units of an operation that keep is true of; nil: all.
	tear *rand.Rand
}

// keepsUnit decides on one unit of an operation that is kept.
func (c chooser) keepsUnit() bool { return c.tear == nil || c.tear.IntN(2) == 0 }

// eachAlone is up to how many operations each is left out and kept alone.
const eachAlone = 12

// choosers returns the crashes to try with n unsynced operations.
func choosers(n, subsets int, rng *rand.Rand) []chooser {
	list := []chooser{{name: "everything", keep: func(int) bool { return true }}}
	if n == 0 {
		return list
	}
	list = append(list, chooser{name: "what was synced", keep: func(int) bool { return false }})
	for j := max(0, n-eachAlone); j < n; j++ {
		list = append(list,
			chooser{name: fmt.Sprintf("of %d unsynced operations only number %d", n, j), keep: func(i int) bool { return i == j }},
			chooser{name: fmt.Sprintf("of %d unsynced operations all but number %d", n, j), keep: func(i int) bool { return i != j }})
	}
	for k := range subsets {
		seed := rng.Uint64()
		chance := []float64{.5, .1, .9}[k%3]
		kept := make([]bool, n)
		pick := rand.New(rand.NewPCG(seed, 1))
		for i := range kept {
			kept[i] = pick.Float64() < chance
		}
		c := chooser{name: fmt.Sprintf("of %d unsynced operations a random subset, torn", n), keep: func(i int) bool { return kept[i] }}
		if k%4 != 3 {
			c.tear = rand.New(rand.NewPCG(seed, 2))
		} else {
			c.name = fmt.Sprintf("of %d unsynced operations a random subset", n)
		}
		list = append(list, c)
	}
	return list
}

// EverySync fails the test unless replay finds fault with the log when any
// one of its flushes and folder syncs is left out: a promise about crashes
// that holds without one of them is not tested, or the sync is not needed.
func EverySync(t *testing.T, ops []device.Op, replay func(ops []device.Op) error) {
	t.Helper()
	if err := replay(ops); err != nil {
		t.Fatalf("the whole log: %v", err)
	}
	syncs := 0
	for i, o := range ops {
		if o.Kind != device.OpFlush && o.Kind != device.OpSyncDir {
			continue
		}
		syncs++
		if err := replay(slices.Delete(slices.Clone(ops), i, i+1)); err == nil {
			t.Errorf("operation %d (%s) can be left out and no crash shows it", i, o)
		}
	}
	if syncs == 0 {
		t.Error("the log has no flush and no sync")
	}
}
