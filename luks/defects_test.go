package luks

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// What any header may cost to read or refuse, beside its checksums. Time is
// not judged with -short, as on emulated processors.
const (
	costTime  = 10 * time.Millisecond
	costBytes = 10 << 20
)

// hashTime is what the checksums of two copies take at most on this machine:
// with the largest metadata they are most of the time that reading takes.
func hashTime(image []byte) time.Duration {
	start := time.Now()
	sha256.Sum256(image[:min(len(image), int(2*headerSizes[len(headerSizes)-1]))])
	return time.Since(start)
}

// cheaply reads the header of image and checks what that costs: the time is
// the least of some runs, since others use the machine, too.
func cheaply(t *testing.T, image []byte) (err error) {
	t.Helper()
	allowed := costTime + 3*hashTime(image)
	best := time.Hour
	var before, after runtime.MemStats
	for range 8 {
		runtime.ReadMemStats(&before)
		start := time.Now()
		_, err = ReadHeader(bytes.NewReader(image), int64(len(image)))
		best = min(best, time.Since(start))
		runtime.ReadMemStats(&after)
		if best < allowed {
			break
		}
	}
	if best > allowed && !raceEnabled && !testing.Short() {
		t.Errorf("refused after %v, allowed %v", best, allowed)
	}
	t.Logf("%v", best)
	if n := after.TotalAlloc - before.TotalAlloc; n > costBytes {
		t.Errorf("%d bytes allocated", n)
	}
	return err
}

const (
	reencryptSlot = `"1":{"type":"reencrypt","mode":"reencrypt","direction":"forward","key_size":1,"area":{"type":"datashift-checksum","offset":"163840","size":"4096","hash":"sha256","sector_size":512,"shift_size":"4096"}}`
	withIntegrity = `"integrity":{"type":"aead","journal_encryption":"none","journal_integrity":"none","key_size":32}`
	keyringToken  = `"3":{"type":"luks2-keyring","keyslots":["0"],"key_description":"d"}`
)

// richHeader has objects of every kind: an Argon2 keyslot and a reencrypt one,
// a segment with integrity, a token, flags and a requirement.
func richHeader(tb testing.TB) memory {
	tb.Helper()
	o := smallOptions()
	o.KDF = cheapArgon2
	o.KeyslotsSize += 4096
	image, _ := formatted(tb, o)
	for _, edit := range []func(string) string{
		replace(tb, `"keyslots":{`, `"keyslots":{`+reencryptSlot+`,`),
		replace(tb, `"sector_size":512}}`, `"sector_size":512,"flags":["backup-final"],`+withIntegrity+`}}`),
		replace(tb, `"tokens":{}`, `"tokens":{`+keyringToken+`}`),
		replace(tb, `"json_size"`, `"flags":["allow-discards"],"requirements":{"mandatory":["online-reencrypt-v2"]},"json_size"`),
	} {
		editJSON(tb, image, edit)
	}
	return image
}

// richDefects are single changes of richHeader.
var richDefects = []struct{ name, old, with, word string }{
	{"kdf type missing", `"kdf":{"type":"argon2id"`, `"kdf":{"tipe":"argon2id"`, "keyslots.0.kdf.type: is missing"},
	{"kdf type null", `"kdf":{"type":"argon2id"`, `"kdf":{"type":null`, "keyslots.0.kdf.type: is null"},
	{"kdf an array", `"kdf":{`, `"kdf":[],"x":{`, "keyslots.0.kdf: is an array"},
	{"argon2 time missing", `"time":4`, `"tyme":4`, "keyslots.0.kdf.time: is missing"},
	{"argon2 time 0", `"time":4`, `"time":0`, "keyslots.0.kdf.time"},
	{"argon2 time negative", `"time":4`, `"time":-4`, "keyslots.0.kdf.time"},
	{"argon2 time 2^31", `"time":4`, `"time":2147483648`, "keyslots.0.kdf.time"},
	{"argon2 time exponent", `"time":4`, `"time":4e0`, "keyslots.0.kdf.time"},
	{"argon2 memory missing", `"memory":32`, `"mem":32`, "keyslots.0.kdf.memory: is missing"},
	{"argon2 memory below the lanes", `"memory":32`, `"memory":7`, "keyslots.0.kdf.memory"},
	{"argon2 memory 2^31", `"memory":32`, `"memory":2147483648`, "keyslots.0.kdf.memory"},
	{"argon2 memory a string", `"memory":32`, `"memory":"32"`, "keyslots.0.kdf.memory: is a string"},
	{"argon2 lanes missing", `"cpus":1`, `"cpu":1`, "keyslots.0.kdf.cpus: is missing"},
	{"argon2 lanes 0", `"cpus":1`, `"cpus":0`, "keyslots.0.kdf.cpus"},
	{"argon2 lanes 256", `"cpus":1`, `"cpus":256`, "keyslots.0.kdf.cpus"},
	{"argon2 lanes true", `"cpus":1`, `"cpus":true`, "keyslots.0.kdf.cpus: is a boolean"},
	{"argon2 salt missing", `"cpus":1,"salt":"`, `"cpus":1,"sal":"`, "keyslots.0.kdf.salt: is missing"},
	{"argon2 salt of 31 bytes", `"cpus":1,"salt":"`, `"cpus":1,"salt":"` + strings.Repeat("AAAA", 10) + `AA==","s":"`, "keyslots.0.kdf.salt"},
	{"argon2 salt of 33 bytes", `"cpus":1,"salt":"`, `"cpus":1,"salt":"` + strings.Repeat("AAAA", 11) + `","s":"`, "keyslots.0.kdf.salt"},
	{"salt without its padding", `"cpus":1,"salt":"`, `"cpus":1,"salt":"` + strings.Repeat("AAAA", 10) + `AAA","s":"`, "keyslots.0.kdf.salt"},
	{"salt with a line end", `"cpus":1,"salt":"`, `"cpus":1,"salt":"` + strings.Repeat("AAAA", 10) + `\nAAA=","s":"`, "keyslots.0.kdf.salt"},

	{"reencrypt mode missing", `"mode":"reencrypt"`, `"mod":"reencrypt"`, "keyslots.1.mode: is missing"},
	{"reencrypt direction a number", `"direction":"forward"`, `"direction":1`, "keyslots.1.direction: is a number"},
	{"reencrypt key_size missing", `"key_size":1,`, ``, "keyslots.1.key_size: is missing"},
	{"reencrypt area without type", `{"type":"datashift-checksum"`, `{"t":"datashift-checksum"`, "keyslots.1.area.type: is missing"},
	{"reencrypt hash missing", `"size":"4096","hash":"sha256"`, `"size":"4096","h":"sha256"`, "keyslots.1.area.hash: is missing"},
	{"reencrypt sector_size 0", `"sector_size":512,"shift_size"`, `"sector_size":0,"shift_size"`, "keyslots.1.area.sector_size"},
	{"reencrypt shift_size odd", `"shift_size":"4096"`, `"shift_size":"4097"`, "keyslots.1.area.shift_size"},
	{"reencrypt area over the luks2 one", `"offset":"163840"`, `"offset":"163328"`, "overlap"},
	{"reencrypt area behind the end", `"offset":"163840"`, `"offset":"167936"`, "outside the keyslots area"},

	{"area size a number", `"size":"131072"`, `"size":131072`, "keyslots.0.area.size: is a number"},
	{"area size negative", `"size":"131072"`, `"size":"-131072"`, "keyslots.0.area.size"},
	{"area encryption a number", `"encryption":"aes-xts-plain64","key_size"`, `"encryption":7,"key_size"`, "keyslots.0.area.encryption: is a number"},
	{"area key_size missing", `"encryption":"aes-xts-plain64","key_size":32`, `"encryption":"aes-xts-plain64"`, "keyslots.0.area.key_size: is missing"},
	{"area key_size 513", `"encryption":"aes-xts-plain64","key_size":32`, `"encryption":"aes-xts-plain64","key_size":513`, "keyslots.0.area.key_size"},
	{"af type missing", `"af":{"type":"luks1",`, `"af":{`, "keyslots.0.af.type: is missing"},
	{"af stripes missing", `"stripes":4000,`, ``, "keyslots.0.af.stripes: is missing"},
	{"af stripes a string", `"stripes":4000`, `"stripes":"4000"`, "keyslots.0.af.stripes: is a string"},
	{"priority null", `"type":"luks2"`, `"type":"luks2","priority":null`, "keyslots.0.priority: is null"},
	{"priority negative", `"type":"luks2"`, `"type":"luks2","priority":-1`, "keyslots.0.priority"},

	{"segment ID 32", `"segments":{"0":`, `"segments":{"32":`, `name "32" is not an ID`},
	{"segment twice", `"segments":{"0":`, `"segments":{"0":{},"0":`, `"0" appears twice`},
	{"segment offset missing", `"offset":"1048576",`, ``, "segments.0.offset: is missing"},
	{"segment offset negative", `"offset":"1048576"`, `"offset":"-1048576"`, "segments.0.offset"},
	{"segment offset a number", `"offset":"1048576"`, `"offset":1048576`, "segments.0.offset: is a number"},
	{"segment size missing", `"size":"dynamic",`, ``, "segments.0.size: is missing"},
	{"segment size a number", `"size":"dynamic"`, `"size":1048576`, "segments.0.size: is a number"},
	{"segment encryption missing", `"encryption":"aes-xts-plain64","sector_size"`, `"sector_size"`, "segments.0.encryption: is missing"},
	{"segment iv_tweak a number", `"iv_tweak":"0"`, `"iv_tweak":0`, "segments.0.iv_tweak: is a number"},
	{"segment iv_tweak 2^64", `"iv_tweak":"0"`, `"iv_tweak":"18446744073709551616"`, "segments.0.iv_tweak"},
	{"segment sector_size a string", `"sector_size":512,"flags"`, `"sector_size":"512","flags"`, "segments.0.sector_size: is a string"},
	{"segment flags null", `["backup-final"]`, `null`, "segments.0.flags: is null"},
	{"integrity type a number", `"type":"aead"`, `"type":1`, "integrity.type: is a number"},
	{"integrity journal_encryption missing", `"journal_encryption":"none",`, ``, "journal_encryption: is missing"},
	{"integrity journal_integrity null", `"journal_integrity":"none"`, `"journal_integrity":null`, "journal_integrity: is null"},
	{"integrity key_size negative", `"key_size":32}}}`, `"key_size":-1}}}`, "integrity.key_size"},

	{"digest ID negative", `"digests":{"0":`, `"digests":{"-0":`, `name "-0" is not an ID`},
	{"digest segments missing", `"keyslots":["0"],"segments":["0"]`, `"keyslots":["0"]`, "digests.0.segments: is missing"},
	{"digest segments a string", `"segments":["0"]`, `"segments":"0"`, "digests.0.segments: is a string"},
	{"digest segment twice", `"segments":["0"]`, `"segments":["0","0"]`, "ID 0 appears twice"},
	{"digest keyslots null", `"keyslots":["0"],"segments"`, `"keyslots":null,"segments"`, "digests.0.keyslots: is null"},
	{"digest hash missing", `"hash":"sha256","iterations"`, `"iterations"`, "digests.0.hash: is missing"},
	{"digest iterations 0", `"iterations":1000`, `"iterations":0`, "digests.0.iterations"},
	{"digest salt short", `"iterations":1000,"salt":"`, `"iterations":1000,"salt":"AAAA","s":"`, "digests.0.salt"},
	{"digest of another hash's length", `"hash":"sha256","iterations"`, `"hash":"sha512","iterations"`, `32 bytes are neither 20 nor those of "sha512"`},
	{"digest of 65 bytes", `"digest":"`, `"digest":"` + strings.Repeat("AAAA", 21) + `AAA=","d":"`, "digests.0.digest"},

	{"tokens an array", `"tokens":{`, `"tokens":[],"t":{`, "tokens: is an array"},
	{"token ID 99", `"tokens":{"3"`, `"tokens":{"99"`, `name "99" is not an ID`},
	{"token type a number", `"type":"luks2-keyring"`, `"type":9`, "tokens.3.type: is a number"},
	{"token keyslots missing", `"type":"luks2-keyring","keyslots":["0"]`, `"type":"luks2-keyring"`, "tokens.3.keyslots: is missing"},
	{"token keyslot a number", `"type":"luks2-keyring","keyslots":["0"]`, `"type":"luks2-keyring","keyslots":[0]`, "holds a number"},
	{"token keyslot with a zero", `"type":"luks2-keyring","keyslots":["0"]`, `"type":"luks2-keyring","keyslots":["00"]`, "is not an ID"},

	{"config a string", `"config":{`, `"config":"","c":{`, "config: is a string"},
	{"json_size a number", `"json_size":"12288"`, `"json_size":12288`, "config.json_size: is a number"},
	{"keyslots_size missing", `"keyslots_size":"135168"`, `"k":"135168"`, "config.keyslots_size: is missing"},
	{"keyslots_size 0", `"keyslots_size":"135168"`, `"keyslots_size":"0"`, "outside the keyslots area"},
	{"keyslots_size negative", `"keyslots_size":"135168"`, `"keyslots_size":"-4096"`, "config.keyslots_size"},
	{"config flags an object", `"flags":["allow-discards"]`, `"flags":{}`, "config.flags: is an object"},
	{"requirements null", `{"mandatory":["online-reencrypt-v2"]}`, `null`, "config.requirements: is null"},
	{"mandatory a string", `["online-reencrypt-v2"]`, `"online-reencrypt-v2"`, "requirements.mandatory: is a string"},

	{"number with a leading zero", `"time":4`, `"time":04`, "bad number"},
	{"number cut", `"time":4`, `"time":-`, "bad number"},
	{"word cut", `"tokens":{`, `"x":nul,"tokens":{`, "unexpected byte"},
	{"single quotes", `"tokens":{`, `'x':1,"tokens":{`, "unexpected byte"},
	{"comment", `"tokens":{`, `/* */"tokens":{`, "unexpected byte"},
	{"bad escape", `"tokens":{`, `"\x":1,"tokens":{`, "bad escape"},
	{"missing colon", `"tokens":{`, `"x" 1,"tokens":{`, "unexpected byte"},
	{"comma at the end", `"kdf":{"type"`, `"y":[1,],"kdf":{"type"`, "unexpected byte"},
	{"string without end", `"config":{`, `"config:{`, "unexpected"},
	{"name escaped twice", `"tokens":{`, `"\u0074okens":{},"tokens":{`, `"tokens" appears twice`},
}

func TestRichDefects(t *testing.T) {
	whole := richHeader(t)
	if _, err := ReadHeader(whole, int64(len(whole))); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range jsonDefects {
		names[d.name] = true
	}
	for _, d := range richDefects {
		if names[d.name] {
			t.Errorf("two defects are named %q", d.name)
		}
		names[d.name] = true
		t.Run(d.name, func(t *testing.T) {
			image := bytes.Clone(whole)
			editJSON(t, image, replace(t, d.old, d.with))
			wantNamed(t, cheaply(t, image), ErrHeaderCorrupt, d.word)
		})
	}
	t.Logf("%d defects of the JSON", len(names))
}

// Keyslots of one digest hold keys of one length, which its segments' ciphers take.
func TestKeySizeDefects(t *testing.T) {
	whole, _ := manySlots(t, "zero", "one")
	image := bytes.Clone(whole)
	editJSON(t, image, inSlot(t, 1, `"key_size":32,"af"`, `"key_size":31,"af"`))
	wantNamed(t, cheaply(t, image), ErrHeaderCorrupt, "another keyslot of digest 0 has")

	image = bytes.Clone(whole)
	for _, id := range []int{0, 1} {
		editJSON(t, image, inSlot(t, id, `"key_size":32,"af"`, `"key_size":20,"af"`))
	}
	wantNamed(t, cheaply(t, image), ErrHeaderCorrupt, "does not take the 20 bytes")
}

// The largest headers there can be, and as much in them as there can be, are
// refused or read at bounded cost.
func TestHostileSizes(t *testing.T) {
	const size = 4 << 20
	o := smallOptions()
	o.MetadataSize = size
	whole, _ := formatted(t, o)
	room := size - binarySize - 4096
	fill := func(unit string) string { return strings.Repeat(unit, room/len(unit)) }
	pad := func(text string) func(memory) {
		return func(m memory) { editJSON(t, m, replace(t, `"tokens":{}`, `"tokens":{},`+text)) }
	}
	members := &strings.Builder{}
	for i := range 100_000 {
		fmt.Fprintf(members, `"%d":%d,`, i, i)
	}
	for _, c := range []struct {
		name  string
		spoil func(m memory)
		want  error // nil: it is read
	}{
		{"one string", pad(`"x":"` + fill("x") + `"`), nil},
		{"strings", pad(`"x":["` + fill("xxxxxxxxxxxxxxx") + `"]`), nil},
		{"spaces", pad(fill(" ") + `"x":1`), nil},
		{"backslashes", pad(`"x":"` + fill(`\\`) + `"`), ErrHeaderCorrupt},
		{"escaped quotes", pad(`"x":"` + fill(`\"`) + `"`), ErrHeaderCorrupt},
		{"digits", pad(`"x":` + fill("1")), ErrHeaderCorrupt},
		{"empty arrays", pad(`"x":[` + fill("[],") + `[]]`), ErrHeaderCorrupt},
		{"members", pad(members.String() + `"x":1`), ErrHeaderCorrupt},
		{"nested arrays", pad(`"x":` + fill("[") + `1`), ErrHeaderCorrupt},
		{"no NUL", func(m memory) {
			for _, off := range []int{0, size} {
				area := m[off+binarySize : off+size]
				copy(area[bytes.IndexByte(area, 0):], fill(" ")+strings.Repeat(" ", 8192))
				if err := seal(m[off:off+size], "sha256"); err != nil {
					t.Fatal(err)
				}
			}
		}, ErrHeaderCorrupt},
		{"every secondary whole but for its JSON", func(m memory) {
			clear(m[:1])
			for _, off := range headerSizes {
				b := m[off : 2*off]
				copy(b, m[size:][:binarySize])
				copy(b[binarySize:], `{"x":"`+strings.Repeat("x", int(off)-binarySize-10)+`"}`)
				h := binaryHeader{copy: Secondary, size: off, offset: off, checksumAlg: "sha256"}
				copy(b, h.marshal())
				if err := seal(b, "sha256"); err != nil {
					t.Fatal(err)
				}
			}
		}, ErrNotLUKS},
		{"every secondary with another checksum", func(m memory) {
			m[binarySize]++
			for _, off := range headerSizes {
				h := binaryHeader{copy: Secondary, size: off, offset: off, checksumAlg: "sha256"}
				copy(m[off:], h.marshal())
			}
		}, ErrHeaderCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := bytes.Clone(whole)
			c.spoil(image)
			if err := cheaply(t, image); c.want != nil {
				wantNamed(t, err, c.want, "")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
