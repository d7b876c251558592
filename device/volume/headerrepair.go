package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/luks"
)

// RepairHeader makes the header of the volume at path whole again: of LUKS2's
// two copies the damaged one is written from the other (see luks.Repair). With
// no copy whole, the backup from is written in their place, if there is one: of
// a damaged header, or of one that RestoreHeader or ConvertHeader was replacing
// when it was interrupted. What is overwritten is kept in a file first, then.
//
// A header that is whole is left as it is, Change.Copy and Kept being empty.
// Without Force a backup with another UUID than the header is ErrPolicy, and so
// is one for a volume that starts as another format.
func RepairHeader(ctx context.Context, path, from string, o HeaderOptions) (HeaderChange, error) {
	r := &run{system: host, warn: o.Warn}
	return r.repairHeader(ctx, path, from, o)
}

func (r *run) repairHeader(ctx context.Context, path, from string, o HeaderOptions) (c HeaderChange, err error) {
	var p *luks.Replacement
	if from != "" {
		backup, dev, err := r.openBackup(ctx, from, path, o)
		if err != nil {
			return c, err
		}
		defer dev.Close()
		p = backup
	}
	err = r.changeHeader(ctx, path, o, func(path string, st *headerStorage) error {
		c.Header, c.Copy, err = r.repairCopies(ctx, st, p, o.Force)
		if err == nil {
			return nil
		}
		if p == nil || !errors.Is(err, luks.ErrHeaderCorrupt) && !errors.Is(err, luks.ErrNotLUKS) {
			return fmt.Errorf("%s: %w", path, err)
		}
		if found := foreign(st, st.size()); found != "" && !o.Force {
			return fmt.Errorf("%s: %w: it has no LUKS header, and holds %s", path, ErrPolicy, found)
		}
		if !o.Force && errors.Is(err, luks.ErrNotLUKS) && !blankStart(st) {
			return fmt.Errorf("%s: %w: nothing tells that a LUKS header was here, and there is something", path, ErrPolicy)
		}
		c, err = r.replace(ctx, path, st, nil, p, o)
		return err
	})
	return c, err
}

// blankStart tells whether r begins with a sector of zeros, as a restore or
// conversion that did not get done leaves it. Data has no signature there: the
// start of encrypted data looks like anything else.
func blankStart(r io.ReaderAt) bool {
	b := make([]byte, 512)
	n, err := r.ReadAt(b, 0)
	return n == len(b) && (err == nil || err == io.EOF) && bytes.Equal(b, make([]byte, len(b)))
}

// repairCopies is luks.Repair, unless the header is not that of the backup.
func (r *run) repairCopies(ctx context.Context, st *headerStorage, p *luks.Replacement, force bool) (*luks.Header, *luks.Copy, error) {
	if p != nil && !force {
		if h, err := luks.ReadHeader(st, st.size()); err == nil && h.UUID != p.Header().UUID {
			return nil, nil, fmt.Errorf("%w: the header that is there has UUID %s, the backup %s", ErrPolicy, h.UUID, p.Header().UUID)
		}
	}
	// Something else at the start is not written over as long as there is a
	// backup that could be written instead.
	return luks.Repair(ctx, st, st.size(), force && p == nil)
}

// foreign names what lies on r that is no LUKS volume.
func foreign(r io.ReaderAt, size int64) string {
	return names(slices.DeleteFunc(probe.Identify(r, size), func(f probe.Found) bool { return strings.HasPrefix(f.Name, "luks") }))
}
