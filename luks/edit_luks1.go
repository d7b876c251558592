package luks

import (
	"context"
	"fmt"
)

// A LUKS1 header has eight keyslots, each with an area of its own, and no copy
// of itself. Its 592 bytes lie in two sectors, which luks1Header.write writes
// so that a crash between them leaves every other keyslot as it was.

// addLUKS1 is AddKey for LUKS1.
func (e *Editor) addLUKS1(ctx context.Context, v *Volume, n NewKeyslot) (slot int, err error) {
	made, err := e.prepareLUKS1(ctx, v, n)
	if err != nil {
		return 0, err
	}
	err = e.change(ctx, func() error {
		slot, err = e.addLockedLUKS1(v, n.Slot, made)
		return err
	})
	return slot, err
}

func (e *Editor) addLockedLUKS1(v *Volume, slot int, made *newSlot) (int, error) {
	if _, err := e.digestFor(v); err != nil {
		return 0, err
	}
	l := *e.header.luks1
	switch {
	case slot == AnySlot:
		if slot = l.freeSlot(); slot < 0 {
			return 0, fmt.Errorf("%w: all %d keyslots are in use", ErrSize, luks1Slots)
		}
	case slot < 0 || slot >= luks1Slots:
		return 0, fmt.Errorf("%w: keyslot %d is not from 0 to %d", ErrOption, slot, luks1Slots-1)
	case l.slots[slot].active:
		return 0, fmt.Errorf("%w: keyslot %d is in use", ErrOption, slot)
	}
	if l.slots[slot].stripes != made.AF.Stripes {
		return 0, unsupported("anti-forensic split of %d stripes in keyslot %d", l.slots[slot].stripes, slot)
	}
	off, size := l.area(slot)
	if err := e.writeArea(made.contents, off, size); err != nil {
		return 0, err
	}
	l.activate(slot, made.KDF.Iterations, [luks1SaltSize]byte(made.KDF.Salt))
	return slot, e.writeLUKS1(&l)
}

// changeLUKS1 is ChangeKey for LUKS1.
func (e *Editor) changeLUKS1(ctx context.Context, v *Volume, slot int, n NewKeyslot) (now int, err error) {
	made, err := e.prepareLUKS1(ctx, v, n)
	if err != nil {
		return 0, err
	}
	err = e.change(ctx, func() error {
		old := e.header.keyslot(slot)
		if old == nil {
			return fmt.Errorf("%w: there is no keyslot %d", ErrNoKeyslot, slot)
		}
		area := old.Area
		if now, err = e.addLockedLUKS1(v, AnySlot, made); err != nil {
			return err
		}
		if err := e.wipeArea(area); err != nil {
			return err
		}
		return e.forgetLUKS1(slot)
	})
	return now, err
}

// forgetLUKS1 makes a keyslot inactive whose area has been overwritten.
func (e *Editor) forgetLUKS1(slot int) error {
	l := *e.header.luks1
	l.deactivate(slot)
	return e.writeLUKS1(&l)
}

func (e *Editor) writeLUKS1(l *luks1Header) error {
	next, err := parseLUKS1(l.encode(), e.size)
	if err != nil {
		return fmt.Errorf("%w: the change would make a header that is not valid: %v", ErrOption, err)
	}
	if err := l.write(e.st); err != nil {
		return err
	}
	e.header = next
	return nil
}

// prepareLUKS1 fills a keyslot's area with the volume key. Everything but the
// passphrase and the number of iterations is the header's.
func (e *Editor) prepareLUKS1(ctx context.Context, v *Volume, n NewKeyslot) (*newSlot, error) {
	l := e.header.luks1
	if n.Key != nil || n.Priority != nil || n.Cipher != "" || n.KeySize != 0 || n.Hash != "" && n.Hash != l.hashName() {
		return nil, unsupported("in LUKS1: unbound keyslots, priorities, and a cipher or hash that is not the header's")
	}
	made := &newSlot{Keyslot: l.keyslot(0)}
	made.KDF = n.KDF
	made.AF.Stripes = afStripes
	if n.KDF.Type == "" {
		var err error
		if made.KDF, err = ChooseKDF(ctx, KDFTarget{Type: KDFPBKDF2, Hash: l.hashName(), KeySize: l.keyBytes}); err != nil {
			return nil, err
		}
	}
	if made.KDF.Type != KDFPBKDF2 || made.KDF.Hash != l.hashName() {
		return nil, unsupported("in LUKS1: KDF %s-%s, not the header's pbkdf2-%s", made.KDF.Type, made.KDF.Hash, l.hashName())
	}
	if err := completeKDF(ctx, &made.KDF, l.keyBytes); err != nil {
		return nil, err
	}
	if err := writable(l.spec()); err != nil {
		return nil, err
	}
	var err error
	made.contents, err = made.seal(ctx, v.Key(), n.Passphrase)
	return made, err
}
