package luks

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// ChangeKey makes the keyslot open with another passphrase, key derivation and
// so on. v is the volume, unlocked by that keyslot (or by any that holds the
// same key). It returns the keyslot's number, which stays the same for LUKS2; a
// LUKS1 keyslot becomes the first that is free, as with cryptsetup.
//
// The new keyslot is whole on the disk before the old one is touched, so both
// need room for a moment: ErrSize says that there is none. Other errors are
// those of AddKey.
func (e *Editor) ChangeKey(ctx context.Context, v *Volume, slot int, n NewKeyslot) (int, error) {
	if e.header.Version == 1 {
		return e.changeLUKS1(ctx, v, slot, n)
	}
	if n.Key != nil {
		return 0, fmt.Errorf("%w: the key in a keyslot stays, only what opens it changes", ErrOption)
	}
	made, err := e.prepare(ctx, v.Key(), n)
	if err != nil {
		return 0, err
	}
	return slot, e.change(ctx, func() error {
		old, err := e.slotOf(v, slot)
		if err != nil {
			return err
		}
		if n.Priority == nil {
			n.Priority = &old.Priority
		}
		if err := e.place(made); err != nil {
			return err
		}
		return e.replace(slot, old.Area, made, n.Priority)
	})
}

// slotOf returns the keyslot if it holds the key of v.
func (e *Editor) slotOf(v *Volume, slot int) (*Keyslot, error) {
	digest, err := e.digestFor(v)
	if err != nil {
		return nil, err
	}
	k := e.header.keyslot(slot)
	if k == nil {
		return nil, fmt.Errorf("%w: there is no keyslot %d", ErrNoKeyslot, slot)
	}
	if d := e.header.digestOf(slot); d == nil || d.ID != digest || k.Type != typeLUKS2 {
		return nil, fmt.Errorf("%w: keyslot %d does not hold the key that was unlocked", ErrPolicy, slot)
	}
	return k, nil
}

// replace puts a keyslot whose area is written in the place of another. As in
// cryptsetup the old one stays under another number until its area has been
// overwritten, so that metadata never forgets an area with a key in it. With
// all numbers in use it is forgotten at once.
func (e *Editor) replace(slot int, old Area, made *newSlot, p *Priority) error {
	spare := -1
	err := e.apply(func(_ *Header, root *jsonNode) error {
		keyslots := root.child("keyslots")
		if spare = freeID(keyslots.names(), maxObjects); spare >= 0 {
			keyslots.set(strconv.Itoa(spare), keyslots.child(strconv.Itoa(slot)).text())
			digest := strconv.Itoa(e.header.digestOf(slot).ID)
			root.path("digests", digest, "keyslots").addID(spare)
		}
		keyslots.set(strconv.Itoa(slot), made.json(p))
		return nil
	})
	if err != nil {
		return err
	}
	if err := e.wipeArea(old); err != nil || spare < 0 {
		return err
	}
	return e.forget(spare)
}

// ConvertKey gives the keyslot another key derivation or area cipher under the
// same passphrase, as ChangeKey.
func (e *Editor) ConvertKey(ctx context.Context, v *Volume, slot int, n NewKeyslot) (int, error) {
	return e.ChangeKey(ctx, v, slot, n)
}

// RemoveKey destroys a keyslot: it overwrites the area, then takes it out of
// the metadata. Tokens that were for this keyslot only can open nothing any
// more: they go with it, and are returned.
//
// The last keyslot that holds the key of the data goes only with force: without
// it, and without the volume key itself, the data is lost. Errors wrap
// ErrNoKeyslot, ErrPolicy (the last one) and those of Edit.
func (e *Editor) RemoveKey(ctx context.Context, slot int, force bool) (orphans []Token, err error) {
	err = e.change(ctx, func() error {
		k := e.header.keyslot(slot)
		if k == nil {
			return fmt.Errorf("%w: there is no keyslot %d", ErrNoKeyslot, slot)
		}
		if !force && e.header.lastKey(slot) {
			return fmt.Errorf("%w: keyslot %d is the last one that opens the data", ErrPolicy, slot)
		}
		if err := e.wipeArea(k.Area); err != nil {
			return err
		}
		if e.header.Version == 1 {
			return e.forgetLUKS1(slot)
		}
		for _, t := range e.header.Tokens {
			if slices.Equal(t.Keyslots, []int{slot}) {
				orphans = append(orphans, t)
			}
		}
		return e.forget(slot)
	})
	return orphans, err
}

// lastKey tells whether no other keyslot holds the key of the data that this
// one holds.
func (h *Header) lastKey(slot int) bool {
	d := h.digestOf(slot)
	if d == nil || len(d.Segments) == 0 || !h.keyslot(slot).holdsKey() {
		return false
	}
	return !slices.ContainsFunc(d.Keyslots, func(id int) bool {
		return id != slot && h.keyslot(id).holdsKey()
	})
}

// forget takes a keyslot out of the metadata, with the tokens that were for it
// only and the digest that verified nothing else.
func (e *Editor) forget(slot int) error {
	return e.apply(func(_ *Header, root *jsonNode) error {
		root.child("keyslots").remove(strconv.Itoa(slot))
		tokens := root.child("tokens")
		for _, id := range slices.Clone(tokens.names()) {
			ids := tokens.path(id, "keyslots")
			if ids.removeID(slot) && len(ids.ids()) == 0 {
				tokens.remove(id)
			}
		}
		digests := root.child("digests")
		for _, id := range slices.Clone(digests.names()) {
			ids := digests.path(id, "keyslots")
			if ids.removeID(slot) && len(ids.ids()) == 0 && len(digests.path(id, "segments").ids()) == 0 {
				digests.remove(id)
			}
		}
		return nil
	})
}

// SetPriority says in which order the keyslot is tried. LUKS2 only.
func (e *Editor) SetPriority(ctx context.Context, slot int, p Priority) error {
	if p < PriorityIgnore || p > PriorityPrefer {
		return fmt.Errorf("%w: priority %d is not from %d to %d", ErrOption, p, PriorityIgnore, PriorityPrefer)
	}
	return e.edit(ctx, func(_ *Header, root *jsonNode) error {
		k := root.path("keyslots", strconv.Itoa(slot))
		switch {
		case k == nil:
			return fmt.Errorf("%w: there is no keyslot %d", ErrNoKeyslot, slot)
		case p == PriorityNormal:
			k.remove("priority")
		default:
			k.set("priority", encodeJSON(p))
		}
		return nil
	})
}
