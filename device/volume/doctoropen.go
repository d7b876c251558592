package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/xtsdisk/xtsdisk/luks"
)

// tryToOpen tries what was given to open the volume. It returns nil if that
// does not open it, or not its data.
func (x *examination) tryToOpen(ctx context.Context, path string) (*luks.Volume, error) {
	o := &x.Open
	if o.Ask == nil && o.VolumeKey == nil && o.Token == nil && o.Passphrase == nil {
		x.add(NotTried, Note, nil, "no passphrase was given: whether one opens it, and what the data looks like, was not looked at")
		x.slots() // says which could not be tried
		return nil, nil
	}
	slots := x.slots()
	pass := o.Passphrase
	if o.VolumeKey == nil && o.Token == nil {
		if len(slots) == 0 {
			x.add(NotTried, Bad, luks.ErrNoKeyslot, "there is no keyslot that a passphrase could be tried on")
			return nil, nil
		}
		if o.Ask != nil {
			var err error
			if pass, err = o.Ask(ctx, x.Header); err != nil {
				return nil, err
			}
		}
	}
	if o.VolumeKey != nil || o.Token != nil {
		x.tell(len(slots))
		ask := *o
		ask.Ask = nil
		v, err := x.unlock(ctx, path, x.Header, x.head, ask)
		return x.opened(ctx, v, err)
	}
	var list []variant
	if x.Mistakes {
		list = variants(pass)
		defer wipeVariants(list)
	}
	return x.tryPassphrases(ctx, pass, list, slots)
}

// slots are the keyslots to try: those that any passphrase is tried on, then
// those that are tried only when they are named. Damaged ones, and those that
// cannot be tried, are left out.
func (x *examination) slots() []int {
	tried := x.Header.Tried(x.Open.Slot)
	if x.Open.Slot == luks.AnySlot {
		for _, k := range x.Header.Keyslots {
			if !slices.Contains(tried, k.ID) {
				tried = append(tried, k.ID)
			}
		}
	}
	var out []int
	for _, id := range tried {
		damaged := slices.ContainsFunc(x.Areas, func(a luks.AreaState) bool { return a.Slot == id && (a.Bad > 0 || a.Missing > 0) })
		err := x.Header.CheckKeyslot(id, x.Open.Policy)
		switch {
		case errors.Is(err, luks.ErrNoKeyslot):
		case err != nil:
			f := x.add(NotTried, Warning, err, "keyslot %d cannot be tried: %v", id, err)
			f.Keyslot = id
		case !damaged:
			out = append(out, id)
		}
	}
	if len(out) == 0 {
		x.worsen()
	}
	return out
}

// worsen makes damaged keyslots bad: there is no other one.
func (x *examination) worsen() {
	for i := range x.Findings {
		if f := &x.Findings[i]; f.Kind == KeyslotDamaged {
			f.Severity = Bad
		}
	}
}

func (x *examination) tell(runs int) {
	if x.Plan == nil || runs == 0 {
		return
	}
	var most time.Duration
	for _, k := range x.Header.Keyslots {
		most = max(most, k.KDF.EstimatedTime(k.Area.KeySize))
	}
	x.Plan(runs, time.Duration(runs)*most)
}

// tryPassphrases tries the passphrase on every keyslot, then what it may have
// been meant to be, as far as the number of runs allows.
func (x *examination) tryPassphrases(ctx context.Context, pass []byte, list []variant, slots []int) (*luks.Volume, error) {
	if len(slots) == 0 {
		return nil, nil
	}
	left := max(0, x.MaxRuns/len(slots)-1)
	cut := len(list) - min(len(list), left)
	list = list[:len(list)-cut]
	x.tell((1 + len(list)) * len(slots))
	v, wrong, err := x.tryOne(ctx, pass, slots)
	if v != nil || err != nil {
		return x.opened(ctx, v, err)
	}
	if len(wrong) == 0 {
		return nil, nil // none could be tried, and why is said
	}
	slots = wrong
	x.add(WrongPassphrase, Bad, luks.ErrWrongPassphrase, "the passphrase opens none of the keyslots that could be tried (%s)", numbers(slots))
	for _, one := range list {
		v, _, err := x.tryOne(ctx, one.text.Bytes(), slots)
		if err != nil {
			return nil, err
		}
		if v != nil {
			f := x.add(MistakeFound, Bad, luks.ErrWrongPassphrase, "keyslot %d opens with the passphrase %s", v.Slot, one.name)
			f.Keyslot = v.Slot
			return v, nil
		}
	}
	if x.Mistakes {
		text := fmt.Sprintf("%d ways in which it may have been mistyped do not open it either", len(list))
		if cut > 0 {
			text += fmt.Sprintf("; %d more were left out, to run no more than %d key derivations", cut, x.MaxRuns)
		}
		x.add(MistakesTried, Note, nil, "%s", text)
	}
	return nil, nil
}

// tryOne tries a passphrase on the keyslots in turn; nil if none opens. wrong
// are those that it was tried on; that one turns out not to be triable is a
// finding.
func (x *examination) tryOne(ctx context.Context, pass []byte, slots []int) (v *luks.Volume, wrong []int, err error) {
	for _, id := range slots {
		v, err := x.Header.Unlock(ctx, x.head, pass, luks.UnlockOptions{Slot: id, Policy: x.Open.Policy})
		switch {
		case err == nil:
			x.Runs++
			return v, nil, nil
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case errors.Is(err, luks.ErrWrongPassphrase):
			x.Runs++
			wrong = append(wrong, id)
		case !slices.ContainsFunc(x.Findings, func(f Finding) bool { return f.Text == err.Error() }):
			f := x.add(NotTried, Bad, err, "%v", err)
			f.Keyslot = id
		}
	}
	return nil, wrong, nil
}

func numbers(list []int) string {
	text := ""
	for i, n := range list {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(n)
	}
	return text
}

// opened says what became of an attempt, and passes on a volume whose data can
// be looked at.
func (x *examination) opened(ctx context.Context, v *luks.Volume, err error) (*luks.Volume, error) {
	switch {
	case err == nil && v.Slot < 0:
		x.add(KeyslotOpens, Good, nil, "the volume key is right")
	case err == nil:
		f := x.add(KeyslotOpens, Good, nil, "keyslot %d opens", v.Slot)
		f.Keyslot = v.Slot
		if v.Unbound {
			f.Text += "; it is unbound: its key is not that of the data"
			v.Close()
			return nil, nil
		}
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, luks.ErrWrongPassphrase):
		x.add(WrongPassphrase, Bad, err, "%v", err)
		return nil, nil
	default:
		x.add(NotTried, Bad, err, "%v", err)
		return nil, nil
	}
	return v, nil
}
