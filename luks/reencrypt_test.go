package luks

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// Members of headers in the middle of a reencryption.
const (
	tornKeyslot  = `"7":{"type":"reencrypt","key_size":1,"mode":"%s","direction":"%s","priority":0,"area":{"type":"%s","offset":"%d","size":"65536"%s}}`
	tornChecksum = `,"hash":"sha256","sector_size":512`
	tornCrypt    = `"type":"crypt","offset":"%d","size":"%s","iv_tweak":"%d","encryption":"aes-xts-plain64","sector_size":512`
	tornLinear   = `"type":"linear","offset":"%d","size":"%s"`
	tornDigest   = `"7":{"type":"pbkdf2","keyslots":["7"],"segments":[],"hash":"sha256","iterations":1000,"salt":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","digest":"BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA="}`
)

// tornHeader is a header in the middle of a reencryption in this mode, with a
// zone that was being rewritten, and a digest that vouches for it. decrypt is
// with a data shift, the others in place; the data is elsewhere but for
// reencrypt.
func tornHeader(tb testing.TB, mode string) memory {
	tb.Helper()
	o := smallOptions()
	o.KeyslotsSize = 2*areaSize(32) + 64<<10
	image, key := formatted(tb, o)
	keys := []digestKey{{0, secret.From(bytes.Clone(key))}}
	crypt := func(off int64, size string, iv int) string { return fmt.Sprintf(tornCrypt, off, size, iv) }
	linear := func(off int64, size string) string { return fmt.Sprintf(tornLinear, off, size) }
	hot, previous, final := `,"flags":["in-reencryption"]`, `,"flags":["backup-previous"]`, `,"flags":["backup-final"]`
	direction, area, more := "forward", "checksum", tornChecksum
	var list []string
	members := []string{`"0","1","4"`, ""}
	switch mode {
	case modeEncrypt:
		list = []string{crypt(0, "262144", 0), crypt(262144, "65536", 512) + hot, linear(327680, "dynamic"), linear(0, "dynamic") + previous, crypt(0, "dynamic", 0) + final}
	case modeDecrypt:
		area, more = "datashift-checksum", tornChecksum+`,"shift_size":"1048576"`
		list = []string{crypt(0, "65536", 0), linear(65536, "131072"), linear(196608, "65536") + hot, crypt(1310720, "dynamic", 512),
			crypt(1048576, "dynamic", 0) + previous, linear(0, "dynamic") + final, crypt(0, "65536", 0) + `,"flags":["backup-moved-segment"]`}
		members[0] = `"0","3","4","6"`
	case modeReencrypt:
		direction = "backward"
		list = []string{crypt(1048576, "262144", 0), crypt(1310720, "65536", 512) + hot, crypt(1376256, "dynamic", 640), crypt(1048576, "dynamic", 0) + previous, crypt(1048576, "dynamic", 0) + final}
		members = []string{`"0","1","3"`, `"1","2","4"`}
		second := bytes.Repeat([]byte("key "), 8)
		second[31] = 1
		e, err := Edit(tb.Context(), image, int64(len(image)))
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := e.AddKey(tb.Context(), nil, NewKeyslot{Slot: 1, Passphrase: []byte("small"), KDF: cheapKDF, Key: second, DigestIterations: 1000}); err != nil {
			tb.Fatal(err)
		}
		keys = append(keys, digestKey{1, secret.From(second)})
	}
	var segments []string
	for i, s := range list {
		segments = append(segments, fmt.Sprintf(`"%d":{%s}`, i, s))
	}
	editJSON(tb, image, func(text string) string {
		text = replace(tb, `"keyslots":{`, `"keyslots":{`+fmt.Sprintf(tornKeyslot, mode, direction, area, 32<<10+2*areaSize(32), more)+`,`)(text)
		from := strings.Index(text, `"segments":{`) + len(`"segments":{`)
		text = text[:from] + strings.Join(segments, ",") + text[from+strings.Index(text[from:], "}}")+1:]
		text = replace(tb, `"segments":["0"]`, `"segments":[`+members[0]+`]`)(text)
		if members[1] != "" {
			text = replace(tb, `"segments":[]`, `"segments":[`+members[1]+`]`)(text)
		}
		text = replace(tb, `"digests":{`, `"digests":{`+tornDigest+`,`)(text)
		return replace(tb, `"json_size"`, `"requirements":{"mandatory":["online-reencrypt-v2"]},"json_size"`)(text)
	})
	vouch(tb, image, keys)
	return image
}

// vouch makes the digest right, by the code that the fixtures have shown to be.
func vouch(tb testing.TB, image memory, keys []digestKey) {
	tb.Helper()
	h, err := ReadHeader(image, int64(len(image)))
	if err != nil {
		tb.Fatal(err)
	}
	plan, err := h.Reencryption()
	if err != nil {
		tb.Fatal(err)
	}
	v := &Volume{Header: h, digest: -1, more: keys}
	d := h.digestOf(plan.keyslot.ID)
	sum, err := d.KDF.derive(tb.Context(), plan.vouched(v), len(d.Value))
	if err != nil {
		tb.Fatal(err)
	}
	editJSON(tb, image, replace(tb, "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA=", base64.StdEncoding.EncodeToString(sum)))
}

// The plans of whole headers.
func TestReencryptionPlan(t *testing.T) {
	for _, c := range []struct {
		mode, protection string
		segments, hot    int
		old, new, size   int64
	}{
		{modeEncrypt, protectionChecksum, 3, 1, 262144, 262144, 65536},
		{modeReencrypt, protectionChecksum, 3, 1, 1310720, 1310720, 65536},
		{modeDecrypt, protectionShift, 4, 2, 1245184, 196608, 65536},
	} {
		v := open(t, tornHeader(t, c.mode), "small")
		list, err := v.Segments()
		if err != nil {
			t.Errorf("%s: %v", c.mode, err)
			continue
		}
		plan, err := v.Header.Reencryption()
		if err != nil {
			t.Fatal(err)
		}
		z := plan.Hot
		if len(list) != c.segments || plan.Mode != c.mode || z.Protection != c.protection || z.New.ID != c.hot ||
			z.Old.Offset != c.old || z.New.Offset != c.new || z.Old.Size != c.size || z.New.Size != c.size {
			t.Errorf("%s: %d segments, %+v", c.mode, len(list), z)
		}
		for _, s := range append(list, plan.Old, plan.New) {
			if (v.SegmentKey(s) == nil) != (s.Type == typeLinear) {
				t.Errorf("%s: key of segment %+v", c.mode, s)
			}
		}
		if c.mode == modeReencrypt && (bytes.Equal(v.SegmentKey(plan.Old), v.SegmentKey(plan.New)) || !bytes.Equal(v.SegmentKey(list[1]), v.SegmentKey(plan.New))) {
			t.Error("old and new key are mixed up")
		}
	}
	h := open(t, func() memory { m, _ := formatted(t, smallOptions()); return m }(), "small").Header
	if plan, err := h.Reencryption(); plan != nil || err != nil {
		t.Errorf("of a volume that is not being reencrypted: %v, %v", plan, err)
	}
}

// tornDefects are single changes of tornHeader.
var tornDefects = []struct {
	name, mode, old, with string
	want                  error
	word                  string
}{
	{"key_size 2", modeEncrypt, `"key_size":1,"mode"`, `"key_size":2,"mode"`, ErrHeaderCorrupt, "keyslots.7.key_size"},
	{"mode unknown", modeEncrypt, `"mode":"encrypt"`, `"mode":"scramble"`, ErrHeaderCorrupt, `"scramble"`},
	{"mode of other data", modeEncrypt, `"mode":"encrypt"`, `"mode":"reencrypt"`, ErrHeaderCorrupt, "of data of type linear"},
	{"mode decrypt of plain data", modeEncrypt, `"mode":"encrypt"`, `"mode":"decrypt"`, ErrHeaderCorrupt, "of data of type linear"},
	{"direction unknown", modeEncrypt, `"direction":"forward"`, `"direction":"sideways"`, ErrHeaderCorrupt, `"sideways"`},
	{"direction turned", modeEncrypt, `"direction":"forward"`, `"direction":"backward"`, ErrHeaderCorrupt, "behind what is"},
	{"direction turned, two keys", modeReencrypt, `"direction":"backward"`, `"direction":"forward"`, ErrHeaderCorrupt, "behind what is"},
	{"resilience unknown", modeEncrypt, `"type":"checksum"`, `"type":"raid"`, ErrUnsupported, `resilience "raid"`},
	{"resilience raw", modeEncrypt, `"type":"checksum"`, `"type":"raw","encryption":"x","key_size":1`, ErrUnsupported, `resilience "raw"`},
	{"shift of data in place", modeEncrypt, `"type":"checksum"`, `"type":"datashift","shift_size":"65536"`, ErrHeaderCorrupt, "which overlap"},
	{"in place of data that is shifted", modeDecrypt, `"type":"datashift-checksum"`, `"type":"checksum"`, ErrHeaderCorrupt, "in place, but"},
	{"hash unknown", modeEncrypt, `"hash":"sha256","sector_size":512}`, `"hash":"crc32","sector_size":512}`, ErrUnsupported, `"crc32"`},
	{"hash unknown, for a moved segment", modeDecrypt, `"hash":"sha256","sector_size":512,"shift`, `"hash":"crc32","sector_size":512,"shift`, ErrUnsupported, `"crc32"`},
	{"block of 513", modeEncrypt, `"hash":"sha256","sector_size":512`, `"hash":"sha256","sector_size":513`, ErrHeaderCorrupt, "513"},
	{"block of 1536", modeEncrypt, `"hash":"sha256","sector_size":512`, `"hash":"sha256","sector_size":1536`, ErrHeaderCorrupt, "1536"},
	{"block huge", modeEncrypt, `"hash":"sha256","sector_size":512`, `"hash":"sha256","sector_size":2147483648`, ErrHeaderCorrupt, "area.sector_size"},
	{"block negative", modeEncrypt, `"hash":"sha256","sector_size":512`, `"hash":"sha256","sector_size":-512`, ErrHeaderCorrupt, "area.sector_size"},
	{"block smaller than a sector", modeEncrypt, `"encryption":"aes-xts-plain64","sector_size":512,"flags":["in`, `"encryption":"aes-xts-plain64","sector_size":4096,"flags":["in`, ErrHeaderCorrupt, "no part of segment 4"},
	{"area too small for the checksums", modeEncrypt, `"size":"65536","hash"`, `"size":"3584","hash"`, ErrHeaderCorrupt, "do not hold 128 checksums"},
	{"area empty", modeEncrypt, `"size":"65536","hash"`, `"size":"0","hash"`, ErrHeaderCorrupt, "do not hold"},
	{"area too small for the journal", modeEncrypt, `"type":"checksum","offset":"294912","size":"65536"`, `"type":"journal","offset":"294912","size":"65024"`, ErrHeaderCorrupt, "do not hold the 65536"},
	{"area behind the keyslots", modeEncrypt, `"size":"65536","hash"`, `"size":"66048","hash"`, ErrHeaderCorrupt, "outside the keyslots area"},
	{"area near 2^63", modeEncrypt, `"offset":"294912"`, `"offset":"9223372036854775296"`, ErrHeaderCorrupt, "outside the keyslots area"},
	{"area over a key", modeEncrypt, `"offset":"294912"`, `"offset":"163328"`, ErrHeaderCorrupt, "overlap"},
	{"shift smaller than the zone", modeDecrypt, `"shift_size":"1048576"`, `"shift_size":"512"`, ErrHeaderCorrupt, "data shift of 512"},
	{"shift missing", modeDecrypt, `"shift_size"`, `"shift"`, ErrHeaderCorrupt, "shift_size: is missing"},
	{"no reencrypt keyslot", modeEncrypt, `"type":"reencrypt"`, `"type":"other"`, ErrHeaderCorrupt, "no keyslot of type reencrypt"},
	{"two reencrypt keyslots", modeEncrypt, `"keyslots":{`, `"keyslots":{"6":{"type":"reencrypt","key_size":1,"mode":"encrypt","direction":"forward","area":{"type":"none","offset":"163840","size":"512"}},`, ErrHeaderCorrupt, "as keyslot 6 is"},
	{"another requirement", modeEncrypt, `["online-reencrypt-v2"]`, `["online-reencrypt-v2","opal"]`, ErrUnsupported, `"opal"`},
	{"an unknown requirement", modeEncrypt, `["online-reencrypt-v2"]`, `["online-reencrypt-v2","new"]`, ErrUnsupported, `"new"`},
	{"a later version", modeEncrypt, `["online-reencrypt-v2"]`, `["online-reencrypt-v4"]`, ErrUnsupported, `"online-reencrypt-v4"`},
	{"offline reencryption", modeEncrypt, `["online-reencrypt-v2"]`, `["offline-reencrypt"]`, ErrUnsupported, `"offline-reencrypt"`},
	{"two versions", modeEncrypt, `["online-reencrypt-v2"]`, `["online-reencrypt-v2","online-reencrypt-v3"]`, ErrUnsupported, "online-reencrypt-v2"},

	{"no state before", modeEncrypt, `"backup-previous"`, `"backup"`, ErrHeaderCorrupt, "backup-previous"},
	{"no state after", modeEncrypt, `,"flags":["backup-final"]`, ``, ErrHeaderCorrupt, "backup-final"},
	{"two states after", modeEncrypt, `"backup-previous"`, `"backup-previous","backup-final"`, ErrHeaderCorrupt, "backup-final, as segment 3 is"},
	{"state after of an unknown cipher", modeEncrypt, `"encryption":"aes-xts-plain64","sector_size":512,"flags":["backup-final"]`, `"encryption":"rot13-ecb","sector_size":512,"flags":["backup-final"]`, ErrUnsupported, "rot13"},
	{"state after of another cipher", modeEncrypt, `"encryption":"aes-xts-plain64","sector_size":512,"flags":["backup-final"]`, `"encryption":"aes-cbc-plain64","sector_size":512,"flags":["backup-final"]`, ErrHeaderCorrupt, "neither of segment 3 nor of segment 4"},
	{"state after with integrity", modeEncrypt, `"flags":["backup-final"]`, `"flags":["backup-final"],` + withIntegrity, ErrUnsupported, "integrity"},
	{"state before of a type not known", modeEncrypt, `"type":"linear","offset":"0"`, `"type":"hw-opal","offset":"0"`, ErrUnsupported, "hw-opal"},
	{"state before elsewhere", modeEncrypt, `"type":"linear","offset":"0"`, `"type":"linear","offset":"512"`, ErrHeaderCorrupt, "neither of segment"},
	{"state before near 2^63", modeEncrypt, `"type":"linear","offset":"0"`, `"type":"linear","offset":"9223372036854775296"`, ErrHeaderCorrupt, "neither of segment"},
	{"state after near 2^63", modeEncrypt, `"offset":"0","size":"dynamic","iv_tweak"`, `"offset":"9223372036854775296","size":"dynamic","iv_tweak"`, ErrHeaderCorrupt, "neither of segment"},
	{"state after without digest", modeEncrypt, `"segments":["0","1","4"]`, `"segments":["0","1"]`, ErrHeaderCorrupt, "no digest names it"},
	{"done part without digest", modeEncrypt, `"segments":["0","1","4"]`, `"segments":["1","4"]`, ErrHeaderCorrupt, "no digest names it"},
	{"done part with the other key", modeReencrypt, `"segments":["1","2","4"]`, `"segments":["1","4"]`, ErrHeaderCorrupt, "no digest names it"},

	{"zone without size", modeEncrypt, `"size":"65536","iv_tweak":"512"`, `"size":"dynamic","iv_tweak":"512"`, ErrHeaderCorrupt, "dynamic"},
	{"zone of size 0", modeEncrypt, `"size":"65536","iv_tweak":"512"`, `"size":"0","iv_tweak":"512"`, ErrHeaderCorrupt, "segments.1.size"},
	{"zone over what is behind", modeEncrypt, `"size":"65536","iv_tweak":"512"`, `"size":"66048","iv_tweak":"512"`, ErrHeaderCorrupt, "overlaps segment 1"},
	{"zone short of what is behind", modeEncrypt, `"size":"65536","iv_tweak":"512"`, `"size":"65024","iv_tweak":"512"`, ErrHeaderCorrupt, "segments.2"},
	{"zone near 2^63", modeEncrypt, `"size":"65536","iv_tweak":"512"`, `"size":"9223372036854513152","iv_tweak":"512"`, ErrHeaderCorrupt, "overlaps"},
	{"zone huge, the last", modeEncrypt, `"size":"65536","iv_tweak":"512","encryption":"aes-xts-plain64","sector_size":512,"flags":["in-reencryption"]},"2":{"type":"linear","offset":"327680","size":"dynamic"}`, `"size":"9223372036854513152","iv_tweak":"512","encryption":"aes-xts-plain64","sector_size":512,"flags":["in-reencryption"]},"5":{"type":"linear","offset":"327680","size":"dynamic","flags":["backup"]}`, ErrHeaderCorrupt, "segment"},
	{"zone elsewhere", modeEncrypt, `"offset":"262144"`, `"offset":"1048576"`, ErrHeaderCorrupt, "no part of segment 4"},
	{"zone with other IVs", modeEncrypt, `"iv_tweak":"512"`, `"iv_tweak":"0"`, ErrHeaderCorrupt, "no part of segment 4"},
	{"zone with IVs near 2^64", modeEncrypt, `"iv_tweak":"512"`, `"iv_tweak":"18446744073709551104"`, ErrHeaderCorrupt, "no part of segment 4"},
	{"two zones", modeEncrypt, `"size":"262144","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512`, `"size":"262144","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512,"flags":["in-reencryption"]`, ErrHeaderCorrupt, "as segment 0 is"},
	{"segment missing", modeEncrypt, `"2":{"type":"linear"`, `"9":{"type":"linear"`, ErrHeaderCorrupt, "segment 2 is missing"},
	{"first without size", modeEncrypt, `"size":"262144"`, `"size":"dynamic"`, ErrHeaderCorrupt, "not the last"},
	{"done part plain", modeReencrypt, `{"type":"crypt","offset":"1376256","size":"dynamic","iv_tweak":"640","encryption":"aes-xts-plain64","sector_size":512}`, `{"type":"linear","offset":"1376256","size":"dynamic"}`, ErrHeaderCorrupt, "neither of segment"},
	{"no data", modeEncrypt, `"segments":{`, `"segment":{`, ErrHeaderCorrupt, "segments: is missing"},

	{"moved data without size", modeDecrypt, `"size":"65536","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512,"flags":["backup-moved-segment"]`, `"size":"dynamic","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512,"flags":["backup-moved-segment"]`, ErrHeaderCorrupt, "data moved"},
	{"moved data of another kind", modeDecrypt, `{"type":"crypt","offset":"0","size":"65536","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512,"flags":["backup-moved-segment"]}`, `{"type":"linear","offset":"0","size":"65536","flags":["backup-moved-segment"]}`, ErrHeaderCorrupt, "data moved"},
	{"moved data with another key", modeDecrypt, `"segments":["0","3","4","6"]`, `"segments":["0","3","4"]`, ErrHeaderCorrupt, "no digest"},
	{"moved data smaller than the first segment", modeDecrypt, `"size":"65536","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512,"flags":["backup-moved-segment"]`, `"size":"512","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512,"flags":["backup-moved-segment"]`, ErrHeaderCorrupt, "segments.0"},
	{"moved data elsewhere", modeDecrypt, `"backup-moved-segment"`, `"backup-moved"`, ErrHeaderCorrupt, "segments.0"},
}

// Every defect of a reencryption's objects is found before a passphrase is
// tried, cheaply.
func TestReencryptionDefects(t *testing.T) {
	whole := map[string]memory{}
	for _, mode := range []string{modeEncrypt, modeDecrypt, modeReencrypt} {
		whole[mode] = tornHeader(t, mode)
	}
	for _, d := range tornDefects {
		t.Run(d.name, func(t *testing.T) {
			image := memory(bytes.Clone(whole[d.mode]))
			editJSON(t, image, replace(t, d.old, d.with))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			h, err := ReadHeader(image, int64(len(image)))
			if err == nil {
				_, err = h.DataSegments()
			}
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			wantNamed(t, err, d.want, d.word)
			if took > 10*costTime && !raceEnabled { // others use the machine, too
				t.Errorf("%v", took)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > costBytes {
				t.Errorf("%d bytes allocated", n)
			}
		})
	}
}

// Defects that take several changes to be met.
func TestReencryptionSizes(t *testing.T) {
	all := func(old, with string) func(string) string {
		return func(text string) string { return strings.ReplaceAll(text, old, with) }
	}
	large := all(`"aes-xts-plain64","sector_size":512`, `"aes-xts-plain64","sector_size":4096`)
	// The last step of a decryption with a data shift: the moved segment.
	last := func(text string) string {
		from, to := strings.Index(text, `"segments":{`), strings.Index(text, `"4":{"type":"crypt","offset":"1048576"`)
		text = text[:from] + `"segments":{"0":{"type":"linear","offset":"0","size":"65536","flags":["in-reencryption"]},"1":{"type":"linear","offset":"65536","size":"dynamic"},` + text[to:]
		return replace(t, `"segments":["0","3","4","6"]`, `"segments":["4","6"]`)(text)
	}
	shorter := func(text string) string {
		text = replace(t, `"size":"65536","iv_tweak":"512"`, `"size":"65024","iv_tweak":"512"`)(text)
		return replace(t, `"offset":"327680"`, `"offset":"327168"`)(text)
	}
	for _, c := range []struct {
		name, mode string
		edits      []func(string) string
		word       string // "": it is right
	}{
		{"large sectors", modeEncrypt, []func(string) string{large, all(`"sha256","sector_size":512`, `"sha256","sector_size":4096`)}, ""},
		{"blocks smaller than sectors", modeEncrypt, []func(string) string{large}, "sectors of 4096 bytes are being rewritten"},
		{"a zone of 512", modeEncrypt, []func(string) string{shorter}, ""},
		{"a zone of part of a block", modeEncrypt, []func(string) string{shorter, all(`"sha256","sector_size":512`, `"sha256","sector_size":4096`)}, "65024 is not a multiple of 4096"},
		{"moved data", modeDecrypt, []func(string) string{last}, ""},
		{"moved data smaller than the zone", modeDecrypt, []func(string) string{last, all(`"size":"65536","iv_tweak":"0"`, `"size":"65024","iv_tweak":"0"`)}, "but 65536 bytes are being rewritten"},
		{"moved data elsewhere", modeDecrypt, []func(string) string{last, all(`"offset":"0","size":"65536","iv_tweak":"0"`, `"offset":"512","size":"65536","iv_tweak":"0"`)}, "in place, but the data was at 512"},
		{"moved data, and old data behind", modeDecrypt, []func(string) string{last,
			all(`"offset":"65536","size":"dynamic"}`, `"offset":"65536","size":"65536"},"2":{"type":"crypt","offset":"1179648","size":"dynamic","iv_tweak":"256","encryption":"aes-xts-plain64","sector_size":512}`),
			all(`"segments":["4","6"]`, `"segments":["2","4","6"]`)}, "behind what is"},
		{"moved data, checksums too long", modeDecrypt, []func(string) string{last, all(`"size":"65536","hash"`, `"size":"4095","hash"`), all(`"4095"`, `"3584"`)}, "do not hold 128 checksums"},
		{"sizes of 2^63", modeEncrypt, []func(string) string{
			all(`"size":"262144"`, `"size":"9223372036854513664"`), all(`"offset":"262144"`, `"offset":"9223372036854513664"`)}, "segments"},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := tornHeader(t, c.mode)
			for _, e := range c.edits {
				editJSON(t, image, e)
			}
			h, err := ReadHeader(image, int64(len(image)))
			if err == nil {
				_, err = h.DataSegments()
			}
			if c.word != "" {
				wantNamed(t, err, ErrHeaderCorrupt, c.word)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// What the digest vouches for cannot be changed in a way that fits.
func TestReencryptionNotVouched(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		edits      [][2]string
		word       string
	}{
		{"hash", modeEncrypt, [][2]string{{`"hash":"sha256","sector_size":512}`, `"hash":"sha1","sector_size":512}`}}, "does not vouch"},
		{"resilience", modeEncrypt, [][2]string{{`"type":"checksum"`, `"type":"journal"`}}, "does not vouch"},
		{"area", modeEncrypt, [][2]string{{`"size":"65536","hash"`, `"size":"32768","hash"`}}, "does not vouch"},
		{"shift", modeDecrypt, [][2]string{{`"shift_size":"1048576"`, `"shift_size":"2097152"`}}, "does not vouch"},
		{"version", modeEncrypt, [][2]string{{`"online-reencrypt-v2"`, `"online-reencrypt-v3"`}}, "does not vouch"},
		{"size before", modeEncrypt, [][2]string{{`"type":"linear","offset":"0","size":"dynamic"`, `"type":"linear","offset":"0","size":"1048576"`}}, "does not vouch"},
		{"no digest", modeEncrypt, [][2]string{{`"keyslots":["7"]`, `"keyslots":[]`}}, "no digest vouches"},
		{"unknown digest", modeEncrypt, [][2]string{{`"7":{"type":"pbkdf2"`, `"7":{"type":"blake9"`}}, "blake9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := tornHeader(t, c.mode)
			for _, e := range c.edits {
				editJSON(t, image, replace(t, e[0], e[1]))
			}
			v := open(t, image, "small") // the key opens
			_, err := v.Segments()
			if err == nil || !strings.Contains(err.Error(), c.word) || !errors.Is(err, ErrHeaderCorrupt) && !errors.Is(err, ErrUnsupported) {
				t.Errorf("got %v; want an error with %q", err, c.word)
			}
		})
	}
}

// Nothing vouches for the first version: it is opened on demand only.
func TestReencryptionFirstVersion(t *testing.T) {
	image := tornHeader(t, modeEncrypt)
	editJSON(t, image, replace(t, `"online-reencrypt-v2"`, `"online-reencrypt"`))
	h, err := ReadHeader(image, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	o := UnlockOptions{Slot: AnySlot}
	_, err = h.Unlock(t.Context(), image, []byte("small"), o)
	wantNamed(t, err, ErrPolicy, "requirement online-reencrypt")
	if policy := (*PolicyError)(nil); !errors.As(err, &policy) || policy.Field != "AllowWeak" {
		t.Errorf("%v", err)
	}
	o.Policy.AllowWeak = true
	v, err := h.Unlock(t.Context(), image, []byte("small"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if list, err := v.Segments(); err != nil || len(list) != 3 {
		t.Errorf("%d segments, %v", len(list), err)
	}
}

// The digest's cost counts against the policy, as every other.
func TestReencryptionDigestCost(t *testing.T) {
	image := tornHeader(t, modeEncrypt)
	editJSON(t, image, replace(t, `"segments":[],"hash":"sha256","iterations":1000`, `"segments":[],"hash":"sha256","iterations":2147483647`))
	_, err := open(t, image, "small").Segments()
	wantNamed(t, err, ErrPolicy, "digest 7")
}

// FuzzReencryption changes the JSON of headers in the middle of a reencryption
// in its structure. A plan that is made holds together, whatever is in it.
func FuzzReencryption(f *testing.F) {
	var bases []memory
	for _, mode := range []string{modeEncrypt, modeDecrypt, modeReencrypt} {
		image := tornHeader(f, mode)
		editJSON(f, image, func(text string) string { return strings.ReplaceAll(text, `"iterations":1000`, `"iterations":1`) })
		bases = append(bases, image)
	}
	// FuzzHeader2 is seeded with every change; here are some of each member.
	for which, image := range bases {
		f.Add(byte(which), []byte{})
		for i := range parseTree(f, "", string(bytes.TrimRight(image[binarySize:16<<10], "\x00"))).places() {
			f.Add(byte(which), []byte{byte(i), 0, byte(i * 5)})
			f.Add(byte(which), []byte{byte(i), 128, 0})
			f.Add(byte(which), []byte{byte(i), 176, byte(i)})
		}
	}
	f.Fuzz(func(t *testing.T, which byte, changes []byte) {
		image := changed(t, bases, which, changes)
		if image == nil {
			return
		}
		h, err := ReadHeader(image, int64(len(image)))
		if err != nil {
			return
		}
		exercise(t, h, image)
		plan, err := h.Reencryption()
		if err != nil || plan == nil {
			return
		}
		at := int64(0)
		for i, s := range plan.Segments {
			if s.ID != i || at < 0 || s.Offset < 0 || s.Size == 0 {
				t.Errorf("segment %d at byte %d: %+v", i, at, s)
			}
			if at += s.Size; s.Size < 0 {
				at = -1
			}
		}
		if z := plan.Hot; z != nil {
			z.check(t)
		}
	})
}

// check makes sure that a zone can be read without a look at what it says.
func (z *HotZone) check(t *testing.T) {
	t.Helper()
	if z.Block < 512 || z.Block > 4096 || z.Block&(z.Block-1) != 0 || z.New.Size <= 0 || z.New.Size != z.Old.Size || z.New.Size%int64(z.Block) != 0 {
		t.Errorf("blocks of %d, zone of %d and %d bytes", z.Block, z.Old.Size, z.New.Size)
	}
	for _, s := range []Segment{z.Old, z.New} {
		if s.Offset < 0 || s.Offset+s.Size < s.Offset || s.SectorSize > z.Block {
			t.Errorf("%+v", s)
		}
	}
	switch z.Protection {
	case protectionChecksum:
		if n := z.New.Size / int64(z.Block) * int64(z.NewHash().Size()); n > z.Area.Size || z.Old.Offset != z.New.Offset {
			t.Errorf("%d bytes of checksums: %+v", n, z)
		}
	case protectionJournal:
		if z.New.Size > z.Area.Size || z.Old.Offset != z.New.Offset {
			t.Errorf("%+v", z)
		}
	case protectionShift:
		if z.Old.overlaps(&z.New) {
			t.Errorf("%+v", z)
		}
	case protectionNone:
	default:
		t.Errorf("protection %q", z.Protection)
	}
}
