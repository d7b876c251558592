package probe

import (
	"errors"
	"fmt"
	"io"
)

// Partition is one entry of a partition table.
type Partition struct {
	// Number is the one that fdisk and the kernel give it: in a GPT the place
	// in the table, from 1; in an MBR 1 to 4, and from 5 on for logical ones.
	Number int
	// Off and Size are in bytes. The end may lie behind that of the disk, the
	// start does not.
	Off, Size int64
	// Type is the type GUID of a GPT in lower case, or an MBR's type as two
	// hexadecimal digits.
	Type string
	// Name is a GPT's, as the table has it; an MBR has none.
	Name string
}

// Table is a partition table.
type Table struct {
	Kind       string      // "gpt" or "mbr"
	SectorSize int         // bytes of the logical sectors that it counts in
	Partitions []Partition // that hold data, by number
	Warnings   []string    // what was left out, and which copy was used
}

var (
	// ErrNoTable: neither a GPT nor an MBR with partitions.
	ErrNoTable = errors.New("no partition table")
	// ErrTable: there is a table, and it cannot be believed.
	ErrTable = errors.New("partition table damaged")
)

// ReadTable returns the partition table of a disk with size bytes. A GPT is
// looked for at 512- and at 4096-byte sectors, and believed if its checksums
// and places are right; where its first copy is damaged, the one at the end
// counts. An MBR does not say which sectors it counts in: they have 512 bytes
// unless only 4096 makes its partitions begin with something that is known.
// Errors wrap ErrNoTable or ErrTable, or are those of r.
func ReadTable(r io.ReaderAt, size int64) (*Table, error) {
	d := disk{r: r, size: size}
	t, err := d.readGPT()
	if t != nil || err != nil {
		return t, err
	}
	if !d.mbr() {
		if _, err := d.read(0, 512); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return nil, ErrNoTable
	}
	return d.readMBR()
}

// Find returns the partition with a number, or nil.
func (t *Table) Find(number int) *Partition {
	for i := range t.Partitions {
		if t.Partitions[i].Number == number {
			return &t.Partitions[i]
		}
	}
	return nil
}

func (t *Table) warn(format string, args ...any) {
	t.Warnings = append(t.Warnings, fmt.Sprintf(format, args...))
}

// add takes a partition of n sectors, unless its place cannot be.
func (t *Table) add(p Partition, first, n uint64, diskSize int64) {
	sector := uint64(t.SectorSize)
	const most = 1<<63 - 1
	if first == 0 || n == 0 || first > most/sector || n > most/sector-first || int64(first*sector) >= diskSize {
		t.warn("partition %d: %d sectors of %d bytes from sector %d on are not on this disk of %d bytes", p.Number, n, sector, first, diskSize)
		return
	}
	p.Off, p.Size = int64(first*sector), int64(n*sector)
	t.Partitions = append(t.Partitions, p)
}

// read returns the n bytes at off; io.EOF if they are not all there.
func (d disk) read(off int64, n int) ([]byte, error) {
	if off < 0 || off > d.size-int64(n) {
		return nil, io.EOF
	}
	b := make([]byte, n)
	if got, err := d.r.ReadAt(b, off); got < n {
		if err == nil || errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read partition table at offset %d: %w", off, err)
	}
	return b, nil
}

// known counts the partitions, of the first few, that begin with something that
// is recognised.
func (t *Table) known(r io.ReaderAt) (n int) {
	for _, p := range t.Partitions[:min(16, len(t.Partitions))] {
		if len(Identify(io.NewSectionReader(r, p.Off, p.Size), -1)) > 0 {
			n++
		}
	}
	return n
}
