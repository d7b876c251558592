package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/luks"
)

// Identity is what a file or block device turned out to be.
type Identity struct {
	// Reason is nil for a volume that opens here, given a passphrase. Else it
	// says why not: ErrUnsupported for a known format or header of which this
	// version lacks something, ErrPolicy, luks.ErrNoMemory, luks.ErrNoKeyslot,
	// luks.ErrHeaderCorrupt, or luks.ErrNotLUKS for what is no volume.
	Reason error
	Format string       // "luks1", "luks2", "dm-integrity", "bitlocker"; "" if it is no volume of a known format
	Header *luks.Header // nil if none could be read
	// Found are the signatures of what is no volume: "ext4", "gpt".
	Found []string
	// Table is "gpt" or "mbr" where there is a partition table: volumes may lie
	// in its Partitions.
	Table      string
	Partitions []Partition
	Warnings   []string // about the partition table or the header
}

// known are the formats of encrypted volumes besides LUKS that are recognised
// and not opened, and why.
var known = map[string]string{
	"bitlocker":    "volumes of type BitLocker",
	"dm-integrity": "volumes of type dm-integrity alone",
}

// Identify tells what is at path, or at o.Inside in it; of the other options
// Policy counts. It writes nothing and asks for nothing. Errors are those of
// finding and reading: what is not a volume is none.
func Identify(ctx context.Context, path string, o OpenOptions) (Identity, error) {
	r := &run{system: host}
	d, err := r.openInside(path, o.Inside)
	if err != nil {
		return Identity{}, err
	}
	defer d.Close()
	id, err := r.identify(ctx, path, d, o.Policy)
	id.Warnings = append(id.Warnings, r.Warnings...)
	return id, err
}

func (r *run) identify(ctx context.Context, path string, d device.Device, p luks.Policy) (Identity, error) {
	h, err := r.readHeader(ctx, path, d, d.Size())
	switch {
	case err == nil:
		return Identity{Format: fmt.Sprintf("luks%d", h.Version), Header: h, Reason: h.Openable(p)}, nil
	case errors.Is(err, luks.ErrHeaderCorrupt), errors.Is(err, luks.ErrUnsupported):
		id := Identity{Format: "luks2", Reason: err}
		if version, ok := luks.Detect(d); ok {
			id.Format = fmt.Sprintf("luks%d", version)
		}
		return id, nil
	case !errors.Is(err, luks.ErrNotLUKS):
		return Identity{}, err
	}
	id := Identity{Reason: err}
	for _, f := range probe.Identify(d, d.Size()) {
		if !slices.Contains(id.Found, f.Name) {
			id.Found = append(id.Found, f.Name)
		}
		if what := known[f.Name]; what != "" && id.Format == "" {
			id.Format, id.Reason = f.Name, fmt.Errorf("%w: %s", ErrUnsupported, what)
		}
	}
	return id, id.readTable(d)
}

// readTable lists the partitions, if there are any.
func (id *Identity) readTable(d device.Device) error {
	t, err := probe.ReadTable(d, d.Size())
	switch {
	case errors.Is(err, probe.ErrNoTable):
		return nil
	case errors.Is(err, probe.ErrTable):
		id.Warnings = append(id.Warnings, err.Error())
		return nil
	case err != nil:
		return err
	}
	id.Table, id.Partitions = t.Kind, partitions(d, d.Size(), t)
	id.Warnings = append(id.Warnings, t.Warnings...)
	return nil
}
