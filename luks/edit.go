package luks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrDamagedCopy: of a LUKS2 header's two copies one is damaged. Reading gets
// along with the other; a change does not, since a crash could then leave none.
var ErrDamagedCopy = errors.New("a copy of the LUKS header is damaged")

// Editor changes the header of an existing volume: keyslots, tokens, names and
// flags. What it does not know of a header stays as it is, byte for byte.
//
// Every method is one change that survives a crash at any point: the volume
// then opens as it did before, or as it does after. Key material is written and
// made durable before the metadata that names it, and of the metadata first
// the primary copy, then the secondary, each made durable by itself
// (cryptsetup's order). A key that is removed is overwritten before the
// metadata says that it is gone, also cryptsetup's order: metadata that does
// not name a key never has one left behind on the disk.
//
// An Editor takes no locks of its own. What it does not hold a lock for it
// reads again before each change: see SetLock. It is not safe for use by
// several goroutines.
type Editor struct {
	st     Storage
	size   int64
	lock   func(context.Context) (release func() error, err error)
	header *Header

	checksumAlg string // of both copies; kept
	stale       *Copy  // the copy that a change before did not reach, or nil
}

// Edit reads the header at the start of st, size bytes long (or negative), for
// changing it. It writes nothing. Errors are those of ReadHeader, ErrDamagedCopy
// if one copy of a LUKS2 header is not whole, and ErrUnsupported for a header
// with mandatory requirements: an unknown one, or a reencryption under way, may
// not be written to by programs that do not take part in it.
func Edit(ctx context.Context, st Storage, size int64) (*Editor, error) {
	e := &Editor{st: st, size: size}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return e, e.reload()
}

// SetLock makes every change take a lock first, read the header again, and
// release the lock at its end; without one the caller holds such a lock. Keys
// are derived before the lock is taken, so that it is held briefly. The error
// of release is that of the change.
func (e *Editor) SetLock(lock func(context.Context) (release func() error, err error)) { e.lock = lock }

// Header returns the header as it was last read or written.
func (e *Editor) Header() *Header { return e.header }

// reload reads the header and refuses what may not be written to.
func (e *Editor) reload() error {
	h, err := ReadHeader(e.st, e.size)
	if err != nil {
		return err
	}
	e.stale = nil
	if h.Version != 1 {
		if err := e.compareCopies(h); err != nil {
			return err
		}
	}
	if len(h.Config.Requirements) > 0 {
		return unsupported("requirement %s: the header cannot be changed", quote(h.Config.Requirements[0]))
	}
	e.header = h
	return nil
}

// compareCopies finds out whether both copies of a LUKS2 header are whole, and
// which is older. A copy that is whole and older is what a crash between the
// two leaves; the next change brings it up to date first.
func (e *Editor) compareCopies(h *Header) error {
	b := make([]byte, binarySize)
	if _, err := readUpTo(e.st, b, h.placeOf(h.Copy)); err != nil {
		return err
	}
	e.checksumAlg = cString(b[offChecksumAlg:][:checksumAlgSize])
	old, err := readOther(e.st, e.size, h)
	if err != nil {
		return err
	}
	if old.SeqID != h.SeqID || old.json.raw != h.json.raw || old.Label != h.Label || old.Subsystem != h.Subsystem {
		other := h.Copy.other()
		e.stale = &other
	}
	return nil
}

// readOther reads the copy of a LUKS2 header that h is not. ErrDamagedCopy: it
// is not whole.
func readOther(r io.ReaderAt, size int64, h *Header) (*Header, error) {
	other := h.Copy.other()
	old, err := readCopy(r, size, other, h.placeOf(other))
	if errors.Is(err, ErrHeaderCorrupt) || errors.Is(err, ErrNotLUKS) || errors.Is(err, ErrUnsupported) {
		return nil, &kindError{kind: ErrDamagedCopy, err: fmt.Errorf("%w: %s header: %v", ErrDamagedCopy, other, err)}
	}
	return old, err
}

// placeOf returns where a copy of a LUKS2 header lies, in bytes.
func (h *Header) placeOf(c Copy) int64 {
	if c == Secondary {
		return h.Size
	}
	return 0
}

// change takes the lock, reads the header again, and lets do change it.
func (e *Editor) change(ctx context.Context, do func() error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.lock != nil {
		release, err := e.lock(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release()) }()
		return e.changeLocked(do)
	}
	return e.changeLocked(do)
}

func (e *Editor) changeLocked(do func() error) error {
	was := e.header
	if err := e.reload(); err != nil {
		return err
	}
	if e.header.UUID != was.UUID || e.header.Version != was.Version {
		return fmt.Errorf("%w: another volume is there now: UUID %s, before %s", ErrPolicy, quote(e.header.UUID), quote(was.UUID))
	}
	if e.stale != nil {
		// Otherwise a crash while the newer copy is written would bring the
		// older one back, and with it keys that are gone.
		if err := e.writeCopy(e.header, *e.stale, []byte(e.header.json.raw)); err != nil {
			return err
		}
		e.stale = nil
	}
	return do()
}

// edit is change for a LUKS2 header: do changes the JSON, and the binary
// header's names through h, and what it made is written.
func (e *Editor) edit(ctx context.Context, do func(h *Header, root *jsonNode) error) error {
	return e.change(ctx, func() error {
		if e.header.Version != 2 {
			return unsupported("LUKS version %d: its header has no place for that", e.header.Version)
		}
		return e.apply(do)
	})
}

// apply is the part of edit that comes after the lock.
func (e *Editor) apply(do func(h *Header, root *jsonNode) error) error {
	h := *e.header
	root := newJSONNode([]byte(e.header.json.raw))
	if err := do(&h, root); err != nil {
		return err
	}
	return e.commit(&h, root.text())
}

// commit writes a new header, names of h and JSON text, in both copies with
// the next sequence number. It is checked as one that is read, before anything
// is written. There is no way back once the first copy is under way, so no
// context breaks it off.
func (e *Editor) commit(h *Header, text []byte) error {
	if e.header.SeqID == math.MaxUint64 {
		return corrupt("seqid %d has no next", e.header.SeqID)
	}
	next := *h
	next.SeqID = e.header.SeqID + 1
	whole, err := next.marshalCopy(Primary, text, e.checksumAlg)
	if err != nil {
		return err
	}
	parsed, err := readCopy(bytes.NewReader(whole), -1, Primary, 0)
	if err != nil {
		return fmt.Errorf("%w: the change would make a header that is not valid: %v", ErrOption, err)
	}
	for _, c := range []Copy{Primary, Secondary} {
		if err := e.writeCopy(parsed, c, text); err != nil {
			return err
		}
	}
	e.header = parsed
	return nil
}

// writeCopy writes one copy, with a salt of its own, and makes it durable.
func (e *Editor) writeCopy(h *Header, c Copy, text []byte) error {
	whole, err := h.marshalCopy(c, text, e.checksumAlg)
	if err != nil {
		return err
	}
	if err := writeAt(e.st, whole, h.placeOf(c)); err != nil {
		return err
	}
	return flush(e.st)
}
