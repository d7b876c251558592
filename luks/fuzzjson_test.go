package luks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// jsonChange is one change of a JSON tree: three bytes of a fuzzer's input say
// which member, counted through the whole tree, what happens to it, and with
// which value.
type jsonChange [3]byte

// pool are the values that are put in: every kind, and the edges of numbers.
var pool = []string{
	`null`, `true`, `0`, `-1`, `1`, `2`, `4`, `8`, `20`, `31`, `32`, `64`, `255`, `256`, `512`, `513`, `4000`, `4096`, `8192`, `1.5`, `1e3`,
	`2147483647`, `2147483648`, `9223372036854775808`, `""`, `"0"`, `"1"`, `"-1"`, `"00"`, `"512"`, `"4096"`, `"12288"`, `"32768"`, `"163840"`,
	`"1048576"`, `"9223372036854775296"`, `"9223372036854775807"`, `"18446744073709551615"`, `"18446744073709551616"`, `"dynamic"`, `"x"`,
	`[]`, `[0]`, `["0"]`, `["1"]`, `["0","0"]`, `["31"]`, `["32"]`, `{}`, `{"0":{}}`, `[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]`,
	`"pbkdf2"`, `"argon2i"`, `"argon2id"`, `"luks1"`, `"luks2"`, `"reencrypt"`, `"crypt"`, `"linear"`, `"hw-opal"`, `"raw"`, `"none"`, `"journal"`,
	`"checksum"`, `"datashift"`, `"datashift-checksum"`, `"sha1"`, `"sha256"`, `"sha512"`, `"md4"`, `"aes-xts-plain64"`, `"aes-cbc-essiv:sha256"`,
	`"cipher_null-ecb"`, `"serpent-xts-plain64"`, `"capi:gcm(aes)-random"`, `"AAAA"`, `"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`, `"!"`,
	`["backup-final"]`, `["backup-previous"]`, `["in-reencryption"]`, `{"mandatory":["online-reencrypt-v2"]}`, `{"mandatory":["x"]}`, `{"mandatory":0}`,
	`{"type":"raw","offset":"163840","size":"4096","encryption":"aes-xts-plain64","key_size":32}`,
	`{"type":"aead","journal_encryption":"none","journal_integrity":"none","key_size":32}`,
	`{"type":"crypt","offset":"2097152","size":"dynamic","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":4096}`,
	`{"type":"linear","offset":"2097152","size":"1048576"}`,
	`{"type":"new","key_size":1,"area":{"type":"new","offset":"163840","size":"512"}}`,
	`{"type":"x","keyslots":["0"],"segments":["0"]}`,
}

// names are given to members that are added.
var memberNames = []string{"0", "1", "2", "31", "32", "type", "priority", "integrity", "flags", "requirements", "size", "key_size", "hash", "salt", "x"}

// jsonTree is a JSON value whose members keep their order.
type jsonTree struct {
	name    string
	raw     string // of anything but an object
	members []*jsonTree
	object  bool
}

func parseTree(tb testing.TB, name, text string) *jsonTree {
	tb.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	tok, err := dec.Token()
	if err != nil {
		tb.Fatal(err)
	}
	if tok != json.Delim('{') {
		return &jsonTree{name: name, raw: text}
	}
	t := &jsonTree{name: name, object: true}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			tb.Fatal(err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			tb.Fatal(err)
		}
		t.members = append(t.members, parseTree(tb, key.(string), string(raw)))
	}
	return t
}

func (t *jsonTree) String() string {
	if !t.object {
		return t.raw
	}
	var list []string
	for _, m := range t.members {
		list = append(list, fmt.Sprintf("%q:%s", m.name, m))
	}
	return "{" + strings.Join(list, ",") + "}"
}

// clone copies the tree, so that changes of one do not show in the other.
func (t *jsonTree) clone(name string) *jsonTree {
	c := &jsonTree{name: name, raw: t.raw, object: t.object}
	for _, m := range t.members {
		c.members = append(c.members, m.clone(m.name))
	}
	return c
}

// places lists the members of all objects of the tree.
func (t *jsonTree) places() (out []place) {
	for i, m := range t.members {
		out = append(out, place{t, i})
		out = append(out, m.places()...)
	}
	return out
}

type place struct {
	in *jsonTree
	at int
}

// change makes one change.
func (t *jsonTree) change(tb testing.TB, c jsonChange) {
	tb.Helper()
	all := t.places()
	if len(all) == 0 {
		return
	}
	p := all[int(c[0])%len(all)]
	value := pool[int(c[2])%len(pool)]
	one := p.in.members[p.at]
	switch kind := int(c[1]); {
	case kind < 128: // another value
		p.in.members[p.at] = parseTree(tb, one.name, value)
	case kind < 160: // gone
		p.in.members = slices.Delete(p.in.members, p.at, p.at+1)
	case kind < 176: // twice
		p.in.members = append(p.in.members, one.clone(one.name))
	case kind < 192: // under another name
		p.in.members[p.at] = &jsonTree{memberNames[int(c[2])%len(memberNames)], one.raw, one.members, one.object}
	case kind < 208: // a copy under another name
		p.in.members = append(p.in.members, one.clone(memberNames[int(c[2])%len(memberNames)]))
	default: // one more
		p.in.members = append(p.in.members, parseTree(tb, memberNames[kind%len(memberNames)], value))
	}
}

// oddSeeds are changes of small headers that need several values to fit: with
// the defects they reach the branches of decoding and validation but for two that
// need a second digest or keyslot, and those for texts longer than the smallest
// area; tests of their own have these.
var oddSeeds = [][2]string{
	{`"keyslots":{`, `"keyslots":{"1":{"type":"reencrypt","mode":"encrypt","direction":"backward","key_size":1,"area":{"type":"datashift","offset":"163328","size":"512","shift_size":"512"}},`},
	{`"keyslots":["0"]`, `"keyslots":["0","1"]`},
	{`"key_size":32,"af"`, `"key_size":31,"af"`},
	{`"type":"crypt","offset"`, `"type":"hw-opal-crypt","offset"`},
	{`"type":"crypt","offset"`, `"type":"hw-opal","offset"`},
	{`"size":"dynamic","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512`, `"size":"512","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":4096`},
	{`"iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512`, `"iv_tweak":"1","encryption":"aes-xts-plain64","sector_size":4096`},
	{`"sector_size":512`, `"sector_size":512,"flags":["in-reencryption"]`},
	{`"sector_size":512`, `"sector_size":512,` + withIntegrity},
	{`"json_size"`, `"requirements":{"mandatory":["new"]},"json_size"`},
	{`"json_size"`, `"x":"\\\\\\\"",                              "json_size"`},
	{`"segments":{"0":{"type":"crypt","offset":"1048576","size":"dynamic"`, `"segments":{"2":{"type":"linear","offset":"2097152","size":"dynamic"},"0":{"type":"crypt","offset":"1048576","size":"1048576"`},
	{`"segments":{"0":`, `"segments":{"1":{"type":"linear","offset":"2097152","size":"dynamic"},"0":`},
	{`"segments":{"0":{"type":"crypt","offset":"1048576","size":"dynamic"`, `"segments":{"1":{"type":"linear","offset":"1049088","size":"dynamic"},"0":{"type":"crypt","offset":"1048576","size":"1048576"`},
	{`"segments":{"0":{"type":"crypt","offset":"1048576","size":"dynamic"`, `"segments":{"1":{"type":"crypt","offset":"2097152","size":"dynamic","iv_tweak":"0","encryption":"aes-ecb","sector_size":512},"0":{"type":"crypt","offset":"1048576","size":"1048576"`},
	{`"iterations":1000`, `"iterations":2147483647`},
	{`"hash":"sha256","iterations":1000,"salt"`, `"hash":"ripemd160","iterations":1000,"salt"`},
	{`"tokens":{}`, `"tokens":{}` + strings.Repeat(" ", 40) + `}`},
}

// fuzzBases are the headers that the changes start from, with next to no KDF
// costs: the fuzzer's first byte chooses one.
func fuzzBases(tb testing.TB) (out []memory) {
	tb.Helper()
	plain, _ := formatted(tb, smallOptions())
	o := smallOptions()
	o.KDF = cheapArgon2
	argon, _ := formatted(tb, o)
	for _, image := range []memory{plain, argon, richHeader(tb)} {
		for _, cost := range []string{`"iterations":1000`, `"time":4`} {
			editJSON(tb, image, func(text string) string { return strings.ReplaceAll(text, cost, cost[:strings.Index(cost, ":")+1]+"1") })
		}
		out = append(out, image)
	}
	return out
}

// changed is a base after the changes, with right checksums; nil if the text
// has become too long.
func changed(tb testing.TB, bases []memory, which byte, changes []byte) memory {
	tb.Helper()
	image := memory(bytes.Clone(bases[int(which)%len(bases)]))
	text := string(bytes.TrimRight(image[binarySize:16<<10], "\x00"))
	t := parseTree(tb, "", text)
	for ; len(changes) >= 3; changes = changes[3:] {
		t.change(tb, jsonChange(changes))
	}
	if text = t.String(); len(text) >= 16<<10-binarySize {
		return nil
	}
	editJSON(tb, image, func(string) string { return text })
	return image
}

// addChanges seeds a fuzzer: every member of every base once with every value,
// gone, and twice, as far as that is not too much.
func addChanges(f *testing.F, bases []memory) {
	for which, image := range bases {
		t := parseTree(f, "", string(bytes.TrimRight(image[binarySize:16<<10], "\x00")))
		f.Add(byte(which), []byte{})
		for i := range t.places() {
			for v := i % 7; v < len(pool); v += 7 {
				f.Add(byte(which), []byte{byte(i), 0, byte(v)})
			}
			f.Add(byte(which), []byte{byte(i), 128, 0})
			f.Add(byte(which), []byte{byte(i), 160, 0})
			f.Add(byte(which), []byte{byte(i), 176, byte(i)})
			f.Add(byte(which), []byte{byte(i), 192, byte(i)})
			f.Add(byte(which), []byte{byte(i), byte(208 + i%48), byte(i * 3)})
		}
	}
}

// FuzzHeader2 changes the JSON of whole headers in its structure, and makes the
// checksums right, so that every change reaches the decoder.
func FuzzHeader2(f *testing.F) {
	bases := fuzzBases(f)
	addChanges(f, bases)
	f.Fuzz(func(t *testing.T, which byte, changes []byte) {
		image := changed(t, bases, which, changes)
		if image == nil {
			return
		}
		h, err := ReadHeader(image, int64(len(image)))
		if err != nil {
			return
		}
		if len(h.Warnings) > 0 {
			t.Errorf("both copies are the same, and there are warnings: %q", h.Warnings)
		}
		exercise(t, h, image)
	})
}

// FuzzUnlock changes headers and areas whose KDFs cost next to nothing, and
// unlocks every keyslot by its number, and all of them.
func FuzzUnlock(f *testing.F) {
	bases := fuzzBases(f)
	for which := range bases {
		f.Add(byte(which), []byte{}, uint32(0), byte(0))
		f.Add(byte(which), []byte{5, 128, 0}, uint32(40_000), byte(0xff))
		f.Add(byte(which), []byte{}, uint32(70_000), byte(1))
		for v := range pool {
			f.Add(byte(which), []byte{byte(v), 0, byte(v)}, uint32(0), byte(0))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, changes []byte, at uint32, flip byte) {
		image := changed(t, bases, which, changes)
		if image == nil {
			return
		}
		image[2*16<<10+int(at)%(len(image)-2*16<<10)] ^= flip
		h, err := ReadHeader(image, int64(len(image)))
		if err != nil || !cheap(h) {
			return
		}
		policy := Policy{MaxKDFMemoryKiB: 64, AllowWeak: flip&2 != 0, AllowStripes: flip&4 != 0}
		for slot := AnySlot; slot < 3; slot++ {
			v, err := h.Unlock(t.Context(), image, []byte("small"), UnlockOptions{Slot: slot, Policy: policy})
			if err != nil {
				continue
			}
			if len(v.Key()) != h.keyslot(v.Slot).KeySize {
				t.Errorf("a key of %d bytes from a keyslot of %d", len(v.Key()), h.keyslot(v.Slot).KeySize)
			}
			if list, err := v.Segments(); err == nil && len(list) == 0 {
				t.Error("no segments and no error")
			}
			v.Close()
		}
	})
}
