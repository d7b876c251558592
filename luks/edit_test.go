package luks

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// twoSlotOptions leave room for a few keyslots of 32 bytes.
func twoSlotOptions() FormatOptions {
	o := smallOptions()
	o.KeyslotsSize = 4 * areaSize(32)
	return o
}

// edit opens an image for changing, or fails.
func edit(tb testing.TB, image memory) *Editor {
	tb.Helper()
	e, err := Edit(tb.Context(), image, int64(len(image)))
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func cheapSlot(passphrase string) NewKeyslot {
	return NewKeyslot{Slot: AnySlot, Passphrase: []byte(passphrase), KDF: cheapKDF}
}

// addKey adds a passphrase to an image, or fails.
func addKey(tb testing.TB, image memory, old, passphrase string) int {
	tb.Helper()
	slot, err := edit(tb, image).AddKey(tb.Context(), open(tb, image, old), cheapSlot(passphrase))
	if err != nil {
		tb.Fatal(err)
	}
	return slot
}

// opens tells whether the passphrase opens any keyslot of an image.
func opens(tb testing.TB, image memory, passphrase string) bool {
	tb.Helper()
	h, err := ReadHeader(image, int64(len(image)))
	if err != nil {
		tb.Fatal(err)
	}
	v, err := h.Unlock(tb.Context(), image, []byte(passphrase), UnlockOptions{Slot: AnySlot})
	if err == nil {
		v.Close()
	} else if !errors.Is(err, ErrWrongPassphrase) && !errors.Is(err, ErrNoKeyslot) {
		tb.Fatal(err)
	}
	return err == nil
}

// editable are the images that every change is tried on.
func editable(tb testing.TB) map[string]memory {
	tb.Helper()
	two, _ := formatted(tb, twoSlotOptions())
	one := twoSlotOptions()
	one.Version, one.KeyslotsSize = 1, 0
	first, _ := formatted(tb, one)
	return map[string]memory{"LUKS2": two, "LUKS1": first}
}

func TestAddKey(t *testing.T) {
	for name, image := range editable(t) {
		t.Run(name, func(t *testing.T) {
			key := slices.Clone(open(t, image, "small").Key())
			if slot := addKey(t, image, "small", "second"); slot != 1 {
				t.Errorf("keyslot %d", slot)
			}
			for _, pass := range []string{"small", "second"} {
				v := open(t, image, pass)
				if !bytes.Equal(v.Key(), key) {
					t.Errorf("%s opens another key", pass)
				}
				if len(v.Header.Warnings) > 0 {
					t.Error(v.Header.Warnings)
				}
			}
			e := edit(t, image)
			n := cheapSlot("x")
			n.Slot = 1
			_, err := e.AddKey(t.Context(), open(t, image, "small"), n)
			wantNamed(t, err, ErrOption, "keyslot 1 is in use")
			n.Slot = 99
			_, err = e.AddKey(t.Context(), open(t, image, "small"), n)
			wantNamed(t, err, ErrOption, "keyslot 99")
		})
	}
}

// By the volume key alone, with every keyslot gone.
func TestAddKeyByVolumeKey(t *testing.T) {
	for name, image := range editable(t) {
		t.Run(name, func(t *testing.T) {
			key := slices.Clone(open(t, image, "small").Key())
			if _, err := edit(t, image).RemoveKey(t.Context(), 0, true); err != nil {
				t.Fatal(err)
			}
			if opens(t, image, "small") {
				t.Error("a removed passphrase opens")
			}
			v, err := edit(t, image).Header().UnlockWithKey(t.Context(), key, Policy{})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			if _, err := edit(t, image).AddKey(t.Context(), v, cheapSlot("again")); err != nil {
				t.Fatal(err)
			}
			if !opens(t, image, "again") {
				t.Error("the new passphrase does not open")
			}
		})
	}
}

func TestRemoveKey(t *testing.T) {
	for name, image := range editable(t) {
		t.Run(name, func(t *testing.T) {
			e := edit(t, image)
			_, err := e.RemoveKey(t.Context(), 0, false)
			wantNamed(t, err, ErrPolicy, "keyslot 0 is the last")
			_, err = e.RemoveKey(t.Context(), 5, false)
			wantNamed(t, err, ErrNoKeyslot, "keyslot 5")
			addKey(t, image, "small", "second")
			area := e.Header().Keyslots[0].Area
			before := bytes.Clone(image[area.Offset:][:area.Size])
			if _, err := e.RemoveKey(t.Context(), 0, false); err != nil {
				t.Fatal(err)
			}
			if opens(t, image, "small") || !opens(t, image, "second") {
				t.Error("the wrong keyslot is gone")
			}
			after := image[area.Offset:][:area.Size]
			for i := 0; i < len(after); i += 512 {
				if bytes.Equal(before[i:i+512], after[i:i+512]) {
					t.Fatalf("the area is not overwritten at %d", i)
				}
			}
		})
	}
}

func TestChangeKey(t *testing.T) {
	for name, image := range editable(t) {
		t.Run(name, func(t *testing.T) {
			addKey(t, image, "small", "other")
			v := open(t, image, "small")
			area := v.Header.Keyslots[0].Area
			before := bytes.Clone(image[area.Offset:][:area.Size])
			slot, err := edit(t, image).ChangeKey(t.Context(), v, 0, cheapSlot("changed"))
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]int{"LUKS2": 0, "LUKS1": 2}[name]; slot != want {
				t.Errorf("keyslot %d, want %d", slot, want)
			}
			if opens(t, image, "small") || !opens(t, image, "changed") || !opens(t, image, "other") {
				t.Error("not what was asked for")
			}
			if bytes.Equal(before, image[area.Offset:][:area.Size]) {
				t.Error("the old area is not overwritten")
			}
			if n := len(edit(t, image).Header().Keyslots); n != 2 {
				t.Errorf("%d keyslots", n)
			}
		})
	}
}

func TestConvertKey(t *testing.T) {
	image := editable(t)["LUKS2"]
	n := cheapSlot("small")
	n.KDF, n.Cipher, n.KeySize, n.Hash = cheapArgon2, "aes-xts-plain64", 64, "sha512"
	if _, err := edit(t, image).ConvertKey(t.Context(), open(t, image, "small"), 0, n); err != nil {
		t.Fatal(err)
	}
	k := open(t, image, "small").Header.Keyslots[0]
	if k.KDF.Type != KDFArgon2id || k.Area.KeySize != 64 || k.AF.Hash != "sha512" || k.KeySize != 32 {
		t.Errorf("%+v", k)
	}
}

// The keyslots area holds four keyslots: a fifth does not fit, nor a change,
// since the new one is written beside the old. Nothing is written then.
func TestKeyslotsAreaFull(t *testing.T) {
	image := editable(t)["LUKS2"]
	for _, pass := range []string{"b", "c", "d"} {
		addKey(t, image, "small", pass)
	}
	before := bytes.Clone(image)
	v := open(t, image, "small")
	_, err := edit(t, image).AddKey(t.Context(), v, cheapSlot("e"))
	wantNamed(t, err, ErrSize, "131072")
	_, err = edit(t, image).ChangeKey(t.Context(), v, 0, cheapSlot("e"))
	wantNamed(t, err, ErrSize, "131072")
	if !bytes.Equal(image, before) {
		t.Error("it was written to all the same")
	}
	// A gap in the middle is used.
	if _, err := edit(t, image).RemoveKey(t.Context(), 1, false); err != nil {
		t.Fatal(err)
	}
	if slot := addKey(t, image, "small", "e"); slot != 1 {
		t.Errorf("keyslot %d", slot)
	}
	v = open(t, image, "e")
	if off := v.Header.Keyslots[1].Area.Offset; off != v.Header.KeyslotsOffset()+areaSize(32) {
		t.Errorf("area at %d", off)
	}
}

func TestLUKS1Full(t *testing.T) {
	image := editable(t)["LUKS1"]
	for i := range 7 {
		if slot := addKey(t, image, "small", strings.Repeat("x", i+1)); slot != i+1 {
			t.Errorf("keyslot %d", slot)
		}
	}
	_, err := edit(t, image).AddKey(t.Context(), open(t, image, "small"), cheapSlot("e"))
	wantNamed(t, err, ErrSize, "all 8 keyslots")
	_, err = edit(t, image).ChangeKey(t.Context(), open(t, image, "small"), 0, cheapSlot("e"))
	wantNamed(t, err, ErrSize, "all 8 keyslots")
}

func TestUnboundKey(t *testing.T) {
	image := editable(t)["LUKS2"]
	n := cheapSlot("unbound")
	n.Key, n.DigestIterations = []byte("a key of any length"), minDigestIterations
	slot, err := edit(t, image).AddKey(t.Context(), nil, n)
	if err != nil {
		t.Fatal(err)
	}
	if opens(t, image, "unbound") {
		t.Error("it opens without being named")
	}
	v, err := edit(t, image).Header().Unlock(t.Context(), image, []byte("unbound"), UnlockOptions{Slot: slot})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if !v.Unbound || !bytes.Equal(v.Key(), n.Key) {
		t.Error("another key")
	}
	// Not the last key of the data: it goes without force, and its digest with it.
	if _, err := edit(t, image).RemoveKey(t.Context(), slot, false); err != nil {
		t.Fatal(err)
	}
	if n := len(edit(t, image).Header().Digests); n != 1 {
		t.Errorf("%d digests", n)
	}
	// One that is there does not make the data's last key any less the last.
	if _, err := edit(t, image).AddKey(t.Context(), nil, n); err != nil {
		t.Fatal(err)
	}
	_, err = edit(t, image).RemoveKey(t.Context(), 0, false)
	wantNamed(t, err, ErrPolicy, "last")
}

func TestSetPriority(t *testing.T) {
	image := editable(t)["LUKS2"]
	for _, p := range []Priority{PriorityIgnore, PriorityPrefer, PriorityNormal} {
		e := edit(t, image)
		if err := e.SetPriority(t.Context(), 0, p); err != nil {
			t.Fatal(err)
		}
		if got := edit(t, image).Header().Keyslots[0].Priority; got != p || e.Header().Keyslots[0].Priority != p {
			t.Errorf("%v, want %v", got, p)
		}
		if has := strings.Contains(e.Header().json.raw, "priority"); has != (p != PriorityNormal) {
			t.Errorf("%v: %s", p, e.Header().json.raw)
		}
	}
	wantNamed(t, edit(t, image).SetPriority(t.Context(), 0, 3), ErrOption, "priority 3")
	wantNamed(t, edit(t, image).SetPriority(t.Context(), 3, 1), ErrNoKeyslot, "keyslot 3")
	wantNamed(t, edit(t, editable(t)["LUKS1"]).SetPriority(t.Context(), 0, 1), ErrUnsupported, "version 1")
}

func TestSetConfig(t *testing.T) {
	image := editable(t)["LUKS2"]
	label, sub := strings.Repeat("ü", 23), "sub"
	c := ConfigChange{Label: &label, Subsystem: &sub, Flags: []string{"allow-discards", "no-journal"}}
	if err := edit(t, image).SetConfig(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	h := edit(t, image).Header()
	if h.Label != label || h.Subsystem != sub || !slices.Equal(h.Config.Flags, c.Flags) || h.SeqID != 2 {
		t.Errorf("%+v", h)
	}
	if err := edit(t, image).SetFlags(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if h := edit(t, image).Header(); h.Config.Flags != nil || h.Label != label {
		t.Errorf("%+v", h)
	}
	wantNamed(t, edit(t, image).SetLabel(t.Context(), strings.Repeat("x", 48)), ErrOption, "label")
	wantNamed(t, edit(t, image).SetSubsystem(t.Context(), "a\x00b"), ErrOption, "subsystem")
	wantNamed(t, edit(t, image).SetFlags(t.Context(), []string{"none"}), ErrOption, `"none"`)
	wantNamed(t, edit(t, image).SetFlags(t.Context(), []string{"no-journal", "no-journal"}), ErrOption, "twice")
}
