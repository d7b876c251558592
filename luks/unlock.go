package luks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// Unlock tries the passphrase on the keyslots that o allows, preferred ones
// first, and returns the volume with its key. r is what the header was read
// from: keyslot areas are read from it.
//
// The error wraps ErrWrongPassphrase if a keyslot could be tried to its end and
// did not open; otherwise it says why none could: ErrNoMemory, ErrPolicy,
// ErrUnsupported, ErrKeyslotDamaged (only if every keyslot tried is measurably
// damaged), ErrNoKeyslot, or an error of r. Its text tells of each keyslot. An
// unknown mandatory requirement is ErrUnsupported, and what o.Policy does not
// allow is ErrPolicy, before anything is tried. A keyslot is refused before its
// KDF runs, too, if its cost or that of all tried so far is beyond the policy.
//
// While the data is being reencrypted it may need two keys. The passphrase is
// then tried on keyslots of the other one, too, whatever o.Slot; if none opens,
// the volume does, and Volume.Segments says why its data cannot be read.
//
// passphrase is the caller's to wipe. When ctx ends, Unlock returns its error
// at once; Argon2 cannot be stopped and goes on in the background to its end,
// until which it keeps its memory.
func (h *Header) Unlock(ctx context.Context, r io.ReaderAt, passphrase []byte, o UnlockOptions) (*Volume, error) {
	if err := h.checkRequirements(); err != nil {
		return nil, err
	}
	slots, err := h.candidates(o.Slot)
	if err != nil {
		return nil, err
	}
	if err := o.Policy.Check(h); err != nil {
		return nil, err
	}
	var spent time.Duration
	var failed slotErrors
	left := &budget{policy: o.Policy}
	for _, k := range slots {
		key, err := h.tryKeyslot(ctx, r, k, passphrase, left, &spent)
		if err == nil {
			d := h.digestOf(k.ID)
			v := &Volume{Header: h, Slot: k.ID, Unbound: len(d.Segments) == 0, KDFTime: spent, digest: d.ID, key: key}
			return v.withOtherKeys(ctx, r, passphrase, failed, left)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		failed = append(failed, slotError{k.ID, err})
	}
	return nil, failed.join()
}

// tryKeyslot checks everything that needs no KDF first.
func (h *Header) tryKeyslot(ctx context.Context, r io.ReaderAt, k *Keyslot, passphrase []byte, left *budget, spent *time.Duration) (*secret.Buffer, error) {
	d := h.digestOf(k.ID)
	if err := k.supported(d, left.policy); err != nil {
		return nil, err
	}
	if err := left.take(k.KDF, k.Area.KeySize, d); err != nil {
		return nil, err
	}
	if err := k.KDF.affordable(); err != nil {
		return nil, err
	}
	return k.open(ctx, r, d, passphrase, spent)
}

// candidates returns the keyslots to try, in order. Without a number these are
// the luks2 ones bound to a segment, preferred before normal, by ID; an
// ignored and an unbound keyslot take part only by their numbers.
func (h *Header) candidates(slot int) ([]*Keyslot, error) {
	if slot != AnySlot {
		k := h.keyslot(slot)
		switch {
		case k == nil:
			return nil, fmt.Errorf("%w: there is no keyslot %d", ErrNoKeyslot, slot)
		case !k.holdsKey():
			return nil, fmt.Errorf("%w: keyslot %d is of type %s", ErrNoKeyslot, slot, quote(k.Type))
		case h.digestOf(slot) == nil:
			return nil, fmt.Errorf("%w: keyslot %d has no digest to verify its key", ErrNoKeyslot, slot)
		}
		return []*Keyslot{k}, nil
	}
	var out []*Keyslot
	for _, p := range []Priority{PriorityPrefer, PriorityNormal} {
		for i := range h.Keyslots {
			k := &h.Keyslots[i]
			d := h.digestOf(k.ID)
			if k.holdsKey() && k.Priority == p && d != nil && len(d.Segments) > 0 {
				out = append(out, k)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: none of the %d is bound to data and to be tried without its number", ErrNoKeyslot, len(h.Keyslots))
	}
	return out, nil
}

// UnlockWithKey returns the volume for a volume key that is known. key is
// copied; it is checked against the digests of the segments, and
// ErrWrongPassphrase tells that it is another volume's. Other errors are
// ErrUnsupported, ErrPolicy and the context's.
func (h *Header) UnlockWithKey(ctx context.Context, key []byte, p Policy) (*Volume, error) {
	if err := h.checkRequirements(); err != nil {
		return nil, err
	}
	if err := p.Check(h); err != nil {
		return nil, err
	}
	left := &budget{policy: p}
	var unable error
	for i := range h.Digests {
		d := &h.Digests[i]
		if len(d.Segments) == 0 || !h.keySizeFits(d, len(key)) {
			continue
		}
		err := d.supported()
		if err == nil {
			err = left.takeDigest(d)
		}
		if err != nil {
			unable = fmt.Errorf("digest %d: %w", d.ID, err)
			continue
		}
		ok, err := d.verify(ctx, key)
		if err != nil {
			return nil, err
		}
		if ok {
			b := secret.New(len(key))
			copy(b.Bytes(), key)
			v := &Volume{Header: h, Slot: AnySlot, digest: d.ID, key: b}
			return v.withOtherKeys(ctx, nil, nil, nil, left)
		}
	}
	if unable != nil {
		return nil, unable
	}
	return nil, fmt.Errorf("%w: the %d bytes given are not the volume key", ErrWrongPassphrase, len(key))
}

// keySizeFits tells whether the key of a digest can have n bytes. PBKDF2 gives
// the same digest for a key and the same key with zeros behind it, so a digest
// alone does not tell. With every keyslot gone, the segment's cipher bounds the
// length.
func (h *Header) keySizeFits(d *Digest, n int) bool {
	if want, ok := h.keySize(d); ok {
		return n == want
	}
	return slices.ContainsFunc(d.Segments, func(id int) bool { return h.segment(id).keySizeFits(n) })
}

// keySize returns the length in bytes of the key of d, as its keyslots have it.
func (h *Header) keySize(d *Digest) (int, bool) {
	if h.luks1 != nil {
		return h.luks1.keyBytes, true // known with every keyslot gone, too
	}
	for _, id := range d.Keyslots {
		if k := h.keyslot(id); k.holdsKey() {
			return k.KeySize, true
		}
	}
	return 0, false
}

// slotError is what became of one keyslot.
type slotError struct {
	slot int
	err  error
}

type slotErrors []slotError

// ranks are the reasons in the order in which one speaks for all: if any
// keyslot could be tried to its end, the passphrase is wrong as far as one can
// tell; damage counts only if there is nothing else.
var ranks = []error{ErrWrongPassphrase, ErrNoMemory, ErrPolicy, ErrUnsupported, ErrKeyslotDamaged}

// join makes one error that wraps the reason that speaks for all and tells of
// the others in its text.
func (s slotErrors) join() error {
	rank := func(err error) int {
		for i, r := range ranks {
			if errors.Is(err, r) {
				return i
			}
		}
		return len(ranks) - 2 // an I/O error: like damage it says nothing of the passphrase, but may pass
	}
	slices.SortStableFunc(s, func(a, b slotError) int { return rank(a.err) - rank(b.err) })
	main := s[0]
	if errors.Is(main.err, ErrWrongPassphrase) {
		wrong := 0
		for wrong < len(s) && errors.Is(s[wrong].err, ErrWrongPassphrase) {
			wrong++
		}
		return fmt.Errorf("%w: tried keyslot %s%s", main.err, s[:wrong].numbers(), s[wrong:].text())
	}
	return fmt.Errorf("keyslot %d: %w%s", main.slot, main.err, s[1:].text())
}

func (s slotErrors) numbers() string {
	var out []string
	for _, e := range s {
		out = append(out, fmt.Sprint(e.slot))
	}
	return strings.Join(out, ", ")
}

func (s slotErrors) text() string {
	out := ""
	for _, e := range s {
		out += fmt.Sprintf("; keyslot %d: %v", e.slot, e.err)
	}
	return out
}
