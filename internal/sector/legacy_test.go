package sector

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/xts"
	"pgregory.net/rapid"
)

// Every cipher string that volumes are found with, in whatever spelling, and
// what it is called here.
func TestParseNames(t *testing.T) {
	for s, want := range map[string]string{
		"aes-cbc-plain":                         "",
		"aes-cbc-plain64":                       "",
		"aes-cbc-essiv:sha256":                  "",
		"aes-xts-essiv:sha256":                  "",
		"aes-xts-essiv:wp256":                   "",
		"aes-lrw-benbi":                         "",
		"aes-lrw-plain64":                       "",
		"aes-ecb":                               "",
		"cipher_null-ecb":                       "",
		"serpent-xts-plain64":                   "",
		"serpent-cbc-essiv:sha256":              "",
		"twofish-xts-plain64":                   "",
		"twofish-cbc-plain":                     "",
		"camellia-xts-plain64":                  "",
		"camellia-cbc-essiv:sha256":             "",
		"xchacha12,aes-adiantum-plain64":        "",
		"xchacha20,aes-adiantum-plain64":        "",
		"capi:xts(aes)-plain64":                 "aes-xts-plain64",
		"capi:xts(ecb(aes-generic))-plain64":    "aes-xts-plain64",
		"capi:cbc(serpent)-essiv:sha256":        "serpent-cbc-essiv:sha256",
		"capi:adiantum(xchacha12,aes)-plain64":  "xchacha12,aes-adiantum-plain64",
		"capi:ecb(cipher_null)":                 "cipher_null-ecb",
		"capi:ecb(aes)-plain64":                 "aes-ecb-plain64",
		"aes-xts-plain64:sha256":                "aes-xts-plain64",
		"aes-cbc-plain:sha1":                    "aes-cbc-plain",
		"capi:lrw(ecb(aes))-plain64:ripemd-160": "aes-lrw-plain64",
	} {
		if want == "" {
			want = s
		}
		spec, err := Parse(s)
		if err != nil || spec.String() != want {
			t.Errorf("%s: %v, %v", s, spec, err)
		}
		if stray := strings.HasSuffix(s, ":sha1") || strings.HasSuffix(s, "-160") || s == "aes-xts-plain64:sha256"; stray != (spec.Stray != "") {
			t.Errorf("%s: stray hash %q", s, spec.Stray)
		}
		again, err := Parse(spec.String())
		if err != nil || again.String() != want {
			t.Errorf("%s: its own name %s gives %v, %v", s, spec, again, err)
		}
	}
}

// What may not be written with, and why.
func TestWeaknessAndReadOnly(t *testing.T) {
	for s, c := range map[string]struct{ weak, readOnly bool }{
		"aes-xts-plain64":                {false, false},
		"aes-cbc-essiv:sha256":           {false, false},
		"xchacha12,aes-adiantum-plain64": {false, false},
		"aes-xts-plain64:sha256":         {false, true},
		"aes-lrw-benbi":                  {true, true},
		"aes-ecb":                        {true, true},
		"cipher_null-ecb":                {true, true},
		"capi:ecb(cipher_null)":          {true, true},
	} {
		spec, err := Parse(s)
		if err != nil || (spec.Weakness() != "") != c.weak || (spec.ReadOnly() != "") != c.readOnly {
			t.Errorf("%s: weakness %q, read-only %q, %v", s, spec.Weakness(), spec.ReadOnly(), err)
		}
	}
}

func TestKeySizes(t *testing.T) {
	for s, want := range map[string][]int{
		"serpent-xts-plain64":            {32, 48, 64},
		"camellia-cbc-plain64":           {16, 24, 32},
		"aes-lrw-benbi":                  {32, 40, 48},
		"xchacha12,aes-adiantum-plain64": {32},
		"cipher_null-ecb":                nil,
	} {
		spec, err := Parse(s)
		if err != nil || !slices.Equal(spec.KeySizes(), want) {
			t.Errorf("%s: key sizes %v, %v", s, spec.KeySizes(), err)
		}
		if valid := spec.ValidKeySize(33); valid != (want == nil) {
			t.Errorf("%s: 33 bytes valid: %v", s, valid)
		}
	}
}

// Block ciphers alone: the designers' own vectors (RFC 3713, appendix A;
// Serpent's and Twofish's NESSIE set 1, vector 0).
func TestBlockVectors(t *testing.T) {
	for _, v := range []struct{ cipher, key, plain, sealed string }{
		{"camellia", "0123456789abcdeffedcba9876543210", "0123456789abcdeffedcba9876543210", "67673138549669730857065648eabe43"},
		{"camellia", "0123456789abcdeffedcba98765432100011223344556677", "0123456789abcdeffedcba9876543210", "b4993401b3e996f84ee5cee7d79b09b9"},
		{"camellia", "0123456789abcdeffedcba987654321000112233445566778899aabbccddeeff", "0123456789abcdeffedcba9876543210", "9acc237dff16d76c20ef7c919e3a7509"},
		{"twofish", "00000000000000000000000000000000", "00000000000000000000000000000000", "9f589f5cf6122c32b6bfec2f2ae8c35a"},
	} {
		block, err := newBlock(v.cipher, unhex(t, v.key))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 16)
		block.Encrypt(got, unhex(t, v.plain))
		if !bytes.Equal(got, unhex(t, v.sealed)) {
			t.Errorf("%s with %d bytes: %x, want %s", v.cipher, len(v.key)/2, got, v.sealed)
		}
	}
	if _, err := newBlock("des", make([]byte, 16)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("des: %v", err)
	}
}

// The first vector for AES of the IEEE P1619 draft on LRW: one block, index 1.
func TestLRWVector(t *testing.T) {
	c, err := newLRW(Spec{Cipher: "aes", Mode: "lrw", IV: ivBenbi}, unhex(t, "4562ac25f828176d4c268414b5680185258e2a05e73e9d03ee5a830ccc094c87"), Options{SectorSize: 512})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 512) // benbi gives sector 0 the index 1
	copy(b, "0123456789ABCDEF")
	c.Encrypt(b, b, 0)
	if want := unhex(t, "f1b273cd65a3df5fe95d489254634eb8"); !bytes.Equal(b[:16], want) {
		t.Errorf("%x, want %x", b[:16], want)
	}
}

// The index of LRW counts in 128 bits, whatever the carries: stepping gives
// what multiplying does.
func TestLRWSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "key")
		made, err := newLRW(Spec{Cipher: "aes", Mode: "lrw", IV: ivBenbi}, append(make([]byte, 16), key...), Options{SectorSize: 512})
		if err != nil {
			t.Fatal(err)
		}
		c := made.(*lrwCipher)
		word := rapid.SampledFrom([]uint64{0, 1, 0x7fff, 1<<63 - 1, 1<<63 | 1, 1<<64 - 1})
		index := element{word.Draw(t, "high"), word.Draw(t, "low")}
		next, ones := index.next()
		if got, want := c.tweak.times(index).add(c.steps[ones]), c.tweak.times(next); got != want {
			t.Fatalf("index %x: %x, want %x", index, got, want)
		}
	})
}

// Adiantum's designers' vectors: 16 bytes of message, 32 of tweak.
func TestAdiantumVectors(t *testing.T) {
	const (
		key1, tweak1, plain1 = "9eebb2493c1cf5f46a99c2c4dfb1f4dd752057ea2c4fcdb2a53d7b491eabfd0f", "df63d4abd249f3d8338137607dfa7308d8496d80e82f6254eb0ea9395b457f8a", "67c9f23084418e43fbf3b33e79367fe8"
		key2, tweak2, plain2 = "504ac8940113d30cd9aaf34cf83f2c399eecc6a897f28e7394b84c400328afc2", "9eaa0b7f122ae3df0503931bdac8d7988af9df63b1cd15aa028e41a0751d170e", "e28a35a7100d656ead77ce07bb678303"
	)
	for _, v := range []struct {
		rounds                    int
		key, tweak, plain, sealed string
	}{
		{12, key1, tweak1, plain1, "6d32861867860f3f967c9d280d53ec9f"},
		{12, key2, tweak2, plain2, "1bd78be5997c26ad16302f1edc72ce14"},
		{20, key1, tweak1, plain1, "f67897d6aa9401272e4d83e06e649adf"},
		{20, key2, tweak2, plain2, "14e3c9b1ea2c73bbba8bdcd6e168ba68"},
	} {
		var k adiantumKey
		if err := k.init(unhex(t, v.key), v.rounds); err != nil {
			t.Fatal(err)
		}
		b := unhex(t, v.plain)
		k.encrypt(b, unhex(t, v.tweak))
		if !bytes.Equal(b, unhex(t, v.sealed)) {
			t.Errorf("%d rounds: %x, want %s", v.rounds, b, v.sealed)
		}
		k.decrypt(b, unhex(t, v.tweak))
		if !bytes.Equal(b, unhex(t, v.plain)) {
			t.Errorf("%d rounds: does not decrypt", v.rounds)
		}
	}
}

// slow are the ciphers besides AES-XTS with counted tweaks.
var slow = []string{
	"aes-xts-essiv:sha256", "serpent-xts-plain64", "twofish-xts-plain", "camellia-xts-plain64be", "camellia-xts-essiv:sha256",
	"aes-cbc-plain", "aes-cbc-essiv:sha256", "serpent-cbc-plain64", "twofish-cbc-plain64be", "camellia-cbc-essiv:sha256",
	"aes-lrw-benbi", "aes-lrw-plain64", "aes-ecb", "cipher_null-ecb", "xchacha12,aes-adiantum-plain64", "xchacha20,aes-adiantum-plain",
}

func newSlow(t interface{ Fatal(...any) }, name string, o Options) Cipher {
	spec, err := Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 16)
	if sizes := spec.KeySizes(); sizes != nil {
		key = make([]byte, sizes[len(sizes)-1])
	}
	for i := range key {
		key[i] = byte(5*i + 1)
	}
	c, err := spec.New(key, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A run is its sectors one by one, in place or not; decrypting undoes it; and
// numbers count as dm-crypt counts them.
func TestSlowRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			SectorSize:     rapid.SampledFrom([]int{512, 1024, 2048, 4096}).Draw(t, "sector size"),
			IVLargeSectors: rapid.Bool().Draw(t, "large"),
		}
		name := rapid.SampledFrom(slow).Draw(t, "cipher")
		c := newSlow(t, name, o)
		unit := uint64(o.SectorSize / UnitSize)
		first := rapid.SampledFrom([]uint64{0, 8, 1<<32 - 8, 1<<35 - 8}).Draw(t, "first")
		plain := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "plain"), o.SectorSize/16*3)
		got := make([]byte, len(plain))
		c.Encrypt(got, plain, first)
		for i := range 3 {
			one := bytes.Clone(plain[i*o.SectorSize:][:o.SectorSize])
			c.Encrypt(one, one, first+uint64(i)*unit)
			if !bytes.Equal(one, got[i*o.SectorSize:][:o.SectorSize]) {
				t.Fatalf("%s: sector %d differs in a run", name, i)
			}
		}
		if c.SectorSize() != o.SectorSize {
			t.Fatal("sector size")
		}
		c.Decrypt(got, got, first)
		if !bytes.Equal(got, plain) {
			t.Fatalf("%s: decryption does not give the plaintext back", name)
		}
	})
}

// Against the standard library and golang.org/x/crypto/xts, for what they have.
func TestSlowReferences(t *testing.T) {
	key, plain := unhex(t, strings.Repeat("0123456789abcdef", 8)), bytes.Repeat([]byte("sixteen of these"), 64)
	key[0] ^= 1
	essiv := sha256.Sum256(key)
	salt, _ := aes.NewCipher(essiv[:])
	iv := make([]byte, 16)
	binary.LittleEndian.PutUint64(iv, 77<<3)
	salt.Encrypt(iv, iv)
	k1, _ := aes.NewCipher(key[:32])
	cbcSalt := sha256.Sum256(key[:32])
	salt, _ = aes.NewCipher(cbcSalt[:])
	cbcIV := make([]byte, 16)
	binary.LittleEndian.PutUint64(cbcIV, 77<<3)
	salt.Encrypt(cbcIV, cbcIV)
	want := make([]byte, len(plain))
	cipher.NewCBCEncrypter(k1, cbcIV).CryptBlocks(want, plain)
	for _, c := range []struct {
		name string
		key  []byte
		want []byte
	}{
		{"aes-cbc-essiv:sha256", key[:32], want},
		{"serpent-xts-plain64", key, nil},
		{"twofish-xts-plain64", key, nil},
		{"camellia-xts-plain64", key, nil},
	} {
		spec, err := Parse(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == nil {
			c.want = make([]byte, len(plain))
			peer, err := xts.NewCipher(func(k []byte) (cipher.Block, error) { return newBlock(spec.Cipher, k) }, c.key)
			if err != nil {
				t.Fatal(err)
			}
			peer.Encrypt(c.want, plain, 77<<3)
		}
		made, err := spec.New(c.key, Options{SectorSize: 1024})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(plain))
		made.Encrypt(got, plain, 77<<3)
		if !bytes.Equal(got, c.want) {
			t.Errorf("%s differs", c.name)
		}
	}
	// XTS under ESSIV: the engine's answer to the encrypted number.
	engine, err := Spec{Cipher: "aes", Mode: "xts", IV: "essiv:sha256"}.New(key, Options{SectorSize: 1024})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(plain))
	engine.Encrypt(got, plain, 77<<3)
	var first [16]byte
	k2, _ := aes.NewCipher(key[32:])
	k2.Encrypt(first[:], iv)
	block := make([]byte, 16)
	for i := range block {
		block[i] = plain[i] ^ first[i]
	}
	k1.Encrypt(block, block)
	for i := range block {
		block[i] ^= first[i]
	}
	if !bytes.Equal(got[:16], block) {
		t.Error("aes-xts-essiv:sha256 differs")
	}
}

func TestSlowMisuse(t *testing.T) {
	b := make([]byte, 4096)
	for _, name := range slow {
		c := newSlow(t, name, Options{SectorSize: 1024})
		for what, f := range map[string]func(){
			"part of a sector":          func() { c.Encrypt(b, b[:512], 0) },
			"part of a sector, decrypt": func() { c.Decrypt(b, b[:1536], 0) },
			"IV inside a sector":        func() { c.Encrypt(b, b[:1024], 1) },
			"short output":              func() { c.Encrypt(b[:1024:1024], b[:2048], 0) },
			"overlap":                   func() { c.Encrypt(b[16:], b[:1024], 0) },
			"overlap, decrypt":          func() { c.Decrypt(b, b[512:1536], 0) },
		} {
			if !panics(f) {
				t.Errorf("%s: %s: no panic", name, what)
			}
		}
		c.Encrypt(nil, nil, 2)
		c.Wipe()
		if name != "cipher_null-ecb" && !panics(func() { c.Encrypt(b, b, 0) }) {
			t.Errorf("%s: use after Wipe: no panic", name)
		}
	}
}

func TestSlowNewRefuses(t *testing.T) {
	for _, name := range []string{"serpent-xts-plain64", "camellia-xts-plain64"} {
		spec, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := spec.New(make([]byte, 64), Options{SectorSize: 512}); err == nil {
			t.Errorf("%s: equal halves are taken", name)
		}
		if _, err := spec.New(make([]byte, 64), Options{SectorSize: 512, AllowEqualHalves: true}); err != nil {
			t.Errorf("%s: equal halves, allowed: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range append(slow, "capi:xts(ecb(aes-generic))-plain64", "aes-xts-plain64:sha256", "capi:ecb(cipher_null)") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		spec, err := Parse(s)
		if err != nil {
			if !errors.Is(err, ErrUnsupported) || spec != (Spec{}) {
				t.Errorf("%q: %v, %v", s, spec, err)
			}
			return
		}
		if again, err := Parse(spec.String()); err != nil || again.String() != spec.String() {
			t.Errorf("%q: its own name %s gives %v, %v", s, spec, again, err)
		}
	})
}
