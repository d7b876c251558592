package devicetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/xtsdisk/xtsdisk/device"
)

// ReplayDir crashes a folder at every point of ops, the log of a
// device.RecordDir over a folder that held the files initial, and calls check
// with what it may hold then, by name.
//
// What a crash leaves is the worst that POSIX allows: a file that was not
// flushed has lost any of its changes, its length among them; of the changes
// of names since the last sync of the folder any have survived; and flushing a
// file does not make its name durable. A rename happens wholly or not at all.
//
// ReplayDir returns a *CrashError for the first check that fails.
func ReplayDir(initial map[string]*device.Memory, ops []device.Op, check func(files map[string]*device.Memory, s State) error, o ReplayOptions) error {
	d := &dirCrash{files: make(map[int]*fileState), live: make(map[string]int), check: check}
	for i, name := range slices.Sorted(maps.Keys(initial)) {
		file := -1 - i // below the numbers of the log
		d.files[file] = newFileState(initial[name], -1)
		d.live[name] = file
	}
	d.durable = maps.Clone(d.live)
	return replay(ops, o, d)
}

// dirCrash is the model of a folder. Files are numbered as in the log.
type dirCrash struct {
	files   map[int]*fileState
	live    map[string]int // names as the program sees them
	durable map[string]int // names after a crash that loses all it can
	pending []nameChange
	check   func(map[string]*device.Memory, State) error
}

// nameChange sets one name and removes another, in one step.
type nameChange struct {
	set  string // "": none
	file int
	del  string // "": none
}

func (n nameChange) apply(names map[string]int) {
	if n.del != "" {
		delete(names, n.del)
	}
	if n.set != "" {
		names[n.set] = n.file
	}
}

func (d *dirCrash) apply(o device.Op, rng *rand.Rand) {
	switch o.Kind {
	case device.OpCreate:
		d.files[o.File] = newFileState(device.NewMemory(0, tearSize), -1)
		d.files[o.File].add(o, rng)
		d.rename(nameChange{set: o.Name, file: o.File})
	case device.OpRename:
		file, ok := d.live[o.Name]
		if !ok {
			panic(fmt.Sprintf("devicetest: replay of %s: the file is not in the log and not among the initial files", o))
		}
		d.rename(nameChange{set: o.NewName, file: file, del: o.Name})
	case device.OpRemove:
		d.rename(nameChange{del: o.Name})
	case device.OpSyncDir:
		d.durable = maps.Clone(d.live)
		d.pending = nil
	case device.OpMark:
	default:
		d.files[o.File].add(o, rng)
	}
}

func (d *dirCrash) rename(n nameChange) {
	n.apply(d.live)
	d.pending = append(d.pending, n)
}

func (d *dirCrash) unsynced() int {
	n := len(d.pending)
	for _, f := range d.files {
		n += len(f.pending)
	}
	return n
}

func (d *dirCrash) try(c chooser, s State) error {
	names := maps.Clone(d.durable)
	for i, n := range d.pending {
		if c.keep(i) {
			n.apply(names)
		}
	}
	first := len(d.pending)
	contents := make(map[int]*device.Memory)
	for _, file := range slices.Sorted(maps.Keys(d.files)) {
		contents[file] = d.files[file].after(c, first)
		first += len(d.files[file].pending)
	}
	files := make(map[string]*device.Memory)
	for name, file := range names {
		files[name] = contents[file]
	}
	return d.check(files, s)
}
