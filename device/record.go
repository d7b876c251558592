package device

import (
	"bytes"
	"fmt"
	"sync"
)

// OpKind is what an Op did.
type OpKind uint8

// The operations of a Log. Those on a file carry its number, those on a folder
// a name.
const (
	OpWrite   OpKind = iota // Data was written at Off
	OpZero                  // Len bytes at Off were made zero
	OpDiscard               // Len bytes at Off became undefined
	OpFlush                 // what was logged before for this file is durable
	OpCreate                // file number File was made with size Len as Name
	OpRename                // Name became NewName
	OpRemove                // Name was removed
	OpSyncDir               // what was logged before for the folder is durable
	OpMark                  // Name was reached: see Log.Mark
)

var opNames = [...]string{"write", "zero", "discard", "flush", "create", "rename", "remove", "sync folder", "mark"}

// String names the kind.
func (k OpKind) String() string {
	if int(k) < len(opNames) {
		return opNames[k]
	}
	return fmt.Sprintf("operation %d", uint8(k))
}

// Op is one recorded operation.
type Op struct {
	Kind          OpKind // what was done
	File          int    // number of the file in the order of creation; 0 for a Record
	Off, Len      int64  // bytes
	Data          []byte // of OpWrite; must not be changed
	Name, NewName string // of files and marks

	dropped bool // a flush that failed, or that has not ended
}

// String describes the operation in a line.
func (o Op) String() string {
	switch o.Kind {
	case OpWrite, OpZero, OpDiscard:
		return fmt.Sprintf("file %d: %s [%d, %d)", o.File, o.Kind, o.Off, o.Off+o.Len)
	case OpFlush:
		return fmt.Sprintf("file %d: flush", o.File)
	case OpCreate:
		return fmt.Sprintf("create %q as file %d, %d bytes", o.Name, o.File, o.Len)
	case OpRename:
		return fmt.Sprintf("rename %q to %q", o.Name, o.NewName)
	case OpSyncDir:
		return o.Kind.String()
	}
	return fmt.Sprintf("%s %q", o.Kind, o.Name)
}

// Log is the order in which operations changed storage and made the changes
// durable. Safe for concurrent use.
//
// A write is logged when it ends and a flush where it began, since a flush
// promises nothing about writes that end after it began. An operation that
// failed is logged too, for it may have been carried out in part; a flush
// that failed is not.
type Log struct {
	mu  sync.Mutex
	ops []*Op
}

// Ops returns the operations so far.
func (l *Log) Ops() []Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops := make([]Op, 0, len(l.ops))
	for _, o := range l.ops {
		if !o.dropped {
			ops = append(ops, *o)
		}
	}
	return ops
}

// Mark notes that the program reached a point at which it makes a promise,
// such as that a job is done.
func (l *Log) Mark(name string) { l.add(Op{Kind: OpMark, Name: name}) }

func (l *Log) add(o Op) *Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, &o)
	return &o
}

// barrier logs a flush where it begins and strikes it out if it fails.
func (l *Log) barrier(o Op, flush func() error) error {
	o.dropped = true
	entry := l.add(o)
	err := flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	entry.dropped = err != nil
	return err
}

// Record is a Device that logs all that changes the device below it.
type Record struct {
	Device
	log  *Log
	file int
}

// NewRecord records what is done to d, in a log of its own.
func NewRecord(d Device) *Record { return &Record{Device: d, log: new(Log)} }

// Log returns the log.
func (r *Record) Log() *Log { return r.log }

// WriteAt implements Device.
func (r *Record) WriteAt(p []byte, off int64) (int, error) {
	n, err := r.Device.WriteAt(p, off)
	if n > 0 || err == nil || checkRange("", off, int64(len(p)), r.Device.Size()) == nil {
		r.log.add(Op{Kind: OpWrite, File: r.file, Off: off, Len: int64(len(p)), Data: bytes.Clone(p)})
	}
	return n, err
}

// Discard implements Device.
func (r *Record) Discard(off, n int64) error {
	return r.change(OpDiscard, off, n, r.Device.Discard(off, n))
}

// WriteZeroes implements Device.
func (r *Record) WriteZeroes(off, n int64) error {
	return r.change(OpZero, off, n, r.Device.WriteZeroes(off, n))
}

func (r *Record) change(kind OpKind, off, n int64, err error) error {
	if err == nil || checkRange("", off, n, r.Device.Size()) == nil {
		r.log.add(Op{Kind: kind, File: r.file, Off: off, Len: n})
	}
	return err
}

// Flush implements Device.
func (r *Record) Flush() error {
	return r.log.barrier(Op{Kind: OpFlush, File: r.file}, r.Device.Flush)
}

// NextExtent implements Extenter as far as the device below does.
func (r *Record) NextExtent(off int64) (Extent, error) { return nextExtent(r.Device, off) }

// RecordDir is a Dir that logs all that changes the folder below it and the
// files created in it.
type RecordDir struct {
	Dir
	log   Log
	mu    sync.Mutex
	files int
}

// NewRecordDir records what is done to d.
func NewRecordDir(d Dir) *RecordDir { return &RecordDir{Dir: d} }

// Log returns the log.
func (r *RecordDir) Log() *Log { return &r.log }

// Create implements Dir.
func (r *RecordDir) Create(name string, o CreateOptions) (Device, error) {
	d, err := r.Dir.Create(name, o)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	file := r.files
	r.files++
	r.log.add(Op{Kind: OpCreate, File: file, Name: name, Len: max(o.Size, 0)})
	return &Record{Device: d, log: &r.log, file: file}, nil
}

// Rename implements Dir.
func (r *RecordDir) Rename(oldName, newName string, replace bool) error {
	err := r.Dir.Rename(oldName, newName, replace)
	if err == nil {
		r.log.add(Op{Kind: OpRename, Name: oldName, NewName: newName})
	}
	return err
}

// Remove implements Dir.
func (r *RecordDir) Remove(name string) error {
	err := r.Dir.Remove(name)
	if err == nil {
		r.log.add(Op{Kind: OpRemove, Name: name})
	}
	return err
}

// Sync implements Dir.
func (r *RecordDir) Sync() error { return r.log.barrier(Op{Kind: OpSyncDir}, r.Dir.Sync) }
