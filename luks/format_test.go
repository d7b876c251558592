package luks

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Any valid options give a header that this package reads back as asked, that
// opens with its passphrase and with no other, and whose copies agree.
func TestFormatRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := smallOptions()
		o.Cipher = rapid.SampledFrom([]string{"", "aes-xts-plain64", "aes-xts-plain", "aes-xts-plain64be"}).Draw(rt, "cipher")
		o.KeySize = rapid.SampledFrom([]int{0, 32, 64}).Draw(rt, "key size")
		o.Hash = rapid.SampledFrom([]string{"", "sha1", "sha224", "sha256", "sha384", "sha512"}).Draw(rt, "hash")
		o.SectorSize = rapid.SampledFrom([]int{0, 512, 1024, 2048, 4096}).Draw(rt, "sector size")
		o.Label = rapid.StringMatching(`[^\x00]{0,11}`).Draw(rt, "label")
		o.Subsystem = rapid.StringMatching(`[ -~]{0,47}`).Draw(rt, "subsystem")
		o.MetadataSize = rapid.SampledFrom([]int64{0, 16 << 10, 64 << 10}).Draw(rt, "metadata")
		o.KeyslotsSize = areaSize(64) + 4096*rapid.Int64Range(0, 20).Draw(rt, "keyslots")
		o.Passphrase = rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(rt, "passphrase")
		if rapid.Bool().Draw(rt, "argon2") {
			o.KDF = cheapArgon2
		}
		image, key := formatted(t, o)
		h, err := ReadHeader(image, int64(len(image)))
		if err != nil {
			rt.Fatal(err)
		}
		if h.Label != o.Label || h.Subsystem != o.Subsystem || len(h.Warnings) != 0 || h.SeqID != 1 {
			rt.Fatalf("%+v", h)
		}
		list, err := h.DataSegments()
		if err != nil || len(list) != 1 {
			rt.Fatal(list, err)
		}
		setDefault(&o.Cipher, defaultCipher)
		setDefault(&o.SectorSize, defaultSectorSize)
		if s := list[0]; s.Cipher != o.Cipher || s.SectorSize != o.SectorSize || s.Size != -1 || s.Offset != h.End() && s.Offset%dataAlignment != 0 {
			rt.Fatalf("%+v", s)
		}
		v, err := h.Unlock(t.Context(), image, o.Passphrase, UnlockOptions{Slot: AnySlot})
		if err != nil || !bytes.Equal(v.Key(), key) {
			rt.Fatalf("%v", err)
		}
		v.Close()
		_, err = h.Unlock(t.Context(), image, append(bytes.Clone(o.Passphrase), 'x'), UnlockOptions{Slot: AnySlot})
		if !errors.Is(err, ErrWrongPassphrase) {
			rt.Fatalf("another passphrase: %v", err)
		}
	})
}

// The copies differ in magic, salt, place and checksum, and in nothing else,
// and no two volumes share a random number.
func TestFormatCopies(t *testing.T) {
	image, key := formatted(t, smallOptions())
	again, otherKey := formatted(t, smallOptions())
	first, second := image[:16<<10], image[16<<10:32<<10]
	for _, f := range []struct{ off, n int }{{0, 4}, {offSalt, saltSize}, {offHdrOffset, 8}, {offChecksum, 32}} {
		if bytes.Equal(first[f.off:][:f.n], second[f.off:][:f.n]) {
			t.Errorf("both copies have the same %d bytes at %d", f.n, f.off)
		}
	}
	a, b := bytes.Clone(first), bytes.Clone(second)
	for _, c := range [][]byte{a, b} {
		clear(c[:4])
		clear(c[offSalt:][:saltSize])
		clear(c[offHdrOffset:][:8])
		clear(c[offChecksum:][:checksumSize])
	}
	if !bytes.Equal(a, b) {
		t.Error("the copies differ elsewhere")
	}
	if bytes.Equal(key, otherKey) || bytes.Equal(image[offSalt:][:saltSize], again[offSalt:][:saltSize]) ||
		bytes.Equal(image[offUUID:][:36], again[offUUID:][:36]) {
		t.Error("two volumes share random numbers")
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).Match(image[offUUID:][:36]) {
		t.Errorf("UUID %q", image[offUUID:][:36])
	}
	if bytes.Contains(image, key[:16]) {
		t.Error("the volume key lies bare in the image")
	}
}

// Everything in front of the data is overwritten: keys and signatures of what
// was there before. The data is left alone.
func TestFormatClears(t *testing.T) {
	const marker = 0xa5
	o := smallOptions()
	o.DataOffset, o.KeyslotsSize = 2<<20, 1<<20
	image := memory(bytes.Repeat([]byte{marker}, 3<<20))
	v, err := Format(t.Context(), image, o)
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	run := bytes.Repeat([]byte{marker}, 8)
	if i := bytes.Index(image[:2<<20], run); i >= 0 {
		t.Errorf("old bytes are left at %d", i)
	}
	if !bytes.Equal(image[2<<20:], bytes.Repeat([]byte{marker}, 1<<20)) {
		t.Error("bytes behind the data offset were changed")
	}
	keyslots := image[32<<10 : 32<<10+1<<20]
	if err := judgeArea(keyslots, 0); !errors.Is(err, ErrWrongPassphrase) {
		t.Errorf("the keyslots area does not look random: %v", err)
	}
	if end := 32<<10 + 1<<20; !bytes.Equal(image[end:2<<20], make([]byte, 2<<20-end)) {
		t.Error("the gap behind the keyslots area is not zero")
	}
	open(t, image, "small")
}

// zeroer has its own way to write zeros.
type zeroer struct {
	memory
	calls int
}

func (z *zeroer) WriteZeroes(off, n int64) error {
	z.calls++
	clear(z.memory[off:][:n])
	return nil
}

func TestFormatUsesWriteZeroes(t *testing.T) {
	z := &zeroer{memory: bytes.Repeat([]byte{1}, 2<<20)}
	v, err := Format(t.Context(), z, smallOptions())
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	if z.calls != 1 || !bytes.Equal(z.memory[32<<10+128<<10:1<<20], make([]byte, 1<<20-160<<10)) {
		t.Errorf("%d calls", z.calls)
	}
}

// A pipe gets the same header, followed by the place where the data starts.
func TestWriteTo(t *testing.T) {
	p, err := Prepare(t.Context(), smallOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Volume().Close()
	var b bytes.Buffer
	n, err := p.WriteTo(&b)
	if err != nil || n != p.DataOffset() || int64(b.Len()) != n || n != 1<<20 {
		t.Fatalf("%d bytes, %d told, %v", b.Len(), n, err)
	}
	v := open(t, b.Bytes(), "small")
	if !bytes.Equal(v.Key(), p.Volume().Key()) || len(v.Header.Warnings) != 0 {
		t.Errorf("warnings %q", v.Header.Warnings)
	}
	written := make(memory, 1<<20)
	if err := p.Write(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	if end := 32<<10 + 128000; !bytes.Equal(written[:end], b.Bytes()[:end]) {
		t.Error("Write and WriteTo differ")
	}
	for _, most := range []int{0, 100, 16 << 10, 40 << 10, 200 << 10, 1<<20 - 1} {
		w := &limited{left: most}
		if n, err := p.WriteTo(w); !errors.Is(err, io.ErrClosedPipe) || n != int64(most) {
			t.Errorf("pipe closed after %d: %d, %v", most, n, err)
		}
	}
}

type limited struct{ left int }

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	if n < len(p) {
		return n, io.ErrClosedPipe
	}
	return n, nil
}

// Options that cannot be: which error, and what it names.
func TestFormatOptions(t *testing.T) {
	equal := bytes.Repeat([]byte{1, 2}, 16)
	for _, c := range []struct {
		name   string
		change func(o *FormatOptions)
		want   error
		word   string
	}{
		{"cipher", func(o *FormatOptions) { o.Cipher = "xyz-xts-plain64" }, ErrUnsupported, "xyz"},
		{"cipher IV", func(o *FormatOptions) { o.Cipher = "aes-xts-plain65" }, ErrUnsupported, "plain65"},
		{"stray hash", func(o *FormatOptions) { o.Cipher = "aes-xts-plain64:sha256" }, ErrPolicy, "the hash sha256"},
		{"null cipher", func(o *FormatOptions) { o.Cipher = "cipher_null-ecb" }, ErrPolicy, "cipher_null"},
		{"ECB", func(o *FormatOptions) { o.Cipher = "aes-ecb" }, ErrPolicy, "aes-ecb"},
		{"LRW", func(o *FormatOptions) { o.Cipher = "aes-lrw-benbi" }, ErrPolicy, "aes-lrw-benbi"},
		{"CBC key size", func(o *FormatOptions) { o.Cipher, o.KeySize = "aes-cbc-essiv:sha256", 64 }, ErrOption, "64 bytes for aes-cbc-essiv:sha256"},
		{"AES-192", func(o *FormatOptions) { o.KeySize = 48 }, ErrOption, "48 bytes"},
		{"key size", func(o *FormatOptions) { o.KeySize = 256 }, ErrOption, "256 bytes"},
		{"negative key size", func(o *FormatOptions) { o.KeySize = -1 }, ErrOption, "-1 bytes"},
		{"flawed hash", func(o *FormatOptions) { o.Hash = "whirlpool_gcryptbug" }, ErrPolicy, "whirlpool_gcryptbug"},
		{"flawed KDF hash", func(o *FormatOptions) { o.KDF.Hash = "whirlpool_gcryptbug" }, ErrPolicy, "whirlpool_gcryptbug"},
		{"hash", func(o *FormatOptions) { o.Hash = "crc32" }, ErrUnsupported, "crc32"},
		{"sector size", func(o *FormatOptions) { o.SectorSize = 8192 }, ErrOption, "8192"},
		{"UUID", func(o *FormatOptions) { o.UUID = "0123456789abcdef0123456789abcdef----" }, ErrOption, "UUID"},
		{"UUID digits", func(o *FormatOptions) { o.UUID = "0123456g-89ab-cdef-0123-456789abcdef" }, ErrOption, "UUID"},
		{"label", func(o *FormatOptions) { o.Label = strings.Repeat("x", 48) }, ErrOption, "label"},
		{"label with NUL", func(o *FormatOptions) { o.Label = "a\x00b" }, ErrOption, "label"},
		{"subsystem", func(o *FormatOptions) { o.Subsystem = strings.Repeat("x", 48) }, ErrOption, "subsystem"},
		{"metadata size", func(o *FormatOptions) { o.MetadataSize = 24 << 10 }, ErrOption, "metadata size"},
		{"keyslots size", func(o *FormatOptions) { o.KeyslotsSize = -4096 }, ErrOption, "keyslots size"},
		{"no room for a keyslot", func(o *FormatOptions) { o.KeyslotsSize = 126976 }, ErrOption, "takes 131072"},
		{"data offset", func(o *FormatOptions) { o.DataOffset = 1<<20 + 512 }, ErrOption, "data offset"},
		{"negative data offset", func(o *FormatOptions) { o.DataOffset = -4096 }, ErrOption, "data offset"},
		{"data offset in the header", func(o *FormatOptions) { o.DataOffset = 16 << 10 }, ErrOption, "inside the header"},
		{"no data", func(o *FormatOptions) { o.DataSize = 1 << 20 }, ErrSize, "no data"},
		{"part of a sector", func(o *FormatOptions) { o.SectorSize, o.DataSize = 4096, 2<<20+512 }, ErrSize, "sector size 4096"},
		{"32-bit IV", func(o *FormatOptions) { o.Cipher, o.DataSize = "aes-xts-plain", 3<<40 }, ErrPolicy, "2 TiB"},
		{"digest iterations", func(o *FormatOptions) { o.DigestIterations = 999 }, ErrOption, "999"},
		{"KDF", func(o *FormatOptions) { o.KDF.Type = "scrypt" }, ErrUnsupported, "scrypt"},
		{"KDF hash", func(o *FormatOptions) { o.KDF.Hash = "" }, ErrUnsupported, "hash"},
		{"KDF iterations", func(o *FormatOptions) { o.KDF.Iterations = 10 }, ErrOption, "10 iterations"},
		{"KDF salt", func(o *FormatOptions) { o.KDF.Salt = []byte("salt") }, ErrOption, "salt of 4"},
		{"Argon2 memory", func(o *FormatOptions) { o.KDF = cheapArgon2; o.KDF.MemoryKiB = 31 }, ErrOption, "31 KiB"},
		{"Argon2 memory for the threads", func(o *FormatOptions) { o.KDF = cheapArgon2; o.KDF.MemoryKiB, o.KDF.Threads = 31, 4 }, ErrOption, "31 KiB"},
		{"Argon2 threads", func(o *FormatOptions) { o.KDF = cheapArgon2; o.KDF.Threads = 5 }, ErrOption, "5 KDF threads"},
		{"Argon2 passes", func(o *FormatOptions) { o.KDF = cheapArgon2; o.KDF.Iterations = 3 }, ErrOption, "3 iterations"},
		{"volume key length", func(o *FormatOptions) { o.VolumeKey = make([]byte, 31) }, ErrOption, "31 bytes"},
		{"empty volume key", func(o *FormatOptions) { o.VolumeKey = []byte{} }, ErrOption, "0 bytes"},
		{"equal halves", func(o *FormatOptions) { o.VolumeKey = equal }, ErrPolicy, "equal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := smallOptions()
			c.change(&o)
			st := memory(make([]byte, 2<<20))
			_, err := Format(t.Context(), st, o)
			wantNamed(t, err, c.want, c.word)
			if early := o.Check(); early != nil && early.Error() != err.Error() {
				t.Errorf("Check says %v", early)
			}
			if !bytes.Equal(st, make([]byte, 2<<20)) {
				t.Error("something was written")
			}
		})
	}
}

// Printed in any way, options show neither passphrase nor volume key.
func TestFormatOptionsPrintNoSecret(t *testing.T) {
	o := FormatOptions{Label: "shown", Passphrase: []byte("hunter2"), VolumeKey: bytes.Repeat([]byte{0xa5}, 32)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "% X", "%d"} {
		for _, v := range []any{o, &o, struct{ O FormatOptions }{o}, []FormatOptions{o}} {
			text := strings.ToLower(fmt.Sprintf(verb, v))
			for _, secret := range []string{"hunter2", "68756e74", "68 75 6e", "104 117", "0x68, 0x75", "a5a5", "a5 a5", "165 165", "0xa5, 0xa5"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s of %T prints %s", verb, v, text)
				}
			}
		}
	}
	if text := fmt.Sprintf("%+v", o); !strings.Contains(text, "Label:shown") {
		t.Errorf("prints %s", text)
	}
}

// Where cryptsetup 2.6.1 puts the parts, as its luksDump showed for the same
// options: keyslots area and data offset.
func TestLayout(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	for _, c := range []struct {
		o                FormatOptions
		keyslots, offset int64
	}{
		{FormatOptions{}, 16744448, 16 * mib},
		{FormatOptions{MetadataSize: 4 * mib}, 8388608, 16 * mib},
		{FormatOptions{MetadataSize: 64 * kib}, 16646144, 16 * mib},
		{FormatOptions{KeyslotsSize: mib}, mib, 2 * mib},
		{FormatOptions{KeyslotsSize: 252 * kib}, 258048, mib},
		{FormatOptions{DataOffset: 8 * mib}, 8355840, 8 * mib},
		{FormatOptions{DataOffset: mib}, 1015808, mib},
		{FormatOptions{DataOffset: 1024 * mib}, 128 * mib, 1024 * mib},
		{FormatOptions{DataOffset: mib, KeyslotsSize: 2 * mib}, 1015808, mib},
		{FormatOptions{DataOffset: 4 * mib, KeyslotsSize: mib}, mib, 4 * mib},
		{FormatOptions{KeyslotsSize: 128 * mib}, 128 * mib, 135266304},
		{FormatOptions{DataOffset: 16 * mib, MetadataSize: 4 * mib, KeyslotsSize: 5000 * kib}, 5120000, 16 * mib},
		{FormatOptions{MetadataSize: 4 * mib, KeyslotsSize: 128 * mib}, 128 * mib, 142606336},
	} {
		l, err := c.o.complete()
		if err != nil || l.keyslots != c.keyslots || l.dataOffset != c.offset {
			t.Errorf("%+v: %+v, %v; want %d, %d", c.o, l, err, c.keyslots, c.offset)
		}
	}
}

// Check finds what needs neither KDF nor keys, and accepts the defaults.
func TestFormatOptionsCheck(t *testing.T) {
	if err := (FormatOptions{}).Check(); err != nil {
		t.Error(err)
	}
	for _, o := range []FormatOptions{{Cipher: "x"}, {KeySize: 1}, {Hash: "x"}, {SectorSize: 1}, {UUID: "x"}, {MetadataSize: 1}, {DataSize: 1}} {
		if o.Check() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// With nothing chosen the KDF and the digest are measured.
func TestFormatMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the default KDF's two seconds")
	}
	setMemory(t, 64<<20, "test")
	p, err := Prepare(t.Context(), FormatOptions{Passphrase: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Volume().Close()
	h := p.Volume().Header
	if k := h.Keyslots[0].KDF; k.Type != KDFArgon2id || k.MemoryKiB > 32<<10 || k.Iterations < minArgon2Passes || len(k.Salt) != 32 {
		t.Errorf("KDF %v", k)
	}
	if n := h.Digests[0].KDF.Iterations; n < minDigestIterations {
		t.Errorf("%d digest iterations", n)
	}
	if p.Volume().KDFTime <= 0 {
		t.Error("no KDF time")
	}
}

func TestFormatGivenKey(t *testing.T) {
	o := smallOptions()
	o.VolumeKey = []byte("0123456789abcdef0123456789ABCDEF")
	_, key := formatted(t, o)
	if !bytes.Equal(key, o.VolumeKey) {
		t.Errorf("key %q", key)
	}
}

func TestFormatCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := smallOptions()
	o.KDF.Iterations = 1 << 30
	if _, err := Format(ctx, make(memory, 2<<20), o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The JSON text has what the specification and cryptsetup name, in its types.
func TestFormatJSON(t *testing.T) {
	o := smallOptions()
	o.KDF = KDF{Type: KDFArgon2id, Iterations: 4, MemoryKiB: 33, Threads: 2, Salt: make([]byte, 32)}
	image, _ := formatted(t, o)
	text := string(bytes.TrimRight(image[binarySize:16<<10], "\x00"))
	blank := regexp.MustCompile(`("salt"|"digest"):"[A-Za-z0-9+/=]*"`).ReplaceAllString(text, `$1:""`)
	want := `{"keyslots":{"0":{"type":"luks2","key_size":32,"af":{"type":"luks1","stripes":4000,"hash":"sha256"},` +
		`"area":{"type":"raw","offset":"32768","size":"131072","encryption":"aes-xts-plain64","key_size":32},` +
		`"kdf":{"type":"argon2id","time":4,"memory":33,"cpus":2,"salt":""}}},"tokens":{},` +
		`"segments":{"0":{"type":"crypt","offset":"1048576","size":"dynamic","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512}},` +
		`"digests":{"0":{"type":"pbkdf2","keyslots":["0"],"segments":["0"],"hash":"sha256","iterations":1000,"salt":"","digest":""}},` +
		`"config":{"json_size":"12288","keyslots_size":"131072"}}`
	if blank != want {
		t.Errorf("got  %s\nwant %s", blank, want)
	}
	if n := binary.BigEndian.Uint64(image[offHdrSize:]); n != 16<<10 {
		t.Errorf("hdr_size %d", n)
	}
}
