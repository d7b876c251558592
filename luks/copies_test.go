package luks

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// setSeqID changes one copy's sequence number and checksum.
func setSeqID(tb testing.TB, image []byte, off int, seqID uint64) {
	tb.Helper()
	size := int(binary.BigEndian.Uint64(image[off+offHdrSize:]))
	binary.BigEndian.PutUint64(image[off+offSeqID:], seqID)
	if err := seal(image[off:off+size], "sha256"); err != nil {
		tb.Fatal(err)
	}
}

// Which copy counts, for every size that a copy can have.
func TestCopies(t *testing.T) {
	for _, size := range headerSizes {
		o := smallOptions()
		o.MetadataSize = size
		whole, _ := formatted(t, o)
		second := int(size)
		for _, c := range []struct {
			name    string
			change  func(m memory)
			want    Copy
			seqID   uint64
			warning string
		}{
			{"both whole", func(m memory) {}, Primary, 1, ""},
			{"secondary newer", func(m memory) { setSeqID(t, m, second, 2) }, Secondary, 2, "older than the secondary"},
			{"primary newer", func(m memory) { setSeqID(t, m, 0, 1<<40) }, Primary, 1 << 40, "older than the primary"},
			{"primary damaged", func(m memory) { m[5000]++ }, Secondary, 1, "checksum"},
			{"primary hdr_size damaged", func(m memory) { m[offHdrSize+1] = 0xff }, Secondary, 1, "hdr_size"},
			{"primary magic gone", func(m memory) { m[0] = 0 }, Secondary, 1, "no LUKS magic"},
			{"primary zeroed", func(m memory) { clear(m[:second]) }, Secondary, 1, "no LUKS magic"},
			{"secondary damaged", func(m memory) { m[second+5000]++ }, Primary, 1, "secondary header: "},
			{"secondary zeroed", func(m memory) { clear(m[second : 2*second]) }, Primary, 1, "secondary header: "},
		} {
			image := bytes.Clone(whole)
			c.change(image)
			v := open(t, image, "small")
			h := v.Header
			if h.Copy != c.want || h.SeqID != c.seqID || h.Size != size {
				t.Errorf("%d, %s: %s copy, sequence number %d, size %d", size, c.name, h.Copy, h.SeqID, h.Size)
			}
			if got := strings.Join(h.Warnings, "; "); !strings.Contains(got, c.warning) || (c.warning == "") != (got == "") {
				t.Errorf("%d, %s: warnings %q, want %q", size, c.name, got, c.warning)
			}
		}
	}
}

// Both copies damaged is damage as long as the magic says that it was LUKS.
func TestBothCopiesDamaged(t *testing.T) {
	image, _ := formatted(t, smallOptions())
	image[5000]++
	image[16<<10+5000]++
	_, err := ReadHeader(image, int64(len(image)))
	wantNamed(t, err, ErrHeaderCorrupt, "secondary copy")
	clear(image[:16<<10])
	_, err = ReadHeader(image, int64(len(image)))
	wantNamed(t, err, ErrNotLUKS, "secondary copy")
}

// A secondary copy elsewhere than its hdr_offset says is a copy of an image
// that something stores, not a header.
func TestSecondaryElsewhere(t *testing.T) {
	image, _ := formatted(t, smallOptions())
	moved := make(memory, 1<<20)
	copy(moved[32<<10:], image[16<<10:32<<10])
	_, err := ReadHeader(moved, int64(len(moved)))
	wantNamed(t, err, ErrNotLUKS, "hdr_offset 16384")
	if v, ok := Detect(moved); ok {
		t.Errorf("detected as version %d", v)
	}
}

// The secondary lies right behind the primary: a copy that says that it is
// larger or smaller than that is damaged.
func TestSecondaryOfAnotherSize(t *testing.T) {
	o := smallOptions()
	o.MetadataSize = 32 << 10
	image, _ := formatted(t, o)
	const at = 32 << 10
	binary.BigEndian.PutUint64(image[at+offHdrSize:], 16<<10)
	if err := seal(image[at:at+16<<10], "sha256"); err != nil {
		t.Fatal(err)
	}
	h, err := ReadHeader(image, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], "right behind the primary") {
		t.Errorf("warnings %q", h.Warnings)
	}
}

// A secondary copy does not count where the start has become something else.
func TestSecondaryUnderAnotherFormat(t *testing.T) {
	image, _ := formatted(t, smallOptions())
	clear(image[:16<<10])
	if h, err := ReadHeader(image, int64(len(image))); err != nil || h.Copy != Secondary {
		t.Fatalf("secondary alone: %v", err)
	}
	copy(image[512:], "LABELONE\x01\x00\x00\x00\x00\x00\x00\x00\x09\x48\xcf\x03\x20\x00\x00\x00LVM2 001")
	_, err := ReadHeader(image, int64(len(image)))
	wantNamed(t, err, ErrNotLUKS, "lvm2")
	if v, ok := Detect(image); ok {
		t.Errorf("detected as version %d", v)
	}
}

// A file cut inside the keyslots area still shows its header, with a warning,
// and the keyslot in the missing part is damaged.
func TestTruncated(t *testing.T) {
	image, _ := formatted(t, smallOptions())
	image = image[:100_000]
	h, err := ReadHeader(image, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], "ends at 100000") {
		t.Errorf("warnings %q", h.Warnings)
	}
	_, err = h.Unlock(t.Context(), image, []byte("small"), UnlockOptions{Slot: AnySlot})
	wantNamed(t, err, ErrKeyslotDamaged, "ends after")
}

func TestDetect(t *testing.T) {
	for text, want := range map[string]int{
		"":                     0,
		"LUKS\xba\xbe":         0,
		"LUKS\xba\xbe\x00\x01": 1,
		"LUKS\xba\xbe\x00\x02": 2,
		"SKUL\xba\xbe\x00\x02": 0,
		"luks\xba\xbe\x00\x02": 0,
	} {
		v, ok := Detect(strings.NewReader(text))
		if v != want || ok != (want > 0) {
			t.Errorf("%q: version %d, %v", text, v, ok)
		}
	}
}
