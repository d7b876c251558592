package luks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// editJSON changes the JSON text of both copies and makes their checksums
// right again.
func editJSON(tb testing.TB, image []byte, edit func(text string) string) {
	tb.Helper()
	size := int64(binary.BigEndian.Uint64(image[offHdrSize:]))
	for _, off := range []int64{0, size} {
		area := image[off+binarySize : off+size]
		text := edit(string(bytes.TrimRight(area, "\x00")))
		if len(text) > len(area) {
			tb.Fatalf("JSON of %d bytes does not fit", len(text))
		}
		clear(area)
		copy(area, text)
		if err := seal(image[off:off+size], "sha256"); err != nil {
			tb.Fatal(err)
		}
	}
}

// replace returns an edit of the first occurrence of old, which must be there.
func replace(tb testing.TB, old, with string) func(string) string {
	return func(text string) string {
		tb.Helper()
		if !strings.Contains(text, old) {
			tb.Fatalf("no %s in %s", old, text)
		}
		return strings.Replace(text, old, with, 1)
	}
}

// jsonDefects are single changes of the JSON text. Unless another reason is
// given the header is damaged; word is in the message.
var jsonDefects = []struct {
	name, old, with string
	word            string
}{
	{"no object", `{"keyslots"`, `["keyslots"`, "start with an object"},
	{"space in front", `{"keyslots"`, ` {"keyslots"`, "start with an object"},
	{"cut text", `"config":{`, "\x00", "behind its final NUL"},
	{"missing brace", `"}}`, `"}`, "unexpected end"},
	{"extra brace", `"}}`, `"}}}`, "behind the object"},
	{"extra space", `"131072"}}`, `"131072"}} `, "behind the object"},
	{"extra comma", `"tokens":{}`, `"tokens":{},,`, "unexpected byte 0x2c"},
	{"control character", `"tokens"`, "\"tok\x01ens\"", "unexpected byte 0x01"},
	{"not UTF-8", `"tokens"`, "\"tok\xffens\"", "UTF-8"},
	{"duplicate name", `"tokens":{}`, `"tokens":{},"tokens":{}`, `"tokens" appears twice`},
	{"duplicate keyslot", `"digests":{"0":{`, `"digests":{"0":{},"0":{`, `"0" appears twice`},
	{"too deep", `"tokens":{}`, `"tokens":{},"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested more than 32"},

	{"keyslots missing", `"keyslots":{`, `"keysl0ts":{`, "keyslots: is missing"},
	{"keyslots null", `"tokens":{}`, `"tokens":null`, "tokens: is null"},
	{"segments an array", `"segments":{"0":`, `"segments":[],"s":{"0":`, "segments: is an array"},
	{"config missing", `"config":`, `"conf":`, "config: is missing"},
	{"digests missing", `"digests":`, `"dig":`, "digests: is missing"},
	{"keyslot ID 32", `"keyslots":{"0":`, `"keyslots":{"32":`, `name "32" is not an ID`},
	{"keyslot ID negative", `"keyslots":{"0":`, `"keyslots":{"-1":`, `name "-1" is not an ID`},
	{"keyslot ID with a zero", `"keyslots":{"0":`, `"keyslots":{"00":`, `name "00" is not an ID`},
	{"keyslot ID text", `"keyslots":{"0":`, `"keyslots":{"first":`, "is not an ID"},
	{"keyslot a string", `"tokens":{}`, `"tokens":{"0":"x"}`, "tokens.0: is a string"},

	{"keyslot type missing", `{"type":"luks2"`, `{"kind":"luks2"`, "keyslots.0.type: is missing"},
	{"keyslot type a number", `{"type":"luks2"`, `{"type":2`, "keyslots.0.type: is a number"},
	{"keyslot key_size 0", `"key_size":32,"af"`, `"key_size":0,"af"`, "keyslots.0.key_size"},
	{"keyslot key_size huge", `"key_size":32,"af"`, `"key_size":99999999999999999999,"af"`, "keyslots.0.key_size"},
	{"keyslot key_size a string", `"key_size":32,"af"`, `"key_size":"32","af"`, "keyslots.0.key_size: is a string"},
	{"keyslot key_size a fraction", `"key_size":32,"af"`, `"key_size":32.5,"af"`, "keyslots.0.key_size"},
	{"keyslot key_size more than the area", `"key_size":32,"af"`, `"key_size":64,"af"`, "do not hold"},
	{"priority 3", `"key_size":32,"af"`, `"key_size":32,"priority":3,"af"`, "keyslots.0.priority"},
	{"af missing", `"af":{`, `"fa":{`, "keyslots.0.af: is missing"},
	{"af type", `"luks1"`, `"luks3"`, `"luks3" is not luks1`},
	{"stripes 0", `"stripes":4000`, `"stripes":0`, "keyslots.0.af.stripes"},
	{"stripes more than the area", `"stripes":4000`, `"stripes":5000`, "do not hold"},
	{"stripes huge", `"stripes":4000`, `"stripes":1000000000`, "keyslots.0.af.stripes"},
	{"af hash null", `"hash":"sha256"},"area"`, `"hash":null},"area"`, "keyslots.0.af.hash: is null"},
	{"area missing", `"area":{`, `"aera":{`, "keyslots.0.area: is missing"},
	{"area type for luks2", `"type":"raw"`, `"type":"journal"`, "has a raw area"},
	{"area offset a number", `"offset":"32768"`, `"offset":32768`, "keyslots.0.area.offset: is a number"},
	{"area offset hexadecimal", `"offset":"32768"`, `"offset":"0x8000"`, "not a decimal"},
	{"area offset with a sign", `"offset":"32768"`, `"offset":"+32768"`, "not a decimal"},
	{"area offset with a zero", `"offset":"32768"`, `"offset":"032768"`, "not a decimal"},
	{"area offset empty", `"offset":"32768"`, `"offset":""`, "not a decimal"},
	{"area offset in the header", `"offset":"32768"`, `"offset":"16384"`, "outside the keyslots area"},
	{"area offset odd", `"offset":"32768"`, `"offset":"32769"`, "multiple of 512"},
	{"area offset 2^63", `"offset":"32768"`, `"offset":"9223372036854775808"`, "below 2^63"},
	{"area offset near 2^63", `"offset":"32768"`, `"offset":"9223372036854775296"`, "outside the keyslots area"},
	{"area offset 2^64", `"offset":"32768"`, `"offset":"18446744073709551616"`, "not a decimal"},
	{"area size behind the end", `"size":"131072"`, `"size":"131584"`, "outside the keyslots area"},
	{"area size near 2^63", `"size":"131072"`, `"size":"9223372036854775296"`, "outside the keyslots area"},
	{"area size 0", `"size":"131072"`, `"size":"0"`, "do not hold"},
	{"area encryption missing", `"encryption":"aes-xts-plain64","key_size"`, `"cipher":"aes-xts-plain64","key_size"`, "area.encryption: is missing"},
	{"area key_size negative", `"key_size":32},"kdf"`, `"key_size":-1},"kdf"`, "keyslots.0.area.key_size"},
	{"kdf missing", `"kdf":{`, `"fdk":{`, "keyslots.0.kdf: is missing"},
	{"kdf iterations 0", `"iterations":1000,"salt"`, `"iterations":0,"salt"`, "kdf.iterations"},
	{"kdf iterations 2^31", `"iterations":1000,"salt"`, `"iterations":2147483648,"salt"`, "kdf.iterations"},
	{"kdf salt empty", `"salt":"`, `"salt":"","s":"`, "kdf.salt"},
	{"kdf salt not base64", `"salt":"`, `"salt":"*`, "kdf.salt"},
	{"kdf salt long", `"salt":"`, `"salt":"` + strings.Repeat("AAAA", 30) + `","s":"`, "longer than 32"},

	{"segment type missing", `{"type":"crypt"`, `{"tipe":"crypt"`, "segments.0.type: is missing"},
	{"segment offset in the header", `"offset":"1048576"`, `"offset":"32768"`, "before the end"},
	{"segment offset odd", `"offset":"1048576"`, `"offset":"1048577"`, "multiple of 512"},
	{"segment size text", `"size":"dynamic"`, `"size":"all"`, "segments.0.size"},
	{"segment size 0", `"size":"dynamic"`, `"size":"0"`, "segments.0.size"},
	{"segment behind 2^63", `"size":"dynamic"`, `"size":"9223372036854774784"`, "segments.0.size"},
	{"segment size odd", `"size":"dynamic"`, `"size":"1000"`, "multiple of 512"},
	{"iv_tweak missing", `"iv_tweak":"0",`, ``, "iv_tweak: is missing"},
	{"iv_tweak negative", `"iv_tweak":"0"`, `"iv_tweak":"-8"`, "segments.0.iv_tweak"},
	{"sector_size 0", `"sector_size":512`, `"sector_size":0`, "segments.0.sector_size"},
	{"sector_size 768", `"sector_size":512`, `"sector_size":768`, "segments.0.sector_size"},
	{"sector_size 8192", `"sector_size":512`, `"sector_size":8192`, "segments.0.sector_size"},
	{"segment flags a string", `"sector_size":512`, `"sector_size":512,"flags":"x"`, "flags: is a string"},
	{"segment flags of numbers", `"sector_size":512`, `"sector_size":512,"flags":[1]`, "holds a number"},
	{"integrity a string", `"sector_size":512`, `"sector_size":512,"integrity":"aead"`, "integrity: is a string"},
	{"integrity empty", `"sector_size":512`, `"sector_size":512,"integrity":{}`, "integrity.type: is missing"},

	{"digest type missing", `"digests":{"0":{"type":`, `"digests":{"0":{"t":`, "digests.0.type: is missing"},
	{"digest keyslots missing", `"keyslots":["0"]`, `"slots":["0"]`, "digests.0.keyslots: is missing"},
	{"digest keyslot a number", `"keyslots":["0"]`, `"keyslots":[0]`, "holds a number"},
	{"digest keyslot unknown", `"keyslots":["0"]`, `"keyslots":["1"]`, "no keyslot 1"},
	{"digest keyslot twice", `"keyslots":["0"]`, `"keyslots":["0","0"]`, "ID 0 appears twice"},
	{"digest keyslot out of range", `"keyslots":["0"]`, `"keyslots":["99"]`, "is not an ID"},
	{"digest segment unknown", `"segments":["0"]`, `"segments":["7"]`, "no segment 7"},
	{"digest value missing", `"digest":"`, `"dgst":"`, "digests.0.digest: is missing"},
	{"digest value long", `"digest":"`, `"digest":"` + strings.Repeat("AAAA", 22) + `","d":"`, "digests.0.digest"},
	{"digest value short", `"digest":"`, `"digest":"AQIDBAUGBwgJCgsMDQ4PEBESEw==","d":"`, "digests.0.digest"},
	{"digest iterations text", `"iterations":1000,"salt":"`, `"iterations":"many","salt":"`, "iterations: is a string"},
	{"two digests of a keyslot", `"digests":{"0":{`, `"digests":{"1":{"type":"x","keyslots":["0"],"segments":[]},"0":{`, "keyslot 0 belongs to digest"},

	{"token without type", `"tokens":{}`, `"tokens":{"0":{"keyslots":[]}}`, "tokens.0.type: is missing"},
	{"token keyslot unknown", `"tokens":{}`, `"tokens":{"0":{"type":"x","keyslots":["4"]}}`, "no keyslot 4"},

	{"json_size wrong", `"json_size":"12288"`, `"json_size":"12287"`, "config.json_size"},
	{"json_size missing", `"json_size":"12288",`, ``, "config.json_size: is missing"},
	{"keyslots_size odd", `"keyslots_size":"131072"`, `"keyslots_size":"131584"`, "multiple of 4096"},
	{"keyslots_size huge", `"keyslots_size":"131072"`, `"keyslots_size":"137438953472"`, "more than 134217728"},
	{"keyslots_size over the data", `"keyslots_size":"131072"`, `"keyslots_size":"1048576"`, "before the end"},
	{"requirements an array", `"keyslots_size":"131072"`, `"keyslots_size":"131072","requirements":["x"]`, "requirements: is an array"},
	{"requirements of numbers", `"keyslots_size":"131072"`, `"keyslots_size":"131072","requirements":{"mandatory":[1]}`, "holds a number"},
	{"overlapping areas", `"keyslots":{"0":`, `"keyslots":{"1":{"type":"new","key_size":1,"area":{"type":"new","offset":"163328","size":"512"}},"0":`, "overlap"},
	{"same area twice", `"keyslots":{"0":`, `"keyslots":{"1":{"type":"new","key_size":1,"area":{"type":"new","offset":"32768","size":"512"}},"0":`, "overlap"},
}

// Every defect of the JSON alone makes the header damaged, and says where.
func TestJSONDefects(t *testing.T) {
	whole, _ := formatted(t, smallOptions())
	for _, d := range jsonDefects {
		t.Run(d.name, func(t *testing.T) {
			image := bytes.Clone(whole)
			editJSON(t, image, replace(t, d.old, d.with))
			wantNamed(t, cheaply(t, image), ErrHeaderCorrupt, d.word)
			if v, ok := Detect(bytes.NewReader(image)); v != 2 || !ok {
				t.Errorf("detected as version %d, %v", v, ok)
			}
		})
	}
}

// The JSON area may be full up to one final NUL, and no further.
func TestFullJSONArea(t *testing.T) {
	image, _ := formatted(t, smallOptions())
	const room = 16<<10 - binarySize
	pad := func(n int) func(string) string {
		return func(text string) string {
			frame := `,"pad":""}`
			return text[:len(text)-1] + frame[:len(frame)-2] + strings.Repeat("x", n-len(text)+1-len(frame)) + frame[len(frame)-2:]
		}
	}
	full := bytes.Clone(image)
	editJSON(t, full, pad(room-1))
	open(t, full, "small")
	editJSON(t, image, pad(room))
	_, err := ReadHeader(bytes.NewReader(image), int64(len(image)))
	wantNamed(t, err, ErrHeaderCorrupt, "no final NUL")
}

// A JSON area of nothing but values costs bounded memory and is refused.
func TestTooManyJSONValues(t *testing.T) {
	o := smallOptions()
	o.MetadataSize = 1 << 20
	image, _ := formatted(t, o)
	editJSON(t, image, replace(t, `"tokens":{}`, `"tokens":{},"x":[`+strings.Repeat("[],", 200_000)+`[]]`))
	_, err := ReadHeader(bytes.NewReader(image), int64(len(image)))
	wantNamed(t, err, ErrHeaderCorrupt, "more than 8192 values")
}

// What a program of another version may add is kept and does no harm.
func TestUnknownObjects(t *testing.T) {
	o := smallOptions()
	o.KeyslotsSize += 8192
	image, _ := formatted(t, o)
	token := `{"type":"new-token","keyslots":["0","5"],"extra":{"a":[1,2.5e3,null,true]} }`
	edits := []func(string) string{
		replace(t, `"keyslots":{"0":`, `"keyslots":{"5":{"type":"new-slot","key_size":7,"area":{"type":"what","offset":"163840","size":"4096","q":1}},"0":`),
		replace(t, `"tokens":{}`, `"tokens":{"9":`+token+`}`),
		replace(t, `"keyslots_size"`, `"flags":["allow-discards","new-flag"],"new":[],"keyslots_size"`),
		replace(t, `"config"`, `"new-object":{"0":{}},"config"`),
	}
	for _, edit := range edits {
		editJSON(t, image, edit)
	}
	v := open(t, image, "small")
	h := v.Header
	if k := h.keyslot(5); k == nil || k.Type != "new-slot" || k.KeySize != 7 {
		t.Errorf("keyslot 5: %+v", k)
	}
	if len(h.Tokens) != 1 || string(h.Tokens[0].JSON) != token || h.Tokens[0].ID != 9 {
		t.Errorf("tokens %+v", h.Tokens)
	}
	if got := fmt.Sprint(h.Config.Flags); got != "[allow-discards new-flag]" {
		t.Errorf("flags %s", got)
	}
	_, err := h.Unlock(t.Context(), bytes.NewReader(image), []byte("small"), UnlockOptions{Slot: 5})
	wantNamed(t, err, ErrNoKeyslot, "new-slot")
}

// Binary defects, one in each copy at the same place.
func TestBinaryDefects(t *testing.T) {
	whole, _ := formatted(t, smallOptions())
	both := func(off int, b ...byte) func(memory) memory {
		return func(m memory) memory {
			copy(m[off:], b)
			copy(m[16<<10+off:], b)
			return m
		}
	}
	sealed := func(f func(memory) memory) func(memory) memory {
		return func(m memory) memory {
			m = f(m)
			for _, off := range []int{0, 16 << 10} {
				if err := seal(m[off:off+16<<10], "sha256"); err != nil {
					t.Fatal(err)
				}
			}
			return m
		}
	}
	for _, c := range []struct {
		name   string
		change func(memory) memory
		want   error
		word   string
	}{
		{"empty", func(m memory) memory { return nil }, ErrNotLUKS, "no LUKS magic"},
		{"five bytes", func(m memory) memory { return m[:5] }, ErrNotLUKS, "no LUKS magic"},
		{"magic alone", func(m memory) memory { return m[:6] }, ErrHeaderCorrupt, "ends after 6 bytes"},
		{"half a binary header", func(m memory) memory { return m[:2048] }, ErrHeaderCorrupt, "2048 of its 16384"},
		{"no JSON area", func(m memory) memory { return m[:4096] }, ErrHeaderCorrupt, "4096 of its 16384"},
		{"one byte short", func(m memory) memory { return m[:16383] }, ErrHeaderCorrupt, "16383 of its 16384"},
		{"magic", both(0, 'X'), ErrNotLUKS, "no LUKS magic"},
		{"version 1", both(offVersion, 0, 1), ErrHeaderCorrupt, "LUKS1 cipher-name"},
		{"version 0x0200", both(offVersion, 2, 0), ErrUnsupported, "version 512"},
		{"hdr_size 0", sealed(both(offHdrSize, 0, 0, 0, 0, 0, 0, 0, 0)), ErrHeaderCorrupt, "hdr_size 0"},
		{"hdr_size 20 KiB", sealed(both(offHdrSize, 0, 0, 0, 0, 0, 0, 0x50, 0)), ErrHeaderCorrupt, "hdr_size 20480"},
		{"hdr_size 2^63", sealed(both(offHdrSize, 0x80, 0, 0, 0, 0, 0, 0x40, 0)), ErrHeaderCorrupt, "hdr_size"},
		{"hdr_size doubled", both(offHdrSize, 0, 0, 0, 0, 0, 0, 0x80, 0), ErrHeaderCorrupt, "checksum"},
		{"hdr_offset", sealed(both(offHdrOffset, 0, 0, 0, 0, 0, 0, 0x10, 0)), ErrHeaderCorrupt, "hdr_offset 4096"},
		{"checksum algorithm", both(offChecksumAlg, 'm', 'd', '4', 0), ErrUnsupported, `hash "md4"`},
		{"checksum", func(m memory) memory {
			m[offChecksum] ^= 1
			m[16<<10+offChecksum] ^= 1
			return m
		}, ErrHeaderCorrupt, "checksum (sha256)"},
		{"label", both(offLabel, 'x'), ErrHeaderCorrupt, "checksum (sha256)"},
		{"JSON byte", both(binarySize+9, '!'), ErrHeaderCorrupt, "checksum (sha256)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := c.change(bytes.Clone(whole))
			_, err := ReadHeader(bytes.NewReader(image), int64(len(image)))
			wantNamed(t, err, c.want, c.word)
		})
	}
}

// An error of the storage is not taken for damage.
func TestReadError(t *testing.T) {
	_, err := ReadHeader(failing{}, 1<<20)
	if !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, ErrHeaderCorrupt) || errors.Is(err, ErrNotLUKS) {
		t.Errorf("got %v", err)
	}
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, io.ErrClosedPipe }
