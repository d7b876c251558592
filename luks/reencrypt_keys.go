package luks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// digestKey is a volume key beside the first, with the digest that verified it.
type digestKey struct {
	digest int
	key    *secret.Buffer
}

// SegmentKey returns the volume key of a segment: of one that Segments returned
// or Reencryption holds. It is nil if that is not at hand or the segment is not
// encrypted. It is the key itself, valid until Close, as that of Key.
func (v *Volume) SegmentKey(s Segment) []byte {
	if s.Type != typeCrypt {
		return nil
	}
	d := v.Header.segmentDigest(s.ID)
	if slices.Contains(s.Flags, flagReencrypting) {
		// Both keys' digests name it; it is read as it will be.
		if i := slices.IndexFunc(v.Header.Segments, func(s Segment) bool { return slices.Contains(s.Flags, flagFinal) }); i >= 0 {
			d = v.Header.segmentDigest(v.Header.Segments[i].ID)
		}
	}
	return v.digestKey(d)
}

func (v *Volume) digestKey(d *Digest) []byte {
	if d == nil {
		return nil
	}
	if d.ID == v.digest {
		return v.key.Bytes()
	}
	for _, k := range v.more {
		if k.digest == d.ID {
			return k.key.Bytes()
		}
	}
	return nil
}

// withOtherKeys is the end of unlocking: it completes the keys of a volume in
// reencryption, and finds out whether the digest of the metadata vouches for
// it. failed are the keyslots that the passphrase did not open; without r there
// is no passphrase. The error is the context's only: what else is wrong keeps
// from the data, not from the key.
func (v *Volume) withOtherKeys(ctx context.Context, r io.ReaderAt, passphrase []byte, failed slotErrors, left *budget) (*Volume, error) {
	plan, err := v.Header.Reencryption()
	if err != nil || plan == nil || v.Unbound {
		return v, nil // Segments says so
	}
	v.noData = v.findKeys(ctx, plan, r, passphrase, failed, left)
	if v.noData == nil {
		v.noData = v.verify(ctx, plan, left)
	}
	if ctx.Err() != nil {
		v.Close()
		return nil, ctx.Err()
	}
	return v, nil
}

func (v *Volume) findKeys(ctx context.Context, plan *Reencryption, r io.ReaderAt, passphrase []byte, failed slotErrors, left *budget) error {
	for _, s := range []*Segment{&plan.Old, &plan.New} {
		d := v.Header.segmentDigest(s.ID)
		if d == nil || v.digestKey(d) != nil {
			continue
		}
		if r == nil {
			return fmt.Errorf("%w: while the volume is being reencrypted its data has two keys: that of digest %d is missing", ErrWrongPassphrase, d.ID)
		}
		key, err := v.tryDigest(ctx, d, r, passphrase, failed, left)
		if err != nil {
			return fmt.Errorf("keyslot %d opened, but while the volume is being reencrypted its data has a second key: %w", v.Slot, err)
		}
		v.more = append(v.more, digestKey{d.ID, key})
	}
	return nil
}

// tryDigest tries the passphrase on the keyslots of one digest.
func (v *Volume) tryDigest(ctx context.Context, d *Digest, r io.ReaderAt, passphrase []byte, failed slotErrors, left *budget) (*secret.Buffer, error) {
	slots, err := v.Header.candidates(AnySlot)
	if err != nil && !errors.Is(err, ErrNoKeyslot) {
		return nil, err
	}
	var why slotErrors
	for _, k := range slots {
		if !slices.Contains(d.Keyslots, k.ID) {
			continue
		}
		if i := slices.IndexFunc(failed, func(e slotError) bool { return e.slot == k.ID }); i >= 0 {
			why = append(why, failed[i])
			continue
		}
		key, err := v.Header.tryKeyslot(ctx, r, k, passphrase, left, &v.KDFTime)
		if err == nil {
			return key, nil
		}
		why = append(why, slotError{k.ID, err})
	}
	if len(why) == 0 {
		return nil, fmt.Errorf("%w: none holds the key of digest %d", ErrNoKeyslot, d.ID)
	}
	return nil, why.join()
}

// verify compares keys, keyslot and backup segments with the digest that
// vouches for them: otherwise who can write to the header could have data
// taken for encrypted, or not encrypted, as he likes (CVE-2021-4122).
func (v *Volume) verify(ctx context.Context, plan *Reencryption, left *budget) error {
	if plan.version < 2 {
		return nil // the policy has let it pass
	}
	d := v.Header.digestOf(plan.keyslot.ID)
	if d == nil {
		return corrupt("JSON keyslots.%d: no digest vouches for the reencryption", plan.keyslot.ID)
	}
	if err := d.supported(); err != nil {
		return fmt.Errorf("digest %d: %w", d.ID, err)
	}
	if err := left.takeDigest(d); err != nil {
		return fmt.Errorf("digest %d: %w", d.ID, err)
	}
	text := plan.vouched(v)
	defer secret.Wipe(text)
	ok, err := d.verify(ctx, text)
	if err == nil && !ok {
		err = corrupt("JSON digests.%d: it does not vouch for the reencryption of keyslot %d: keyslot or backup segments were changed", d.ID, plan.keyslot.ID)
	}
	return err
}

// vouched is what the digest is made of (cryptsetup's, which the specification
// leaves open): a version, the keys, then values of the objects, numbers big
// endian.
func (r *Reencryption) vouched(v *Volume) []byte {
	oldKey, newKey := v.SegmentKey(r.Old), v.SegmentKey(r.New)
	a := &r.keyslot.Area
	size := 512 + len(oldKey) + len(newKey) + len(a.Hash)
	for _, s := range []*Segment{&r.Old, &r.New, &r.Old} { // a moved segment's strings are the old one's
		size += len(s.Type) + len(s.Cipher)
	}
	b := make([]byte, 0, size) // large enough: no key is left behind where it grows
	b = append(b, 'v', '0'+byte(r.version))
	b = append(b, oldKey...)
	if v.Header.segmentDigest(r.Old.ID) != v.Header.segmentDigest(r.New.ID) {
		b = append(b, newKey...)
	}
	number := func(n uint64) { b = binary.BigEndian.AppendUint64(b, n) }
	b = append(b, r.Mode+r.Direction+a.Type...)
	number(uint64(a.Offset))
	number(uint64(a.Size))
	if a.Hash != "" {
		b = append(b, a.Hash...)
		b = binary.BigEndian.AppendUint32(b, uint32(a.SectorSize))
	}
	if a.ShiftSize != 0 {
		number(uint64(a.ShiftSize))
	}
	for _, s := range []*Segment{&r.Old, &r.New, r.moved} {
		if s == nil {
			continue
		}
		b = append(b, s.Type...)
		number(uint64(s.Offset))
		if s.Size < 0 {
			b = append(b, "dynamic"...)
		} else {
			number(uint64(s.Size))
		}
		if s.Type == typeCrypt {
			number(s.IVTweak)
			b = append(b, s.Cipher...)
			b = binary.BigEndian.AppendUint32(b, uint32(s.SectorSize))
		}
	}
	return b
}
