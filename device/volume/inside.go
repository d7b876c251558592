package volume

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/probe"
)

// Inside says where in a file or block device a volume lies. The zero value
// means that the volume is all of it. A header that is detached lies in a file
// of its own, of which this says nothing. Locks are those of the whole file.
type Inside struct {
	At        int64 // bytes from the start; the volume reaches to the end
	Partition int   // number in a GPT or MBR, as fdisk counts; 0: no partition
}

// Partition is what a table has at a number.
type Partition struct {
	Number int    // as fdisk counts
	Off    int64  // bytes from the start of the image
	Size   int64  // bytes, as far as the image has them
	Type   string // a GPT's GUID, or an MBR's two hexadecimal digits
	Name   string // a GPT's; "" in an MBR
	Holds  string // what lies there, by its signature: "luks2", "ext4"; "" if nothing is known
}

// check returns ErrOptions for what cannot be.
func (in Inside) check() error {
	switch {
	case in.At < 0 || in.At > maxDataOffset:
		return fmt.Errorf("%w: volume at byte %d", ErrOptions, in.At)
	case in.Partition < 0:
		return fmt.Errorf("%w: partition %d", ErrOptions, in.Partition)
	case in.At > 0 && in.Partition > 0:
		return fmt.Errorf("%w: a volume at byte %d and in partition %d", ErrOptions, in.At, in.Partition)
	}
	return nil
}

// inside returns the part of d that the volume is. d stays the caller's to
// close if there is an error.
func (r *run) inside(path string, d device.Device, in Inside) (device.Device, error) {
	if err := in.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case in.Partition > 0:
		return r.partition(path, d, in.Partition)
	case in.At == 0:
		return d, nil
	case in.At >= d.Size():
		return nil, fmt.Errorf("%s: %w: it has %d bytes, and the volume is said to begin at byte %d", path, ErrOptions, d.Size(), in.At)
	}
	return device.NewSection(d, in.At, -1), nil
}

func (r *run) partition(path string, d device.Device, number int) (device.Device, error) {
	t, err := probe.ReadTable(d, d.Size())
	if errors.Is(err, probe.ErrNoTable) {
		return nil, fmt.Errorf("%s: %w: it has %w; it holds %s", path, ErrOptions, err, held(d, d.Size()))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, w := range t.Warnings {
		r.warnf("%s: %s", path, w)
	}
	p := t.Find(number)
	if p == nil {
		return nil, fmt.Errorf("%s: %w: there is no partition %d; there are: %s", path, ErrOptions, number, listPartitions(d, t))
	}
	size := p.Size
	if rest := d.Size() - p.Off; size > rest {
		r.warnf("%s: partition %d has %d bytes from byte %d on, but the file ends after %d of them", path, number, size, p.Off, rest)
		size = rest
	}
	return device.NewSection(d, p.Off, size), nil
}

// maxLooked bounds how many partitions are looked into for a list, and named in
// a message: a GPT has room for 128 unless somebody wants otherwise.
const maxLooked = 128

// partitions describes what a table has.
func partitions(d io.ReaderAt, size int64, t *probe.Table) []Partition {
	list := []Partition{}
	for i, p := range t.Partitions {
		n := min(p.Size, size-p.Off)
		one := Partition{Number: p.Number, Off: p.Off, Size: n, Type: p.Type, Name: p.Name}
		if i < maxLooked {
			if found := probe.Identify(io.NewSectionReader(d, p.Off, n), n); len(found) > 0 {
				one.Holds = found[0].Name
			}
		}
		list = append(list, one)
	}
	return list
}

func listPartitions(d device.Device, t *probe.Table) string {
	var words []string
	for i, p := range partitions(d, d.Size(), t) {
		if i == maxLooked {
			words = append(words, fmt.Sprintf("and %d more", len(t.Partitions)-i))
			break
		}
		word := fmt.Sprintf("%d (%d bytes at byte %d", p.Number, p.Size, p.Off)
		if p.Holds != "" {
			word += ", " + p.Holds
		}
		words = append(words, word+")")
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// held names what lies on d.
func held(d io.ReaderAt, size int64) string {
	if found := probe.Identify(d, size); len(found) > 0 {
		return names(found)
	}
	return "nothing that is known"
}

// openInside is openHeader for what lies inside a file.
func (r *run) openInside(path string, in Inside) (device.Device, error) {
	whole, err := r.openHeader(path)
	if err != nil {
		return nil, err
	}
	d, err := r.inside(path, whole, in)
	if err != nil {
		whole.Close()
		return nil, err
	}
	return d, nil
}

// skipTo moves a stream to where the volume begins.
func (in Inside) skipTo(path string, stream io.Reader) error {
	if err := in.check(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if in.Partition > 0 {
		return fmt.Errorf("%s: %w: partition %d: its table may lie anywhere, and this is a stream", path, ErrKind, in.Partition)
	}
	if n, err := io.CopyN(io.Discard, stream, in.At); errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w: it has %d bytes, and the volume is said to begin at byte %d", path, ErrOptions, n, in.At)
	} else if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
