package luks

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// manySlots returns an image with a keyslot for each passphrase, in order, all
// of the same volume key.
func manySlots(t *testing.T, passphrases ...string) (memory, []byte) {
	t.Helper()
	o := smallOptions()
	o.Passphrase = []byte(passphrases[0])
	size := areaSize(o.KeySize)
	o.KeyslotsSize = size * int64(len(passphrases))
	o.MetadataSize = 32 << 10
	image, key := formatted(t, o)
	h, err := ReadHeader(image, -1)
	if err != nil {
		t.Fatal(err)
	}
	var slots []string
	for i, pass := range passphrases[1:] {
		k := h.Keyslots[0]
		k.Area.Offset += size * int64(i+1)
		k.KDF.Salt = bytes.Repeat([]byte{byte(i + 1)}, 32)
		areaKey, err := k.KDF.derive(t.Context(), []byte(pass), k.Area.KeySize)
		if err != nil {
			t.Fatal(err)
		}
		area, err := k.fill(key, areaKey)
		if err != nil {
			t.Fatal(err)
		}
		copy(image[k.Area.Offset:], area)
		k.ID = i + 1
		slots = append(slots, encodeSlot(t, k))
	}
	editJSON(t, image, func(text string) string {
		ids := `"0"`
		for i, s := range slots {
			text = strings.Replace(text, `"keyslots":{`, `"keyslots":{`+s+",", 1)
			ids += fmt.Sprintf(`,"%d"`, i+1)
		}
		return strings.Replace(text, `"keyslots":["0"]`, `"keyslots":[`+ids+`]`, 1)
	})
	return image, key
}

// encodeSlot returns a keyslot as a member of the keyslots object.
func encodeSlot(t *testing.T, k Keyslot) string {
	t.Helper()
	h := Header{Keyslots: []Keyslot{k}}
	text, err := h.encodeNew()
	if err != nil {
		t.Fatal(err)
	}
	o, err := parseArea(append(text, 0))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(o.fields["keyslots"].(*jsonObject).raw, "{}") + "}}"
}

// inSlot returns an edit inside one keyslot's object.
func inSlot(t *testing.T, id int, old, with string) func(string) string {
	return func(text string) string {
		t.Helper()
		name := fmt.Sprintf(`"%d":{"type":"luks2"`, id)
		i := strings.Index(text, name)
		if i < 0 {
			t.Fatalf("no keyslot %d in %s", id, text)
		}
		return text[:i] + replace(t, old, with)(text[i:])
	}
}

func unlock(t *testing.T, image []byte, pass string, slot int) (*Volume, error) {
	t.Helper()
	h, err := ReadHeader(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	v, err := h.Unlock(t.Context(), bytes.NewReader(image), []byte(pass), UnlockOptions{Slot: slot})
	if err == nil {
		t.Cleanup(v.Close)
	}
	return v, err
}

func TestSlotsAndPriorities(t *testing.T) {
	image, key := manySlots(t, "zero", "one", "same", "same", "ignored")
	editJSON(t, image, inSlot(t, 3, `"key_size":32`, `"key_size":32,"priority":2`))
	editJSON(t, image, inSlot(t, 4, `"key_size":32`, `"key_size":32,"priority":0`))
	for _, c := range []struct {
		pass       string
		slot, want int
		err        error
	}{
		{"zero", AnySlot, 0, nil},
		{"one", AnySlot, 1, nil},
		{"one", 1, 1, nil},
		{"one", 0, 0, ErrWrongPassphrase},
		{"same", AnySlot, 3, nil}, // preferred before normal
		{"same", 2, 2, nil},
		{"ignored", AnySlot, 0, ErrWrongPassphrase},
		{"ignored", 4, 4, nil},
		{"zero", 7, 0, ErrNoKeyslot},
		{"zero", -2, 0, ErrNoKeyslot},
		{"zero", 1 << 20, 0, ErrNoKeyslot},
	} {
		v, err := unlock(t, image, c.pass, c.slot)
		switch {
		case !errors.Is(err, c.err):
			t.Errorf("%s in slot %d: %v, not %v", c.pass, c.slot, err, c.err)
		case err == nil && (v.Slot != c.want || !bytes.Equal(v.Key(), key)):
			t.Errorf("%s in slot %d: slot %d, key %x", c.pass, c.slot, v.Slot, v.Key())
		}
	}
	if v, _ := unlock(t, image, "one", AnySlot); v != nil && v.KDFTime <= 0 {
		t.Error("no KDF time")
	}
}

// The error of several keyslots has the reason that speaks for all and tells
// of each.
func TestUnlockErrors(t *testing.T) {
	whole, _ := manySlots(t, "zero", "one")
	const area0, area1 = 64 << 10, 64<<10 + 131072
	unknownKDF := `"type":"pbkdf2","hash":"sha256","iterations"`
	for _, c := range []struct {
		name  string
		spoil func(m memory)
		slot  int
		want  error
		words []string
	}{
		{"wrong", func(m memory) {}, AnySlot, ErrWrongPassphrase, []string{"keyslot 0, 1"}},
		{"one damaged", func(m memory) { clear(m[area0+512:][:512]) }, AnySlot, ErrWrongPassphrase,
			[]string{"tried keyslot 1", "keyslot 0: keyslot damaged"}},
		{"the one asked for damaged", func(m memory) { clear(m[area0+512:][:512]) }, 0, ErrKeyslotDamaged,
			[]string{"1 of its 250 sectors", "at offset 66048"}},
		{"both damaged", func(m memory) { clear(m[area0:][:128000]); copy(m[area1+1024:], strings.Repeat("some text ", 60)) }, AnySlot, ErrKeyslotDamaged,
			[]string{"250 of its 250", "keyslot 1: keyslot damaged"}},
		{"unknown KDF", func(m memory) {
			editJSON(t, m, inSlot(t, 0, unknownKDF, `"type":"scrypt","hash":"sha256","iterations"`))
		}, 0, ErrUnsupported,
			[]string{`KDF "scrypt"`}},
		{"unknown KDF, other damaged", func(m memory) {
			editJSON(t, m, inSlot(t, 0, unknownKDF, `"type":"scrypt","hash":"sha256","iterations"`))
			clear(m[area1:][:128000])
		}, AnySlot, ErrUnsupported, []string{`keyslot 0: unsupported KDF "scrypt"`, "keyslot 1: keyslot damaged"}},
		{"unknown KDF, other wrong", func(m memory) {
			editJSON(t, m, inSlot(t, 0, unknownKDF, `"type":"scrypt","hash":"sha256","iterations"`))
		}, AnySlot, ErrWrongPassphrase, []string{"tried keyslot 1", `keyslot 0: unsupported KDF "scrypt"`}},
		{"unknown hash", func(m memory) {
			editJSON(t, m, inSlot(t, 1, `"hash":"sha256","iterations"`, `"hash":"md2","iterations"`))
		}, 1, ErrUnsupported, []string{`hash "md2"`}},
		{"unknown AF hash", func(m memory) { editJSON(t, m, inSlot(t, 1, `"hash":"sha256"},"area"`, `"hash":"tiger"},"area"`)) }, 1, ErrUnsupported, []string{`anti-forensic split: unsupported hash "tiger"`}},
		{"other stripes", func(m memory) { editJSON(t, m, inSlot(t, 1, `"stripes":4000`, `"stripes":3999`)) }, 1, ErrPolicy, []string{"3999 stripes"}},
		{"unknown area cipher", func(m memory) { editJSON(t, m, inSlot(t, 1, `aes-xts-plain64`, `aes-ctr-plain64`)) }, 1, ErrUnsupported, []string{`area: `, `"aes-ctr-plain64"`}},
		{"area key too long", func(m memory) { editJSON(t, m, inSlot(t, 1, `"key_size":32},"kdf"`, `"key_size":40},"kdf"`)) }, 1, ErrUnsupported, []string{"key of 40 bytes"}},
		{"unknown digest", func(m memory) {
			editJSON(t, m, replace(t, `"digests":{"0":{"type":"pbkdf2"`, `"digests":{"0":{"type":"poly"`))
		}, 1, ErrUnsupported, []string{`digest type "poly"`}},
		{"no digest", func(m memory) { editJSON(t, m, replace(t, `"keyslots":["0","1"]`, `"keyslots":["0"]`)) }, 1, ErrNoKeyslot, []string{"no digest"}},
		{"no keyslots bound", func(m memory) { editJSON(t, m, replace(t, `"keyslots":["0","1"]`, `"keyslots":[]`)) }, AnySlot, ErrNoKeyslot, []string{"none of the 2"}},
		{"unknown requirement", func(m memory) {
			editJSON(t, m, replace(t, `"keyslots_size"`, `"requirements":{"mandatory":["quantum"]},"keyslots_size"`))
		}, AnySlot, ErrUnsupported, []string{`requirement "quantum"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := bytes.Clone(whole)
			c.spoil(image)
			_, err := unlock(t, image, "neither", c.slot)
			for _, w := range c.words {
				wantNamed(t, err, c.want, w)
			}
			for _, s := range ranks {
				if s != c.want && errors.Is(err, s) {
					t.Errorf("also %v: %v", s, err)
				}
			}
		})
	}
}

// A keyslot that is bound to no segment opens by its number only, and never the data.
func TestUnboundKeyslot(t *testing.T) {
	image, key := manySlots(t, "zero", "one")
	editJSON(t, image, func(text string) string {
		text = replace(t, `"keyslots":["0","1"]`, `"keyslots":["0"]`)(text)
		i := strings.Index(text, `"digests":{"0":`) + len(`"digests":{"0":`)
		digest := text[i : i+strings.Index(text[i:], "}")+1]
		digest = replace(t, `"keyslots":["0"],"segments":["0"]`, `"keyslots":["1"],"segments":[]`)(digest)
		return replace(t, `"digests":{`, `"digests":{"1":`+digest+`,`)(text)
	})
	if _, err := unlock(t, image, "one", AnySlot); !errors.Is(err, ErrWrongPassphrase) {
		t.Errorf("without its number: %v", err)
	}
	v, err := unlock(t, image, "one", 1)
	if err != nil {
		t.Fatal(err)
	}
	if !v.Unbound || !bytes.Equal(v.Key(), key) {
		t.Errorf("unbound %v, key %x", v.Unbound, v.Key())
	}
	_, err = v.Segments()
	wantNamed(t, err, ErrPolicy, "keyslot 1")
	if v, err = unlock(t, image, "zero", AnySlot); err != nil || v.Unbound {
		t.Fatalf("bound keyslot: %v", err)
	}
	if _, err := v.Segments(); err != nil {
		t.Error(err)
	}
}

// What overwrites keyslots in practice is told from encrypted data; random
// bytes are not.
func TestJudgeArea(t *testing.T) {
	random := make([]byte, 64*keyslotSector)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(random)
	if err := judgeArea(random, 0); !errors.Is(err, ErrWrongPassphrase) {
		t.Errorf("random bytes: %v", err)
	}
	for name, junk := range map[string][]byte{
		"zeros":      make([]byte, 512),
		"ones":       bytes.Repeat([]byte{0xff}, 512),
		"half zeros": make([]byte, 256),
		"text":       []byte(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 12)[:512]),
		"counter":    []byte(strings.Repeat("\x00\x01\x02\x03\x00\x00\x00\x00", 64)),
		"base64":     []byte(base64.StdEncoding.EncodeToString(random[1024:])[:512]),
		"letters":    []byte(strings.Repeat("QWxhZGRpbjpvcGVuIHNlc2FtZQABCDEFGHIJKLMNOPRSTUVWXYZ0123456789+/abcdefghijklm", 7)[:512]),
	} {
		b := bytes.Clone(random)
		copy(b[13*keyslotSector:], junk)
		err := judgeArea(b, 4096)
		wantNamed(t, err, ErrKeyslotDamaged, "1 of its 64 sectors")
		wantNamed(t, err, ErrKeyslotDamaged, fmt.Sprintf("offset %d", 4096+13*keyslotSector))
		if t.Failed() {
			t.Logf("%s", name)
		}
	}
}

func TestUnlockWithKey(t *testing.T) {
	image, key := formatted(t, smallOptions())
	h, err := ReadHeader(image, -1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := h.UnlockWithKey(t.Context(), key, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(v.Key(), key) || v.Slot != AnySlot {
		t.Errorf("slot %d, key %x", v.Slot, v.Key())
	}
	if &v.Key()[0] == &key[0] {
		t.Error("the key is not copied")
	}
	if _, err := v.Segments(); err != nil {
		t.Error(err)
	}
	v.Close()
	v.Close()

	wrong := bytes.Clone(key)
	wrong[31]++
	// PBKDF2 takes a key with zeros behind it for the same key.
	for name, k := range map[string][]byte{"wrong": wrong, "padded": append(bytes.Clone(key), make([]byte, 32)...), "short": key[:31], "empty": {}} {
		if _, err := h.UnlockWithKey(t.Context(), k, Policy{}); !errors.Is(err, ErrWrongPassphrase) {
			t.Errorf("%s key: %v", name, err)
		}
	}
}

// With all keyslots erased the volume key still opens, and its length is
// bounded by the cipher.
func TestUnlockWithKeyWithoutKeyslots(t *testing.T) {
	image, key := formatted(t, smallOptions())
	editJSON(t, image, func(text string) string {
		i, j := strings.Index(text, `{"0"`), strings.Index(text, `,"tokens"`)
		return strings.Replace(text[:i]+"{}"+text[j:], `"keyslots":["0"]`, `"keyslots":[]`, 1)
	})
	h, err := ReadHeader(image, -1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := h.UnlockWithKey(t.Context(), key, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	if _, err := h.UnlockWithKey(t.Context(), append(key, 0), Policy{}); !errors.Is(err, ErrWrongPassphrase) {
		t.Errorf("a key of 33 bytes: %v", err)
	}
}

func TestKeyAfterClose(t *testing.T) {
	v := open(t, goldenImage(t, golden[0].file), "golden")
	v.Close()
	defer func() {
		if recover() == nil {
			t.Error("Key after Close does not panic")
		}
	}()
	v.Key()
}

func TestUnlockCancelled(t *testing.T) {
	for _, kdf := range []KDF{
		{Type: KDFPBKDF2, Hash: "sha256", Iterations: 1 << 30},
		{Type: KDFArgon2id, Iterations: 40, MemoryKiB: 8 << 10, Threads: 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		kdf.Salt = make([]byte, 32)
		go func() {
			_, err := kdf.derive(ctx, []byte("x"), 32)
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", kdf, err)
		}
	}
}

// A header whose data cannot be read says why, by name.
func TestDataSegments(t *testing.T) {
	whole, _ := formatted(t, smallOptions())
	segment := func(with string) func(string) string {
		return replace(t, `"sector_size":512`, `"sector_size":512`+with)
	}
	for _, c := range []struct {
		name string
		edit func(string) string
		want error
		word string
	}{
		{"cipher", replace(t, `"iv_tweak":"0","encryption":"aes-xts-plain64"`, `"iv_tweak":"0","encryption":"aes-gcm-random"`), ErrUnsupported, `"aes-gcm-random"`},
		{"another cipher", replace(t, `"iv_tweak":"0","encryption":"aes-xts-plain64"`, `"iv_tweak":"0","encryption":"rot13-ecb"`), ErrUnsupported, `"rot13-ecb"`},
		{"flag", segment(`,"flags":["in-reencryption"]`), ErrUnsupported, "in-reencryption"},
		{"integrity", segment(`,"integrity":{"type":"aead","journal_encryption":"none","journal_integrity":"none"}`), ErrUnsupported, `integrity "aead"`},
		{"type", replace(t, `{"type":"crypt"`, `{"type":"hw-opal"`), ErrUnsupported, `segment type "hw-opal"`},
		{"linear", replace(t, `{"type":"crypt"`, `{"type":"linear"`), ErrUnsupported, `segment type "linear"`},
		{"known requirement", replace(t, `"keyslots_size"`, `"requirements":{"mandatory":["offline-reencrypt"]},"keyslots_size"`), ErrUnsupported, "offline-reencrypt"},
		{"no digest", replace(t, `"segments":["0"]`, `"segments":[]`), ErrHeaderCorrupt, "no digest"},
		{"iv_tweak inside a sector", func(s string) string {
			return replace(t, `"sector_size":512`, `"sector_size":4096`)(replace(t, `"iv_tweak":"0"`, `"iv_tweak":"4"`)(s))
		}, ErrHeaderCorrupt, "iv_tweak 4"},
		{"only a backup", segment(`,"flags":["backup-previous"]`), ErrHeaderCorrupt, "no segment"},
		{"gap", replace(t, `"segments":{"0":{`, `"segments":{"2":{"type":"crypt","offset":"2097152","size":"dynamic","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512},"0":{`), ErrHeaderCorrupt, "digest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := memory(bytes.Clone(whole))
			editJSON(t, image, c.edit)
			h, err := ReadHeader(image, -1)
			if err != nil {
				t.Fatal(err)
			}
			_, err = h.DataSegments()
			wantNamed(t, err, c.want, c.word)
		})
	}
}

// Several segments under one key are one plaintext; a gap in their numbers or
// an open size inside is not.
func TestSeveralSegments(t *testing.T) {
	whole, _ := formatted(t, smallOptions())
	second := func(id int, size0 string) func(string) string {
		return func(text string) string {
			text = replace(t, `"size":"dynamic"`, `"size":"`+size0+`"`)(text)
			text = replace(t, `"segments":{"0":{`, fmt.Sprintf(`"segments":{"%d":{"type":"crypt","offset":"2097152","size":"dynamic","iv_tweak":"2048","encryption":"aes-xts-plain64","sector_size":512},"0":{`, id))(text)
			return replace(t, `"segments":["0"]`, fmt.Sprintf(`"segments":["0","%d"]`, id))(text)
		}
	}
	read := func(edit func(string) string) ([]Segment, error) {
		image := memory(bytes.Clone(whole))
		editJSON(t, image, edit)
		h, err := ReadHeader(image, -1)
		if err != nil {
			t.Fatal(err)
		}
		return h.DataSegments()
	}
	list, err := read(second(1, "1048576"))
	if err != nil || len(list) != 2 || list[0].Size != 1<<20 || list[1].Size != -1 || list[1].IVTweak != 2048 || list[1].Offset != 2<<20 {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = read(second(2, "1048576"))
	wantNamed(t, err, ErrHeaderCorrupt, "segment 1 is missing")
	_, err = read(second(1, "dynamic"))
	wantNamed(t, err, ErrHeaderCorrupt, "segment 0 has no size")
	_, err = read(second(1, "1049088"))
	wantNamed(t, err, ErrHeaderCorrupt, "segments 0 and 1 overlap")
}

func TestSegmentsOverlap(t *testing.T) {
	at := func(offset, size int64) *Segment { return &Segment{Offset: offset, Size: size} }
	for _, c := range []struct {
		a, b *Segment
		want bool
	}{
		{at(0, 10), at(10, 10), false},
		{at(0, 10), at(9, 1), true},
		{at(0, 10), at(0, 10), true},
		{at(3, 2), at(0, 10), true},
		{at(10, -1), at(0, 10), false},
		{at(9, -1), at(0, 10), true},
		{at(9, -1), at(20, 10), true},
		{at(9, -1), at(20, -1), true},
	} {
		if c.a.overlaps(c.b) != c.want || c.b.overlaps(c.a) != c.want {
			t.Errorf("%d at %d and %d at %d: overlap is not %v", c.a.Size, c.a.Offset, c.b.Size, c.b.Offset, c.want)
		}
	}
}

// A segment flag that is not known is ignored (specification, section 3.3).
func TestUnknownSegmentFlag(t *testing.T) {
	image, _ := formatted(t, smallOptions())
	editJSON(t, image, replace(t, `"sector_size":512`, `"sector_size":512,"flags":["new"]`))
	if _, err := open(t, image, "small").Segments(); err != nil {
		t.Error(err)
	}
}
