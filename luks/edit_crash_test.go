package luks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// crashJob is a change and what holds of the volume after a crash in it.
type crashJob struct {
	name  string
	luks2 bool // only
	do    func(ctx context.Context, e *Editor, v *Volume) error
	old   []string // passphrases that open before; "stays" always does
	now   []string // those that open afterwards
	done  func(h *Header) bool
	gone  int // the keyslot that is destroyed, or -1
}

// The volume has keyslots 0 ("stays"), 1 ("first") and, in LUKS2, token 0 for
// keyslot 1.
var crashJobs = []crashJob{
	{"add", false, func(ctx context.Context, e *Editor, v *Volume) error {
		_, err := e.AddKey(ctx, v, cheapSlot("added"))
		return err
	}, []string{"first"}, []string{"first", "added"}, func(h *Header) bool { return len(h.Keyslots) == 3 }, -1},
	{"add at 7", false, func(ctx context.Context, e *Editor, v *Volume) error {
		n := cheapSlot("added")
		n.Slot = 7
		_, err := e.AddKey(ctx, v, n)
		return err
	}, []string{"first"}, []string{"first", "added"}, func(h *Header) bool { return h.keyslot(7) != nil }, -1},
	{"add at 6", false, func(ctx context.Context, e *Editor, v *Volume) error {
		n := cheapSlot("added")
		n.Slot = 6 // that of LUKS1 lies in both sectors of the header
		_, err := e.AddKey(ctx, v, n)
		return err
	}, []string{"first"}, []string{"first", "added"}, func(h *Header) bool { return h.keyslot(6) != nil }, -1},
	{"change", false, func(ctx context.Context, e *Editor, v *Volume) error {
		_, err := e.ChangeKey(ctx, v, 1, cheapSlot("changed"))
		return err
	}, []string{"first"}, []string{"changed"}, func(h *Header) bool { return len(h.Keyslots) == 2 }, 1},
	{"convert", true, func(ctx context.Context, e *Editor, v *Volume) error {
		n := cheapSlot("first")
		n.KDF = cheapArgon2
		_, err := e.ConvertKey(ctx, v, 1, n)
		return err
	}, []string{"first"}, []string{"first"}, func(h *Header) bool { return h.keyslot(1).KDF.argon2() }, 1},
	{"remove", false, func(ctx context.Context, e *Editor, _ *Volume) error {
		_, err := e.RemoveKey(ctx, 1, false)
		return err
	}, []string{"first"}, nil, func(h *Header) bool { return len(h.Keyslots) == 1 && len(h.Tokens) == 0 }, 1},
	{"priority", true, func(ctx context.Context, e *Editor, _ *Volume) error { return e.SetPriority(ctx, 1, PriorityPrefer) },
		[]string{"first"}, []string{"first"}, func(h *Header) bool { return h.keyslot(1).Priority == PriorityPrefer }, -1},
	{"token add", true, func(ctx context.Context, e *Editor, _ *Volume) error {
		_, err := e.AddToken(ctx, AnyToken, KeyringToken("x", nil), false)
		return err
	}, []string{"first"}, []string{"first"}, func(h *Header) bool { return len(h.Tokens) == 2 }, -1},
	{"token remove", true, func(ctx context.Context, e *Editor, _ *Volume) error { return e.RemoveToken(ctx, 0) },
		[]string{"first"}, []string{"first"}, func(h *Header) bool { return len(h.Tokens) == 0 }, -1},
	{"config", true, func(ctx context.Context, e *Editor, _ *Volume) error { return e.SetLabel(ctx, "new") },
		[]string{"first"}, []string{"first"}, func(h *Header) bool { return h.Label == "new" }, -1},
}

func crashVolume(t *testing.T, name string) memory {
	t.Helper()
	o := twoSlotOptions()
	o.Passphrase = []byte("stays")
	if name == "LUKS1" {
		o.Version, o.KeyslotsSize = 1, 0
	}
	image, _ := formatted(t, o)
	addKey(t, image, "stays", "first")
	if name == "LUKS2" {
		if _, err := edit(t, image).AddToken(t.Context(), 0, KeyringToken("t", []int{1}), false); err != nil {
			t.Fatal(err)
		}
	}
	return image
}

func recordEdit(t *testing.T, start memory, j crashJob, ignored int) *recorder {
	t.Helper()
	r := newRecorder(start, ignored)
	v := open(t, start, "first")
	e, err := Edit(t.Context(), r, int64(len(start)))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.do(t.Context(), e, v); err != nil {
		t.Fatal(err)
	}
	return r
}

// oldOrNew is what holds of a volume after a crash at any point of the change:
// "stays" opens, what opened before opens or what is to open afterwards does,
// every keyslot that is named can be opened, but for one being destroyed, and a
// key that is no longer named is not on the disk.
func (j *crashJob) oldOrNew(start memory) func(memory) error {
	before, err := ReadHeader(start, int64(len(start)))
	if err != nil {
		panic(err)
	}
	return func(m memory) error {
		h, err := ReadHeader(m, int64(len(m)))
		if err != nil {
			return err
		}
		found := map[string]bool{}
		dead := 0
		for _, k := range h.Keyslots {
			opened := false
			for _, pass := range []string{"stays", "first", "added", "changed"} {
				v, err := h.Unlock(context.Background(), m, []byte(pass), UnlockOptions{Slot: k.ID})
				if err == nil {
					found[pass], opened = true, true
					v.Close()
					break
				}
			}
			if !opened && (j.gone < 0 || k.Area.Offset != before.keyslot(j.gone).Area.Offset) {
				dead++
			}
		}
		all := func(list []string) bool {
			return !slices.ContainsFunc(list, func(pass string) bool { return !found[pass] })
		}
		if !found["stays"] {
			return errors.New("a keyslot that has nothing to do with it does not open")
		}
		if !all(j.old) && !all(j.now) {
			return fmt.Errorf("neither old nor new: %v opens", found)
		}
		if dead > 0 {
			return fmt.Errorf("%d keyslots, and only %v open", len(h.Keyslots), found)
		}
		if j.gone < 0 {
			return nil
		}
		return forgotten(h, before.keyslot(j.gone).Area, start, m)
	}
}

// forgotten returns an error if no keyslot has the area and a sector of it is
// what it was.
func forgotten(h *Header, a Area, start, m memory) error {
	if slices.ContainsFunc(h.Keyslots, func(k Keyslot) bool { return k.Area.Offset == a.Offset }) {
		return nil
	}
	for off := a.Offset; off < a.Offset+a.Size; off += 512 {
		if bytes.Equal(start[off:off+512], m[off:off+512]) {
			return fmt.Errorf("no keyslot names the area at %d, and its old contents are there", a.Offset)
		}
	}
	return nil
}

func eachCrashJob(t *testing.T, f func(t *testing.T, j crashJob, start memory)) {
	for _, name := range []string{"LUKS2", "LUKS1"} {
		start := crashVolume(t, name)
		for _, j := range crashJobs {
			if name == "LUKS2" || !j.luks2 {
				t.Run(name+" "+j.name, func(t *testing.T) { f(t, j, start) })
			}
		}
	}
}

// A crash at any point of a change, with any part of what was not flushed lost,
// reordered and torn, leaves the old state or the new one.
func TestEditCrash(t *testing.T) {
	eachCrashJob(t, func(t *testing.T, j crashJob, start memory) {
		r := recordEdit(t, start, j, -1)
		if err := r.crashes(start, rand.New(rand.NewPCG(5, 6)), j.oldOrNew(start)); err != nil {
			t.Error(err)
		}
		if last := r.epochs[len(r.epochs)-1]; len(last) != 0 {
			t.Errorf("%d writes are not flushed at the end", len(last))
		}
		h, err := ReadHeader(r.memory, int64(len(start)))
		if err != nil || len(h.Warnings) > 0 || !j.done(h) {
			t.Errorf("at the end: %v, %+v", err, h)
		}
		for _, pass := range j.now {
			if !opens(t, r.memory, pass) {
				t.Errorf("%s does not open", pass)
			}
		}
		for _, pass := range j.old {
			if !slices.Contains(j.now, pass) && opens(t, r.memory, pass) {
				t.Errorf("%s opens still", pass)
			}
		}
	})
}

// idleFlushes are those that a change survives without: of a label, which lies
// with the checksum in the first sector of a copy, the one between the copies;
// and the one before the old area is overwritten, since another follows before
// the next metadata.
var idleFlushes = map[string]int{"config": 0, "change": 2, "convert": 2}

// Without any other of its flushes a change would not survive every crash, or
// would not be durable at its end. (LUKS1 has one more before each part of the
// header than is needed, but where that part activates keyslot 7.)
func TestEditNeedsEveryFlush(t *testing.T) {
	eachCrashJob(t, func(t *testing.T, j crashJob, start memory) {
		flushes := recordEdit(t, start, j, -1).flushes
		if h, _ := ReadHeader(start, -1); h.Version == 1 {
			flushes = 0
			if j.name == "add at 7" {
				flushes = 1
			}
		}
		for ignored := range flushes {
			if idle, ok := idleFlushes[j.name]; ok && idle == ignored {
				continue
			}
			seen := false
			for try := range uint64(20) {
				r := recordEdit(t, start, j, ignored)
				err := r.crashes(start, rand.New(rand.NewPCG(try, 8)), j.oldOrNew(start))
				if seen = err != nil || len(r.epochs[len(r.epochs)-1]) > 0; seen {
					break
				}
			}
			if !seen {
				t.Errorf("without flush %d every crash is survived", ignored)
			}
		}
	})
}

// A change that a crash broke off between the copies is finished by the next
// one before anything else: a crash in that one does not bring back the copy
// from before both.
func TestEditAfterCrash(t *testing.T) {
	start := crashVolume(t, "LUKS2")
	j := crashJobs[slices.IndexFunc(crashJobs, func(j crashJob) bool { return j.name == "remove" })]
	r := recordEdit(t, start, j, -1)
	half := memory(bytes.Clone(start))
	for _, epoch := range r.epochs[:len(r.epochs)-2] { // all but the secondary copy
		for _, w := range epoch {
			copy(half[w.off:], w.data)
		}
	}
	h, err := ReadHeader(half, int64(len(half)))
	if err != nil || len(h.Warnings) != 1 {
		t.Fatal(err, h.Warnings)
	}
	again := newRecorder(half, -1)
	e, err := Edit(t.Context(), again, int64(len(half)))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.SetLabel(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	err = again.crashes(half, rand.New(rand.NewPCG(1, 1)), func(m memory) error {
		h, err := ReadHeader(m, int64(len(m)))
		if err == nil && len(h.Keyslots) != 1 {
			err = errors.New("the removed keyslot is back")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A header with a damaged copy is not changed.
func TestEditDamagedCopy(t *testing.T) {
	start := crashVolume(t, "LUKS2")
	for name, off := range map[string]int{"primary": 5000, "secondary": 16384 + 5000, "secondary magic": 16384, "primary magic": 0} {
		image := bytes.Clone(start)
		image[off] ^= 1
		_, err := Edit(t.Context(), memory(image), int64(len(image)))
		wantNamed(t, err, ErrDamagedCopy, name[:7])
		for _, other := range []error{ErrHeaderCorrupt, ErrNotLUKS, ErrUnsupported} {
			if errors.Is(err, other) {
				t.Errorf("%s: it is %v too", name, other)
			}
		}
	}
}

// A storage that fails at any call makes the change fail.
func TestEditReportsErrors(t *testing.T) {
	eachCrashJob(t, func(t *testing.T, j crashJob, start memory) {
		clean := recordEdit(t, start, j, -1)
		calls := clean.flushes
		for _, epoch := range clean.epochs {
			calls += len(epoch)
		}
		v := open(t, start, "first")
		for n := range calls {
			st := &faulty{memory: bytes.Clone(start), left: n}
			e, err := Edit(t.Context(), st, int64(len(start)))
			if err != nil {
				t.Fatal(err)
			}
			if err := j.do(t.Context(), e, v); !errors.Is(err, errFault) {
				t.Errorf("call %d fails: %v", n, err)
			}
			if err := j.oldOrNew(start)(st.memory); err != nil {
				t.Errorf("call %d fails: %v", n, err)
			}
		}
	})
}

func TestEditRequirements(t *testing.T) {
	for _, name := range []string{"future", "online-reencrypt"} {
		image := crashVolume(t, "LUKS2")
		err := edit(t, image).edit(t.Context(), func(_ *Header, root *jsonNode) error {
			root.child("config").set("requirements", []byte(`{"mandatory":["`+name+`"]}`))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Edit(t.Context(), image, int64(len(image)))
		wantNamed(t, err, ErrUnsupported, name)
	}
}

// A key that was unlocked from another header, or before the header was made
// anew, gets no keyslot.
func TestEditForeignKey(t *testing.T) {
	for name, image := range editable(t) {
		other := editable(t)[name]
		v := open(t, other, "small")
		_, err := edit(t, image).AddKey(t.Context(), v, cheapSlot("x"))
		wantNamed(t, err, ErrPolicy, "digest 0")
		_, err = edit(t, image).ChangeKey(t.Context(), v, 0, cheapSlot("x"))
		wantNamed(t, err, ErrPolicy, "digest 0")
		if n := len(edit(t, image).Header().Keyslots); n != 1 {
			t.Errorf("%d keyslots", n)
		}
	}
}
