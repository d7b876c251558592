package sector

import (
	"bytes"
	"crypto/aes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/xts"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, s := range []string{"aes-xts-plain", "aes-xts-plain64", "aes-xts-plain64be"} {
		spec, err := Parse(s)
		if err != nil || spec.String() != s {
			t.Errorf("%s: %v, %v", s, spec, err)
		}
		if got := spec.KeySizes(); !slices.Equal(got, []int{32, 48, 64}) {
			t.Errorf("%s: key sizes %v", s, got)
		}
	}
	for s, word := range map[string]string{
		"":                              `""`,
		"aes":                           `"aes"`,
		"aes-xts":                       `IV ""`,
		"aes-xts-":                      `"aes-xts-"`,
		"-xts-plain64":                  `"-xts-plain64"`,
		"aes-xts-plain64-x":             `"plain64-x"`,
		"aes-xts-plain64:":              `"plain64:"`,
		"aes-xts-plain64:a b":           `"plain64:a b"`,
		"aes-xts-essiv":                 `hash ""`,
		"aes-xts-essiv:":                `hash ""`,
		"aes-xts-essiv:md5":             `hash "md5"`,
		"aes-cbc-essiv:sha512":          `gives 64 bytes`,
		"aes-cbc-essiv:sha1":            `gives 20 bytes`,
		"aes-cbc-benbi":                 `IV "benbi"`,
		"aes-xts-random":                `IV "random"`,
		"aes-lrw-essiv:sha256":          `IV "essiv:sha256"`,
		"aes-cbc":                       `IV ""`,
		"AES-XTS-PLAIN64":               `"AES-XTS-PLAIN64"`,
		"serpent-lrw-benbi":             `"serpent-lrw-benbi"`,
		"cipher_null-xts-plain64":       `"cipher_null-xts-plain64"`,
		"xchacha8,aes-adiantum-plain64": `"xchacha8,aes-adiantum-plain64"`,
		"capi:":                         `"capi:"`,
		"capi:xts":                      `"capi:xts"`,
		"capi:xts(aes":                  `"capi:xts(aes"`,
		"capi:xts(aes)":                 `IV ""`,
		"capi:xts(aes)plain64":          `"capi:xts(aes)plain64"`,
		"capi:xts(aes)-":                `"capi:xts(aes)-"`,
		"capi:xts(ecb(aes)-plain64":     `"capi:xts(ecb(aes)-plain64"`,
		"capi:gcm(aes)-random":          `"capi:gcm(aes)-random"`,
		"capi:xts(des-generic)-plain64": `"capi:xts(des-generic)-plain64"`,
		"\x1b[31m-xts-plain64":          `\x1b`,
		"aes-xts-plain64\n":             `\n`,
		strings.Repeat("x", 1000000):    "longer than 64",
	} {
		spec, err := Parse(s)
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), word) || len(err.Error()) > 300 {
			t.Errorf("%.40q: %v", s, err)
		}
		if spec != (Spec{}) {
			t.Errorf("%.40q: %v", s, spec)
		}
	}
}

func TestUnknownSpec(t *testing.T) {
	s := Spec{Cipher: "aes", Mode: "ctr", IV: "plain64"}
	if s.KeySizes() != nil || s.ValidKeySize(32) {
		t.Error("key sizes of an unknown cipher")
	}
	if _, err := s.New(make([]byte, 32), Options{SectorSize: 512}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	s = Spec{Cipher: "aes", Mode: "xts", IV: "null"}
	if _, err := s.New(bytes.Repeat([]byte{1, 2}, 16), Options{SectorSize: 512, AllowEqualHalves: true}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	spec, err := Parse("aes-xts-plain64")
	if err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 64)
	key[0] = 1
	for _, c := range []struct {
		name string
		key  []byte
		o    Options
		word string
	}{
		{"short key", key[:16], Options{SectorSize: 512}, "16 bytes"},
		{"no key", nil, Options{SectorSize: 512}, "0 bytes"},
		{"long key", append(key, 1), Options{SectorSize: 512}, "65 bytes"},
		{"no sector size", key, Options{}, "sector size 0"},
		{"sector size 256", key, Options{SectorSize: 256}, "sector size 256"},
		{"sector size 8192", key, Options{SectorSize: 8192}, "sector size 8192"},
		{"sector size 1536", key, Options{SectorSize: 1536}, "sector size 1536"},
		{"equal halves", make([]byte, 64), Options{SectorSize: 512}, "cipher aes-xts-plain64"},
		{"level", key, Options{SectorSize: 512, Level: "mmx"}, "mmx"},
	} {
		if _, err := spec.New(c.key, c.o); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := spec.New(make([]byte, 64), Options{SectorSize: 512, AllowEqualHalves: true}); err != nil {
		t.Errorf("equal halves, allowed: %v", err)
	}
	if c, err := spec.New(key, Options{SectorSize: 2048, Level: "generic"}); err != nil || c.SectorSize() != 2048 {
		t.Errorf("level generic: %v", err)
	}
}

// The IVs of dm-crypt, against golang.org/x/crypto/xts sector by sector. That
// package takes a 64-bit little-endian number, which plain64be is not: there
// the number goes into the upper half of the tweak, and a reference of this
// file's does the rest.
func TestIVs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		iv := rapid.SampledFrom([]string{"plain", "plain64", "plain64be"}).Draw(t, "iv")
		o := Options{
			SectorSize:     rapid.SampledFrom([]int{512, 1024, 2048, 4096}).Draw(t, "sector size"),
			IVLargeSectors: rapid.Bool().Draw(t, "large"),
		}
		unit := uint64(o.SectorSize / 512)
		edge := rapid.SampledFrom([]uint64{0, 1 << 32, 1 << 35, 1 << 63, 0}).Draw(t, "edge")
		first := (edge - uint64(rapid.IntRange(0, 200).Draw(t, "before"))*unit)
		first -= first % unit
		key := rapid.SliceOfN(rapid.Byte(), 64, 64).Draw(t, "key")[:rapid.SampledFrom([]int{32, 48, 64}).Draw(t, "key size")]
		key[0] = ^key[len(key)/2]
		plain := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "plain")
		plain = bytes.Repeat(plain, o.SectorSize/16*rapid.IntRange(0, 9).Draw(t, "sectors"))
		for i := range plain {
			plain[i] += byte(i / 16)
		}
		c, err := Spec{Cipher: "aes", Mode: "xts", IV: iv}.New(key, o)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(plain))
		c.Encrypt(got, plain, first)
		for i := 0; i < len(plain); i += o.SectorSize {
			n := first + uint64(i/512)
			if o.IVLargeSectors {
				n = first/unit + uint64(i/o.SectorSize)
			}
			want := reference(t, key, plain[i:i+o.SectorSize], iv, n)
			if !bytes.Equal(got[i:i+o.SectorSize], want) {
				t.Fatalf("sector %d of IV %d differs", i/o.SectorSize, n)
			}
		}
		c.Decrypt(got, got, first)
		if !bytes.Equal(got, plain) {
			t.Fatal("decryption does not give the plaintext back")
		}
	})
}

func reference(t *rapid.T, key, sector []byte, iv string, n uint64) []byte {
	out := make([]byte, len(sector))
	if iv == "plain64be" {
		xtsWide(t, key, out, sector, n)
		return out
	}
	if iv == "plain" {
		n = uint64(uint32(n))
	}
	c, err := xts.NewCipher(aes.NewCipher, key)
	if err != nil {
		t.Fatal(err)
	}
	c.Encrypt(out, sector, n)
	return out
}

// xtsWide is XTS (IEEE 1619-2018, section 5.3) with a big-endian number in the
// upper half of the tweak.
func xtsWide(t *rapid.T, key, dst, src []byte, n uint64) {
	k1, err1 := aes.NewCipher(key[:len(key)/2])
	k2, err2 := aes.NewCipher(key[len(key)/2:])
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	var tweak [16]byte
	binary.BigEndian.PutUint64(tweak[8:], n)
	k2.Encrypt(tweak[:], tweak[:])
	for i := 0; i < len(src); i += 16 {
		b := dst[i : i+16]
		for j := range b {
			b[j] = src[i+j] ^ tweak[j]
		}
		k1.Encrypt(b, b)
		for j := range b {
			b[j] ^= tweak[j]
		}
		carry := byte(0)
		for j := range tweak {
			tweak[j], carry = tweak[j]<<1|carry, tweak[j]>>7
		}
		tweak[0] ^= carry * 0x87
	}
}

func TestMisuse(t *testing.T) {
	c, err := Spec{Cipher: "aes", Mode: "xts", IV: "plain64"}.New(append(make([]byte, 63), 1), Options{SectorSize: 1024})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	for name, f := range map[string]func(){
		"part of a sector":          func() { c.Encrypt(b, b[:512], 0) },
		"part of a sector, decrypt": func() { c.Decrypt(b, b[:1536], 0) },
		"IV inside a sector":        func() { c.Encrypt(b, b[:1024], 1) },
		"short output":              func() { c.Encrypt(b[:1024], b[:2048], 0) },
		"overlap":                   func() { c.Encrypt(b[16:], b[:1024], 0) },
	} {
		if !panics(f) {
			t.Errorf("%s: no panic", name)
		}
	}
	c.Encrypt(nil, nil, 2)
	c.Wipe()
	if !panics(func() { c.Encrypt(b, b, 0) }) {
		t.Error("use after Wipe: no panic")
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}
