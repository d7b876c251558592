package luks

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"testing"
)

// FuzzReadHeader takes the fields of a binary header and the text of its JSON
// area, and makes the checksum right if it is told to, so that the fuzzer
// reaches what lies behind it. Whatever it finds, nothing panics, and a header
// that is accepted can be shown, and unlocked where that costs little.
func FuzzReadHeader(f *testing.F) {
	add := func(whole memory, edits ...func(string) string) {
		image := bytes.Clone(whole)
		// Next to no cost, so that unlocking is reached.
		edits = append(edits,
			func(s string) string {
				return regexp.MustCompile(`"(iterations|time)":\d+`).ReplaceAllString(s, `"$1":1`)
			})
		for _, edit := range edits {
			editJSON(f, image, edit)
		}
		f.Add([]byte(image[:512]), bytes.TrimRight(image[binarySize:16<<10], "\x00"), true)
	}
	image, _ := formatted(f, smallOptions())
	f.Add([]byte(image[:512]), bytes.TrimRight(image[binarySize:16<<10], "\x00"), false)
	add(image)
	add(image,
		replace(f, `"keyslots":{"0":`, `"keyslots":{"5":{"type":"reencrypt","mode":"reencrypt","direction":"forward","key_size":1,"priority":0,"area":{"type":"datashift-checksum","offset":"163840","size":"4096","hash":"sha256","sector_size":512,"shift_size":"4096"}},"0":`),
		replace(f, `"keyslots_size":"131072"`, `"keyslots_size":"135168"`))
	o := smallOptions()
	o.KDF, o.Label, o.SectorSize = cheapArgon2, "label", 4096
	image, _ = formatted(f, o)
	add(image,
		replace(f, `"tokens":{}`, `"tokens":{"0":{"type":"luks2-keyring","keyslots":["0"],"key_description":"d"}}`),
		replace(f, `"keyslots_size"`, `"flags":["allow-discards"],"requirements":{"mandatory":["online-reencrypt-v2"]},"keyslots_size"`),
		replace(f, `"sector_size":4096`, `"sector_size":4096,"flags":["backup-final"],"integrity":{"type":"aead","journal_encryption":"none","journal_integrity":"none"}`))
	for _, g := range golden {
		add(goldenImage(f, g.file))
	}
	small, _ := formatted(f, smallOptions())
	for _, d := range jsonDefects {
		add(small, replace(f, d.old, d.with))
	}
	rich := richHeader(f)
	for _, d := range richDefects {
		add(rich, replace(f, d.old, d.with))
	}
	for _, d := range oddSeeds {
		add(small, replace(f, d[0], d[1]))
	}
	for _, c := range []struct {
		off int
		b   []byte
	}{{offVersion, []byte{0, 3}}, {offHdrSize, []byte{1}}, {offHdrOffset, []byte{1}}} {
		head := bytes.Clone(small[:512])
		copy(head[c.off:], c.b)
		f.Add(head, bytes.TrimRight(small[binarySize:16<<10], "\x00"), true)
	}
	f.Add([]byte(small[:512]), bytes.Repeat([]byte(" "), 12<<10), true) // no NUL
	f.Add(bytes.Replace(small[:512], []byte("sha256"), []byte("md4\x00\x00\x00"), 1), []byte("{}"), false)
	f.Add(append(bytes.Clone(small[:511]), 1), []byte("{}"), false)
	f.Fuzz(func(t *testing.T, fields, text []byte, reseal bool) {
		b := make(memory, 32<<10+131072)
		copy(b[:512], fields)
		copy(b[binarySize:16<<10], text)
		if reseal {
			copy(b[offChecksumAlg:], "sha256\x00")
			if err := seal(b[:16<<10], "sha256"); err != nil {
				t.Fatal(err)
			}
		}
		Detect(b)
		InspectCopies(b, int64(len(b)))
		h, err := ReadHeader(b, int64(len(b)))
		if err != nil {
			return
		}
		exercise(t, h, b)
	})
}

// exercise does with an accepted header what reading verbs do.
func exercise(t *testing.T, h *Header, b memory) {
	_ = h.Openable(Policy{})
	if h.Summary() == "" || h.Describe().Version != h.Version {
		t.Error("no summary")
	}
	h.Detached()
	if list, err := Diff(h, h, b, b); err != nil || len(list) > 0 {
		t.Errorf("differs from itself: %v, %v", list, err)
	}
	_ = h.WriteBackup(io.Discard, b)
	_, _ = h.Convert(b, 3-h.Version)
	if list, err := h.DataSegments(); err == nil {
		for _, s := range list {
			if s.Offset < 0 || s.Type == typeCrypt && (s.SectorSize < 512 || s.SectorSize > 4096) {
				t.Errorf("segment %+v", s)
			}
		}
	}
	for _, k := range h.Keyslots {
		_, _ = h.InspectArea(b, k.ID)
		if k.Area.Offset < 2*h.Size || k.Area.Size < 0 || k.Area.Offset+k.Area.Size > h.End() {
			t.Errorf("area %+v outside %d to %d", k.Area, 2*h.Size, h.End())
		}
	}
	if !cheap(h) {
		return
	}
	v, err := h.Unlock(context.Background(), b, []byte("small"), UnlockOptions{Slot: AnySlot, Policy: Policy{MaxKDFMemoryKiB: 64}})
	if err == nil {
		v.Close()
	}
	if v, err = h.UnlockWithKey(context.Background(), make([]byte, 32), Policy{}); err == nil {
		v.Close()
	}
}

// cheap tells whether a try of every keyslot takes about a millisecond.
func cheap(h *Header) bool {
	cost := 0
	for _, k := range h.Keyslots {
		cost += k.KDF.Iterations*max(1, k.KDF.MemoryKiB) + k.AF.Stripes*k.KeySize/1000
	}
	for _, d := range h.Digests {
		cost += d.KDF.Iterations
	}
	return cost < 1000
}
