package luks

import (
	"context"
	"errors"
	"fmt"
)

// Repair makes both copies of a LUKS2 header whole again: the damaged or older
// one is written anew from the other. It returns the header and the copy that
// was written, which is nil if there was nothing to do. The copy it is written
// from is not touched.
//
// A LUKS1 header has no second copy: it is whole, or the error is
// ErrHeaderCorrupt, as it is when no copy is whole. A backup helps then. With
// force, a secondary copy counts also where the volume starts as another
// format: ErrNotLUKS without it.
func Repair(ctx context.Context, st Storage, size int64, force bool) (*Header, *Copy, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	h, err := ReadHeader(st, size)
	if errors.Is(err, ErrNotLUKS) && force {
		if secondary, _ := findSecondary(st, size); secondary != nil {
			h, err = secondary, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if h.Version == 1 {
		return h, nil, nil
	}
	return repairCopy(st, size, h)
}

// repairCopy writes the copy that h is not, unless it is as h.
func repairCopy(st Storage, size int64, h *Header) (*Header, *Copy, error) {
	e := &Editor{st: st, size: size}
	err := e.compareCopies(h)
	if err == nil && e.stale == nil {
		return h, nil, nil
	}
	if err != nil && !errors.Is(err, ErrDamagedCopy) {
		return nil, nil, err
	}
	other := h.Copy.other()
	if err := e.writeCopy(h, other, []byte(h.json.raw)); err != nil {
		return nil, nil, err
	}
	now, err := ReadHeader(st, size)
	if err != nil {
		return nil, nil, fmt.Errorf("the repaired header: %w", err)
	}
	return now, &other, nil
}

// EraseKeys destroys all keyslots: the whole keyslots area is overwritten with
// random bytes, then they are taken out of the metadata, with the tokens that
// were for them; those are returned. The header stays. Without the volume key,
// or a backup of the header, the data is lost. Errors are those of Edit.
func (e *Editor) EraseKeys(ctx context.Context) (orphans []Token, err error) {
	err = e.change(ctx, func() error {
		h := e.header
		if err := e.wipeArea(Area{Offset: h.KeyslotsOffset(), Size: h.Config.KeyslotsSize}); err != nil {
			return err
		}
		if h.Version == 1 {
			l := *h.luks1
			for i := range l.slots {
				l.deactivate(i)
			}
			return e.writeLUKS1(&l)
		}
		for _, t := range h.Tokens {
			if len(t.Keyslots) > 0 {
				orphans = append(orphans, t)
			}
		}
		return e.apply(func(_ *Header, root *jsonNode) error { return h.forgetAll(root) })
	})
	return orphans, err
}

// forgetAll takes all keyslots out of the metadata, with their tokens and the
// digests that are for nothing else.
func (h *Header) forgetAll(root *jsonNode) error {
	root.set("keyslots", []byte("{}"))
	tokens, digests := root.child("tokens"), root.child("digests")
	for _, id := range append([]string(nil), tokens.names()...) {
		if len(tokens.path(id, "keyslots").ids()) > 0 {
			tokens.remove(id)
		}
	}
	for _, id := range append([]string(nil), digests.names()...) {
		if len(digests.path(id, "segments").ids()) == 0 {
			digests.remove(id)
			continue
		}
		digests.path(id, "keyslots").setIDs(nil)
	}
	return nil
}

// maxWiped is how much in front of the data Wipe clears besides the keyslots:
// no copy of a header starts behind it.
const maxWiped = 4 << 20

// Wipe removes the header from st, size bytes long: afterwards nothing tells
// of a LUKS volume, and without the volume key and a backup of the header the
// data is lost. It overwrites the keyslots with random bytes, then clears them,
// the bytes before the data (up to 4 MiB of them), and every other secondary
// copy in front of the data that is whole and in its place. It returns once
// that is durable. Errors are those of ReadHeader: what it cannot read, and so
// does not know the extent of, it does not wipe.
//
// A crash meanwhile leaves a header to wipe again, or none; the keyslots are
// gone before the header.
func Wipe(ctx context.Context, st Storage, size int64) (*Header, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h, err := ReadHeader(st, size)
	if err != nil {
		return nil, err
	}
	end := min(h.space(), size)
	e := &Editor{st: st, size: size}
	if err := e.wipeArea(Area{Offset: h.KeyslotsOffset(), Size: h.Config.KeyslotsSize}); err != nil {
		return nil, err
	}
	ranges := [][2]int64{{0, min(end, maxWiped)}, {h.KeyslotsOffset(), min(h.End(), end)}}
	for _, off := range headerSizes {
		if off >= end {
			break
		}
		if _, err := readCopy(st, size, Secondary, off); err == nil {
			ranges = append(ranges, [2]int64{off, min(2*off, end)})
		}
	}
	if err := forgetCopies(st, ranges); err != nil {
		return nil, err
	}
	for _, r := range ranges {
		if r[0] < r[1] {
			if err := clearRange(ctx, st, r[0], r[1]); err != nil {
				return nil, err
			}
		}
	}
	return h, flush(st)
}

// forgetCopies clears the first sectors of ranges, so that no header is found:
// the primary's last, since it is what a second attempt looks for.
func forgetCopies(st Storage, ranges [][2]int64) error {
	for i := len(ranges) - 1; i >= 0; i-- {
		if r := ranges[i]; r[0] < r[1] {
			if err := writeAt(st, make([]byte, min(512, r[1]-r[0])), r[0]); err != nil {
				return err
			}
		}
	}
	return flush(st)
}
