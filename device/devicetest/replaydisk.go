package devicetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/xtsdisk/xtsdisk/device"
)

// fileState is what is known of a file, or of a whole device: its durable
// contents and the changes that a crash may undo.
type fileState struct {
	durable *device.Memory
	size    int64 // of a device that cannot grow; -1: a file
	pending []change
}

// change is an unsynced operation and, for a discard, what it leaves behind.
type change struct {
	device.Op
	fill discardFill
}

type discardFill uint8

const (
	fillOld discardFill = iota
	fillZeros
	fillNoise
)

func newFileState(initial *device.Memory, size int64) *fileState {
	return &fileState{durable: initial.Clone(), size: size}
}

// add notes a change; a flush makes the changes so far durable.
func (f *fileState) add(o device.Op, rng *rand.Rand) {
	if o.Kind != device.OpFlush {
		f.pending = append(f.pending, change{o, discardFill(rng.IntN(3))})
		return
	}
	for _, c := range f.pending {
		f.carryOut(f.durable, c, chooser{})
	}
	f.pending = nil
}

// after returns the contents if the chosen changes survive. The numbers of the
// changes begin with first.
func (f *fileState) after(c chooser, first int) *device.Memory {
	m := f.durable.Clone()
	for i, ch := range f.pending {
		if c.keep(first + i) {
			f.carryOut(m, ch, c)
		}
	}
	return m
}

// carryOut changes m as ch says, or the units of it that c keeps.
func (f *fileState) carryOut(m *device.Memory, ch change, c chooser) {
	if ch.Kind == device.OpCreate { // the size it was made with
		f.reach(m, ch.Len)
		return
	}
	for off, end := ch.Off, ch.Off+ch.Len; off < end; {
		next := min(end, off-off%tearSize+tearSize)
		if c.tear == nil {
			next = end
		}
		if c.keepsUnit() {
			f.carryOutUnit(m, ch, off, next)
		}
		off = next
	}
}

// carryOutUnit changes [off, end), a part of the change.
func (f *fileState) carryOutUnit(m *device.Memory, ch change, off, end int64) {
	f.reach(m, end)
	var err error
	switch {
	case ch.Kind == device.OpWrite:
		_, err = m.WriteAt(ch.Data[off-ch.Off:end-ch.Off], off)
	case ch.Kind == device.OpZero || ch.fill == fillZeros:
		err = m.WriteZeroes(off, end-off)
	case ch.fill == fillNoise:
		_, err = m.WriteAt(randomBytes(uint64(off), int(end-off)), off)
	}
	if err != nil {
		panic(fmt.Sprintf("devicetest: replay of %s: %v", ch.Op, err))
	}
}

// reach makes a file at least size bytes long.
func (f *fileState) reach(m *device.Memory, size int64) {
	if f.size < 0 && m.Size() < size {
		m.Resize(size)
	}
}

// diskCrash is the model of a single device.
type diskCrash struct {
	file  *fileState
	check func(*device.Memory, State) error
}

func (d *diskCrash) apply(o device.Op, rng *rand.Rand) {
	switch o.Kind {
	case device.OpWrite, device.OpZero, device.OpDiscard, device.OpFlush:
		d.file.add(o, rng)
	}
}

func (d *diskCrash) unsynced() int { return len(d.file.pending) }

func (d *diskCrash) try(c chooser, s State) error { return d.check(d.file.after(c, 0), s) }
