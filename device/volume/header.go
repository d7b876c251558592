package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/luks"
)

// HeaderOptions says which header of a volume is changed as a whole, and how.
type HeaderOptions struct {
	Header string // path of a detached header; "": in the volume itself
	Inside Inside // where in the file the volume is

	// Keep is the file that the old header goes into before anything is
	// written; "": one next to the volume (of a block device, in the current
	// folder), with its name and the time. It must not exist.
	Keep  string
	Force bool         // although it does not fit what is there
	Warn  func(string) // gets warnings; may be nil
}

func (o HeaderOptions) open() OpenOptions {
	return OpenOptions{Header: o.Header, Inside: o.Inside, Warn: o.Warn}
}

// HeaderChange is what became of a header.
type HeaderChange struct {
	Header *luks.Header // as it is now; of WipeHeader, as it was
	Kept   string       // the file that the old header went into; ""
	Copy   *luks.Copy   // the copy that RepairHeader wrote from the other, or nil
	Lost   []string     // what a conversion had no place for
}

// BackupHeader copies the header of the volume at path, with its keyslots, to
// the new file to, which only its owner may read: the bytes that cryptsetup
// luksHeaderBackup writes. The file appears when it is whole and durable; one
// that exists is ErrExists. It returns the header and the file's size.
func BackupHeader(ctx context.Context, path, to string, o OpenOptions) (*luks.Header, int64, error) {
	r := &run{system: host, warn: o.Warn}
	return r.backupHeader(ctx, path, to, o)
}

func (r *run) backupHeader(ctx context.Context, path, to string, o OpenOptions) (*luks.Header, int64, error) {
	path, dev, err := r.openHeaderOf(path, o)
	if err != nil {
		return nil, 0, err
	}
	defer dev.Close()
	if _, err := r.readHeader(ctx, path, dev, dev.Size()); err != nil {
		return nil, 0, err
	}
	release, err := r.holdHeader(ctx, path)
	if err != nil {
		return nil, 0, err
	}
	defer release()
	// Again, now that nobody changes it.
	h, err := luks.ReadHeader(dev, dev.Size())
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	n := h.BackupSize()
	err = r.newFile(to, n, func(w io.Writer) error { return h.WriteBackup(w, dev) })
	return h, n, err
}

// newFile makes a file of n bytes that is there whole and durable, or not at all.
func (r *run) newFile(path string, n int64, fill func(io.Writer) error) (err error) {
	dir, err := r.folder(filepath.Dir(path), device.FileOptions{})
	if err != nil {
		return err
	}
	defer dir.Close()
	out, err := device.NewOutput(dir, filepath.Base(path), device.OutputOptions{CreateOptions: device.CreateOptions{Size: n, Mode: 0o600}})
	if err != nil {
		return classify(err, ErrExists, os.ErrExist)
	}
	if err = fill(io.NewOffsetWriter(out.Device(), 0)); err == nil {
		err = classify(out.Commit(), ErrExists, os.ErrExist)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, errors.Join(err, out.Abort()))
	}
	return nil
}

// RestoreHeader replaces the header of the volume at path by the one in the
// backup from. What is overwritten is kept in a file first. Without Force the
// volume must have a header with the same UUID, LUKS version, data offset and
// length of the volume key (ErrPolicy otherwise, naming what differs).
//
// After a crash the volume has its old header, the new one, or none; then
// RepairHeader with the file that was kept, or with from, gives it one.
func RestoreHeader(ctx context.Context, path, from string, o HeaderOptions) (HeaderChange, error) {
	r := &run{system: host, warn: o.Warn}
	return r.restoreHeader(ctx, path, from, o)
}

func (r *run) restoreHeader(ctx context.Context, path, from string, o HeaderOptions) (c HeaderChange, err error) {
	p, backup, err := r.openBackup(ctx, from, path, o)
	if err != nil {
		return c, err
	}
	defer backup.Close()
	err = r.changeHeader(ctx, path, o, func(path string, st *headerStorage) error {
		old, readErr := luks.ReadHeader(st, st.size())
		if err := r.mayRestore(path, from, old, readErr, p, o.Force); err != nil {
			return err
		}
		c, err = r.replace(ctx, path, st, old, p, o)
		return err
	})
	return c, err
}

// openBackup opens and checks a backup that is to be written to path.
func (r *run) openBackup(ctx context.Context, from, path string, o HeaderOptions) (*luks.Replacement, device.Device, error) {
	if o.Header != "" {
		path = o.Header
	}
	if same, err := r.same(from, path); err != nil {
		return nil, nil, err
	} else if same {
		return nil, nil, fmt.Errorf("%s and %s: %w", from, path, ErrSame)
	}
	dev, err := r.openHeader(from)
	if err != nil {
		return nil, nil, err
	}
	if _, err := r.readHeader(ctx, from, dev, dev.Size()); err != nil {
		dev.Close()
		return nil, nil, err
	}
	p, err := luks.ReadBackup(dev, dev.Size())
	if err != nil {
		dev.Close()
		return nil, nil, fmt.Errorf("%s: %w", from, err)
	}
	return p, dev, nil
}

// mayRestore refuses a backup that is not known to be of this volume; force
// makes it a warning.
func (r *run) mayRestore(path, from string, old *luks.Header, readErr error, p *luks.Replacement, force bool) error {
	var why string
	switch {
	case errors.Is(readErr, luks.ErrNotLUKS), errors.Is(readErr, luks.ErrHeaderCorrupt), errors.Is(readErr, luks.ErrUnsupported):
		why = "it has no header to compare the backup with: " + readErr.Error()
	case readErr != nil:
		return fmt.Errorf("%s: %w", path, readErr)
	default:
		if list := p.Conflicts(old); len(list) > 0 {
			why = from + " has " + strings.Join(list, "; ")
		}
	}
	if why == "" {
		return nil
	}
	if !force {
		return fmt.Errorf("%s: %w: %s", path, ErrPolicy, why)
	}
	r.warnf("%s: %s", path, why)
	return nil
}

// replace keeps what is there, then writes the new header. old is nil if there
// is none.
func (r *run) replace(ctx context.Context, path string, st *headerStorage, old *luks.Header, p *luks.Replacement, o HeaderOptions) (c HeaderChange, err error) {
	if p.Size() > st.size() && !st.grow {
		return c, fmt.Errorf("%s: %w: it has %d bytes, and the header takes %d", path, ErrSize, st.size(), p.Size())
	}
	n := p.Size()
	if old != nil {
		n = max(n, old.BackupSize())
	}
	if c.Kept, err = r.keep(path, st, min(n, st.size()), o.Keep); err != nil {
		return c, err
	}
	c.Header, c.Lost = p.Header(), p.Lost()
	if err := p.Write(ctx, st); err != nil {
		return c, fmt.Errorf("%s: %w; the header that was there is in %s", path, err, c.Kept)
	}
	return c, nil
}

// keep copies the first n bytes to a new file.
func (r *run) keep(path string, st *headerStorage, n int64, to string) (string, error) {
	fill := func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(st, 0, n))
		return err
	}
	if to != "" {
		return to, r.newFile(to, n, fill)
	}
	dir := filepath.Dir(path)
	if s, err := r.state(path); err == nil && s.kind == block {
		dir = "."
	}
	name := filepath.Base(path) + ".header-" + time.Now().UTC().Format("20060102T150405Z")
	for try := 1; ; try++ {
		to = filepath.Join(dir, name+".backup")
		if try > 1 {
			to = filepath.Join(dir, fmt.Sprintf("%s-%d.backup", name, try))
		}
		if err := r.newFile(to, n, fill); !errors.Is(err, ErrExists) || try == 100 {
			return to, err
		}
	}
}

// ConvertHeader makes the header of the volume at path one of another LUKS
// version: see luks.Header.Convert. What is overwritten is kept in a file
// first; see RestoreHeader for what a crash leaves.
func ConvertHeader(ctx context.Context, path string, version int, o HeaderOptions) (HeaderChange, error) {
	r := &run{system: host, warn: o.Warn}
	return r.convertHeader(ctx, path, version, o)
}

func (r *run) convertHeader(ctx context.Context, path string, version int, o HeaderOptions) (c HeaderChange, err error) {
	err = r.changeHeader(ctx, path, o, func(path string, st *headerStorage) error {
		old, err := luks.ReadHeader(st, st.size())
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		p, err := old.Convert(st, version)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		c, err = r.replace(ctx, path, st, old, p, o)
		return err
	})
	return c, err
}

// WipeHeader removes the header of the volume at path: see luks.Wipe.
func WipeHeader(ctx context.Context, path string, o HeaderOptions) (c HeaderChange, err error) {
	r := &run{system: host, warn: o.Warn}
	err = r.changeHeader(ctx, path, o, func(path string, st *headerStorage) error {
		if c.Header, err = luks.Wipe(ctx, st, st.size()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	return c, err
}

// DiffHeaders compares the header of the volume at path with that at other, a
// backup or another volume: see luks.Diff.
func DiffHeaders(ctx context.Context, path, other string, o OpenOptions) ([]luks.Difference, error) {
	r := &run{system: host, warn: o.Warn}
	path, a, err := r.openHeaderOf(path, o)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	b, err := r.openHeader(other)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	ha, err := r.readHeader(ctx, path, a, a.Size())
	if err != nil {
		return nil, err
	}
	hb, err := r.readHeader(ctx, other, b, b.Size())
	if err != nil {
		return nil, err
	}
	return luks.Diff(ha, hb, a, b)
}

// changeHeader locks what holds the header of the volume at path, as EditHeader
// does for a change, and lets job work on it.
func (r *run) changeHeader(ctx context.Context, path string, o HeaderOptions, job func(path string, st *headerStorage) error) (err error) {
	in := o.Inside
	path, dev, err := r.openHeaderOf(path, o.open())
	if err != nil {
		return err
	}
	if o.Header != "" {
		in = Inside{}
	}
	st := &headerStorage{run: r, path: path, in: in, read: dev}
	defer func() { err = errors.Join(err, st.close()) }()
	if in == (Inside{}) {
		st.grow, err = r.mayGrow(path, dev, o)
		if err != nil {
			return err
		}
	}
	release, err := st.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	return job(path, st)
}

// mayGrow tells whether path is a file with nothing but a detached header in it.
func (r *run) mayGrow(path string, dev device.Device, o HeaderOptions) (bool, error) {
	s, err := r.state(path)
	if err != nil || s.kind != regular {
		return false, err
	}
	if o.Header != "" {
		return true, nil
	}
	h, err := luks.ReadHeader(dev, dev.Size())
	return err == nil && h.Detached(), nil
}

// size is the length in bytes of what holds the header.
func (s *headerStorage) size() int64 { return s.device().Size() }
