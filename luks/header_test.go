package luks

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// What is converted opens with the same passphrases and key, in the same
// keyslots, and converts back to the same keyslots.
func TestConvertBothWays(t *testing.T) {
	for name, start := range convertible(t) {
		t.Run(name, func(t *testing.T) {
			key := slices.Clone(open(t, start, "small").Key())
			digest := open(t, start, "small").Header.Digests[0].Value
			image := memory(bytes.Clone(start))
			for _, version := range []int{3 - open(t, start, "small").Header.Version, open(t, start, "small").Header.Version} {
				h, _ := ReadHeader(image, int64(len(image)))
				p, err := h.Convert(image, version)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Write(t.Context(), image); err != nil {
					t.Fatal(err)
				}
				v := open(t, image, "seventh")
				if v.Header.Version != version || v.Slot != 7 || !bytes.Equal(v.Key(), key) || len(v.Header.Warnings) > 0 {
					t.Errorf("LUKS%d, keyslot %d, %v", v.Header.Version, v.Slot, v.Header.Warnings)
				}
				if v = open(t, image, "small"); v.Slot != 0 {
					t.Errorf("keyslot %d", v.Slot)
				}
				if d := v.Header.Digests[0].Value; len(d) != 20 || !bytes.Equal(d, digest[:20]) {
					t.Errorf("digest %x of %x", d, digest)
				}
				if !bytes.Equal(image[2<<20:], start[2<<20:]) {
					t.Error("the data has changed")
				}
				addKey(t, memory(bytes.Clone(image)), "small", "more")
			}
		})
	}
}

// Nothing of a keyslot stays where LUKS2 had it.
func TestConvertLeavesNoKeys(t *testing.T) {
	o := smallOptions()
	o.KeyslotsSize, o.DataOffset = 0, 4<<20
	start, _ := formatted(t, o)
	far := int64(3 << 20)
	err := edit(t, start).edit(t.Context(), func(h *Header, root *jsonNode) error {
		k := h.Keyslots[0]
		copy(start[far:], start[k.Area.Offset:][:k.Area.Size])
		k.Area.Offset = far
		root.child("keyslots").set("0", encodeJSON(k.encode()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	image := memory(bytes.Clone(start))
	h, _ := ReadHeader(image, -1)
	p, err := h.Convert(image, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	open(t, image, "small")
	if bytes.Contains(image[far:], start[far:far+512]) {
		t.Error("the old area is still there")
	}
}

// What LUKS1 cannot describe is not converted, and is named.
func TestConvertRefuses(t *testing.T) {
	base := func() FormatOptions {
		o := smallOptions()
		o.KeyslotsSize, o.DataOffset = 0, 2<<20
		return o
	}
	edited := func(path string, value string) func(*testing.T) memory {
		return func(t *testing.T) memory {
			image, _ := formatted(t, base())
			err := edit(t, image).edit(t.Context(), func(_ *Header, root *jsonNode) error {
				names := strings.Split(path, ".")
				root.path(names[:len(names)-1]...).set(names[len(names)-1], []byte(value))
				return nil
			})
			if err != nil {
				t.Fatal(path, err)
			}
			return image
		}
	}
	with := func(change func(*FormatOptions)) func(*testing.T) memory {
		return func(t *testing.T) memory {
			o := base()
			change(&o)
			image, _ := formatted(t, o)
			return image
		}
	}
	for _, c := range []struct {
		image func(*testing.T) memory
		err   error
		word  string
	}{
		{with(func(o *FormatOptions) { o.SectorSize = 4096 }), ErrUnsupported, "4096"},
		{with(func(o *FormatOptions) { o.KDF = cheapArgon2 }), ErrUnsupported, "argon2id"},
		{with(func(o *FormatOptions) { o.Hash = "sha512" }), ErrUnsupported, "sha512"},
		{with(func(o *FormatOptions) { o.DataOffset = 1 << 20 }), ErrSize, "1048576"},
		{edited("tokens.0", `{"type":"x","keyslots":[]}`), ErrUnsupported, "token 0"},
		{edited("config.requirements", `{"mandatory":["future"]}`), ErrUnsupported, "future"},
		{edited("segments.0.iv_tweak", `"8"`), ErrUnsupported, "tweak"},
		{edited("segments.0.size", `"4096"`), ErrUnsupported, "fixed size"},
		{edited("segments.0.flags", `["x"]`), ErrUnsupported, "flags"},
		{edited("keyslots.0.af.hash", `"sha1"`), ErrUnsupported, "sha1"},
		{edited("keyslots.0.area.encryption", `"aes-cbc-plain64"`), ErrUnsupported, "aes-cbc-plain64"},
		{func(t *testing.T) memory {
			image, _ := formatted(t, base())
			n := cheapSlot("x")
			n.Slot = 8
			if _, err := edit(t, image).AddKey(t.Context(), open(t, image, "small"), n); err != nil {
				t.Fatal(err)
			}
			return image
		}, ErrUnsupported, "keyslot 8"},
		{func(t *testing.T) memory {
			image, _ := formatted(t, base())
			n := cheapSlot("x")
			n.Key, n.DigestIterations = make([]byte, 16), 1000
			if _, err := edit(t, image).AddKey(t.Context(), nil, n); err != nil {
				t.Fatal(err)
			}
			return image
		}, ErrUnsupported, "unbound"},
	} {
		image := c.image(t)
		h, err := ReadHeader(image, -1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Convert(image, 1)
		wantNamed(t, err, c.err, c.word)
		if _, err := h.Convert(image, 2); !errors.Is(err, ErrOption) {
			t.Errorf("to its own version: %v", err)
		}
	}
	// A LUKS1 header without the room that LUKS2's two copies take.
	o := smallOptions()
	o.Version, o.KeyslotsSize, o.DataOffset = 1, 0, luks1AreaAlignment+luks1Slots*areaSize(32)
	image, _ := formatted(t, o)
	h, _ := ReadHeader(image, -1)
	_, err := h.Convert(image, 2)
	wantNamed(t, err, ErrSize, "1081344")
}

// Names and priorities that LUKS1 has no place for are told.
func TestConvertLost(t *testing.T) {
	o := smallOptions()
	o.KeyslotsSize, o.DataOffset, o.Label, o.Subsystem = 0, 2<<20, "name", "part"
	image, _ := formatted(t, o)
	if err := edit(t, image).SetPriority(t.Context(), 0, PriorityPrefer); err != nil {
		t.Fatal(err)
	}
	if err := edit(t, image).SetFlags(t.Context(), []string{"allow-discards"}); err != nil {
		t.Fatal(err)
	}
	h, _ := ReadHeader(image, -1)
	p, err := h.Convert(image, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(p.Lost(), "; ")
	if got != `label "name"; subsystem "part"; flags allow-discards; priority of keyslot 0: preferred` {
		t.Error(got)
	}
}

// A backup that is not whole, or of something else, is none.
func TestReadBackupRefuses(t *testing.T) {
	for name, image := range convertible(t) {
		h, _ := ReadHeader(image, -1)
		n := h.BackupSize()
		if _, err := ReadBackup(bytes.NewReader(image[:n-1]), n-1); !errors.Is(err, ErrHeaderCorrupt) {
			t.Errorf("%s, a byte too short: %v", name, err)
		}
		if _, err := ReadBackup(bytes.NewReader(image[:n]), n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p, err := ReadBackup(bytes.NewReader(image), int64(len(image)))
		if err != nil || p.Size() != 2<<20 {
			t.Errorf("%s, of a whole volume: %v, %d bytes", name, err, p.Size())
		}
	}
	if _, err := ReadBackup(bytes.NewReader(make([]byte, 1<<20)), 1<<20); !errors.Is(err, ErrNotLUKS) {
		t.Error(err)
	}
}

func TestConflicts(t *testing.T) {
	images := convertible(t)
	header := func(o FormatOptions) *Header {
		image, _ := formatted(t, o)
		h, _ := ReadHeader(image, -1)
		return h
	}
	p, err := ReadBackup(images["LUKS2"], int64(len(images["LUKS2"])))
	if err != nil {
		t.Fatal(err)
	}
	if list := p.Conflicts(p.Header()); len(list) > 0 {
		t.Error(list)
	}
	other := smallOptions()
	other.UUID, other.KeySize, other.KeyslotsSize = p.Header().UUID, 64, areaSize(64)
	if got := strings.Join(p.Conflicts(header(other)), "; "); got != "data offset 2097152, the volume's is 1048576; volume key length in bytes 32, the volume's is 64; another volume key, by its digest" {
		t.Error(got)
	}
	h1, _ := ReadHeader(images["LUKS1"], -1)
	if got := p.Conflicts(h1); len(got) != 3 || !strings.Contains(got[0], "UUID") || !strings.Contains(got[1], "version") {
		t.Error(got)
	}
	same := smallOptions() // but for the key
	a, b := header(same), header(same)
	b.UUID = a.UUID
	if got := newReplacement(a, nil, 0).Conflicts(b); len(got) != 1 || !strings.Contains(got[0], "key") {
		t.Error(got)
	}
	reencrypting := *a
	reencrypting.Config.Requirements = []string{"online-reencrypt-v2"}
	for _, got := range [][]string{newReplacement(a, nil, 0).Conflicts(&reencrypting), newReplacement(&reencrypting, nil, 0).Conflicts(a)} {
		if len(got) != 1 || !strings.Contains(got[0], "online-reencrypt-v2") {
			t.Error(got)
		}
	}
}

// A backup of which one copy is damaged would leave a volume that cannot be
// changed any more.
func TestReadBackupDamagedCopy(t *testing.T) {
	for _, at := range []int{5000, 16<<10 + 5000} {
		image := bytes.Clone(convertible(t)["LUKS2"])
		image[at]++
		if _, err := ReadBackup(bytes.NewReader(image), int64(len(image))); !errors.Is(err, ErrDamagedCopy) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

// The volume that a change was asked for is the one that is changed.
func TestEditOtherVolume(t *testing.T) {
	image, _ := formatted(t, smallOptions())
	other, _ := formatted(t, smallOptions())
	e, err := Edit(t.Context(), image, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	copy(image, other)
	if err := e.SetLabel(t.Context(), "x"); !errors.Is(err, ErrPolicy) || !bytes.Equal(image, other) {
		t.Errorf("%v; changed: %v", err, !bytes.Equal(image, other))
	}
}

// Each kind of change shows in a diff by its path, and nothing else does.
func TestDiff(t *testing.T) {
	for name, start := range convertible(t) {
		t.Run(name, func(t *testing.T) {
			diff := func(image memory) string {
				a, _ := ReadHeader(start, -1)
				b, err := ReadHeader(image, -1)
				if err != nil {
					t.Fatal(err)
				}
				list, err := Diff(a, b, start, image)
				if err != nil {
					t.Fatal(err)
				}
				paths := ""
				for _, d := range list {
					if d.A == d.B {
						t.Errorf("%s: %q twice", d.Path, d.A)
					}
					paths += d.Path + " "
				}
				return paths
			}
			if got := diff(bytes.Clone(start)); got != "" {
				t.Error("nothing changed:", got)
			}
			area := bytes.Clone(start)
			area[open(t, start, "small").Header.Keyslots[1].Area.Offset] ^= 1
			if got := diff(area); got != "keyslots.7.area.contents " {
				t.Error(got)
			}
			added := memory(bytes.Clone(start))
			addKey(t, added, "small", "x")
			got := diff(added)
			if !strings.Contains(got, "digests.0.keyslots ") || !strings.Contains(got, "keyslots.1.kdf.salt ") || strings.Contains(got, "keyslots.0") || strings.Contains(got, "segments.0.") {
				t.Error(got)
			}
			if name == "LUKS1" {
				return
			}
			label := memory(bytes.Clone(start))
			if err := edit(t, label).SetLabel(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			if got := diff(label); got != "epoch label " {
				t.Error(got)
			}
			token := memory(bytes.Clone(start))
			if _, err := edit(t, token).AddToken(t.Context(), 3, []byte(`{"type":"odd","keyslots":["0"],"deep":[{"x":null},7]}`), false); err != nil {
				t.Fatal(err)
			}
			if got := diff(token); got != "epoch tokens.3.deep tokens.3.deep.0.x tokens.3.keyslots tokens.3.type " {
				t.Error(got)
			}
		})
	}
}

// A conversion shows as such, and keys stay as they are.
func TestDiffVersions(t *testing.T) {
	start := convertible(t)["LUKS1"]
	a, _ := ReadHeader(start, -1)
	p, err := a.Convert(start, 2)
	if err != nil {
		t.Fatal(err)
	}
	image := memory(bytes.Clone(start))
	if err := p.Write(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	b, _ := ReadHeader(image, -1)
	list, err := Diff(a, b, start, image)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		for _, same := range []string{".contents", ".salt", ".digest", "uuid"} {
			if strings.HasSuffix(d.Path, same) {
				t.Errorf("%+v", d)
			}
		}
	}
	if !slices.ContainsFunc(list, func(d Difference) bool { return d == Difference{"version", "1", "2"} }) {
		t.Error(list)
	}
}

// A secondary copy that something else lies in front of is used only by force.
func TestRepairForeign(t *testing.T) {
	start := convertible(t)["LUKS2"]
	image := memory(bytes.Clone(start))
	clear(image[:4096])
	copy(image[512:], "LABELONE")
	copy(image[512+24:], "LVM2 001")
	if _, _, err := Repair(t.Context(), image, int64(len(image)), false); !errors.Is(err, ErrNotLUKS) {
		t.Fatal("not taken for a filesystem:", err)
	}
	if _, c, err := Repair(t.Context(), image, int64(len(image)), true); err != nil || c == nil || *c != Primary {
		t.Fatal(c, err)
	}
	open(t, image, "small")
}

// With no copy whole, and for LUKS1, a repair has nothing to go by.
func TestRepairHopeless(t *testing.T) {
	for name, image := range convertible(t) {
		if _, c, err := Repair(t.Context(), image, int64(len(image)), false); err != nil || c != nil {
			t.Errorf("%s, whole: %v, %v", name, c, err)
		}
		image[208] ^= 1      // LUKS1: the state of keyslot 0
		image[16384+90] ^= 1 // LUKS2: the secondary, too
		before := bytes.Clone(image)
		if _, _, err := Repair(t.Context(), image, int64(len(image)), false); !errors.Is(err, ErrHeaderCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(before, image) {
			t.Error(name, "was written to")
		}
	}
}

// Wipe clears other secondaries in front of the data only where they are whole
// and say that they are there, and nothing from the data on.
func TestWipeSecondaries(t *testing.T) {
	o := smallOptions()
	o.DataOffset = 12 << 20
	o.KeyslotsSize = areaSize(32)
	image, _ := formatted(t, o)
	big := smallOptions()
	big.MetadataSize, big.DataOffset = 4<<20, 12<<20
	old, _ := formatted(t, big)
	copy(image[4<<20:8<<20], old[4<<20:8<<20]) // whole, at its place
	copy(image[9<<20:], old[4<<20:5<<20])      // elsewhere
	copy(image[12<<20:], "data")
	before := bytes.Clone(image)
	h, err := Wipe(t.Context(), image, int64(len(image)))
	if err != nil || h.UUID == "" {
		t.Fatal(err)
	}
	if !bytes.Equal(image[:8<<20], make([]byte, 8<<20)) {
		t.Error("headers are left")
	}
	if !bytes.Equal(image[8<<20:], before[8<<20:]) {
		t.Error("more than the headers was cleared")
	}
	// One that does not match its checksum is no header.
	image = bytes.Clone(before)
	image[5<<20] ^= 1
	if _, err := Wipe(t.Context(), image, int64(len(image))); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(image[4<<20:8<<20], append(bytes.Clone(before[4<<20:5<<20]), append([]byte{before[5<<20] ^ 1}, before[5<<20+1:8<<20]...)...)) {
		t.Error("what is no header was cleared")
	}
	if _, err := Wipe(t.Context(), image, int64(len(image))); !errors.Is(err, ErrNotLUKS) {
		t.Error(err)
	}
}

// Erase takes tokens for keyslots with it, keeps others, and the volume key
// still opens.
func TestErase(t *testing.T) {
	for name, image := range convertible(t) {
		t.Run(name, func(t *testing.T) {
			key := slices.Clone(open(t, image, "small").Key())
			if name == "LUKS2" {
				for id, slots := range map[int][]int{0: {0}, 1: {}} {
					if _, err := edit(t, image).AddToken(t.Context(), id, KeyringToken("t", slots), false); err != nil {
						t.Fatal(err)
					}
				}
			}
			orphans, err := edit(t, image).EraseKeys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			h, err := ReadHeader(image, -1)
			if err != nil || len(h.Keyslots) > 0 || len(h.Segments) != 1 {
				t.Fatal(err, h)
			}
			if name == "LUKS2" && (len(orphans) != 1 || len(h.Tokens) != 1 || h.Tokens[0].ID != 1) {
				t.Error(orphans, h.Tokens)
			}
			v, err := h.UnlockWithKey(t.Context(), key, Policy{})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			if _, err := edit(t, image).AddKey(t.Context(), v, cheapSlot("anew")); err != nil {
				t.Fatal(err)
			}
			open(t, image, "anew")
		})
	}
}
