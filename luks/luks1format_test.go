package luks

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// Any valid options give a header that this package reads back as asked and
// that opens with its passphrase and with no other; a pipe gets the same.
func TestLUKS1FormatRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := smallLUKS1()
		o.Cipher = rapid.SampledFrom([]string{"", "aes-xts-plain64", "aes-xts-plain"}).Draw(rt, "cipher")
		o.KeySize = rapid.SampledFrom([]int{0, 32, 64}).Draw(rt, "key size")
		o.Hash = rapid.SampledFrom([]string{"", "sha1", "sha256", "sha512"}).Draw(rt, "hash")
		o.KDF.Hash = rapid.SampledFrom([]string{"", o.Hash}).Draw(rt, "KDF hash")
		o.DataOffset = rapid.SampledFrom([]int64{0, 4040 * 512, 4 << 20, 2<<20 + 4096}).Draw(rt, "data offset")
		o.Passphrase = rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(rt, "passphrase")
		image, key := formatted(t, o)
		h, err := ReadHeader(image, int64(len(image)))
		if err != nil {
			rt.Fatal(err)
		}
		setDefault(&o.Cipher, defaultCipher)
		setDefault(&o.KeySize, defaultKeySize)
		setDefault(&o.DataOffset, 2<<20)
		list, err := h.DataSegments()
		if err != nil || len(list) != 1 || list[0].Cipher != o.Cipher || list[0].Offset != o.DataOffset || list[0].Size != -1 || list[0].SectorSize != 512 {
			rt.Fatalf("%+v: %v", list, err)
		}
		if h.Version != 1 || h.Detached() || len(h.Warnings) != 0 || h.luks1.keyBytes != o.KeySize {
			rt.Fatalf("%+v", h)
		}
		v, err := h.Unlock(t.Context(), image, o.Passphrase, UnlockOptions{Slot: AnySlot})
		if err != nil || !bytes.Equal(v.Key(), key) {
			rt.Fatal(err)
		}
		v.Close()
		_, err = h.Unlock(t.Context(), image, append(bytes.Clone(o.Passphrase), 'x'), UnlockOptions{Slot: AnySlot})
		if !errors.Is(err, ErrWrongPassphrase) {
			rt.Fatalf("another passphrase: %v", err)
		}
	})
}

// Into a pipe goes what Write writes, random bytes of unused areas aside.
func TestLUKS1WriteTo(t *testing.T) {
	p, err := Prepare(t.Context(), smallLUKS1())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Volume().Close()
	var pipe bytes.Buffer
	n, err := p.WriteTo(&pipe)
	if err != nil || n != p.DataOffset() || int64(pipe.Len()) != n {
		t.Fatalf("%d bytes, %d counted, %d wanted: %v", pipe.Len(), n, p.DataOffset(), err)
	}
	image := make(memory, p.DataOffset())
	if err := p.Write(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	got := pipe.Bytes()
	open(t, got, "small")
	for i := 1; i < luks1Slots; i++ {
		off, size := p.luks1.area(i)
		for _, b := range [][]byte{got, image} {
			if err := judgeArea(b[off:off+size], off); !errors.Is(err, ErrWrongPassphrase) {
				t.Errorf("area %d does not look random: %v", i, err)
			}
			clear(b[off : off+size])
		}
	}
	if !bytes.Equal(got, image) {
		t.Error("the pipe got something else than the storage")
	}
	for limit := range 40 {
		if _, err := p.WriteTo(&shortWriter{left: limit * 100_000}); int64(limit)*100_000 < n && err == nil {
			t.Errorf("no error of a pipe that closes after %d bytes", limit*100_000)
		}
	}
}

type shortWriter struct{ left int }

func (w *shortWriter) Write(b []byte) (int, error) {
	n := min(w.left, len(b))
	w.left -= n
	if n < len(b) {
		return n, errFault
	}
	return n, nil
}

// What LUKS1 cannot hold is refused before anything is derived.
func TestLUKS1Options(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*FormatOptions)
		word   string
	}{
		"version 3":          {func(o *FormatOptions) { o.Version = 3 }, "version 3"},
		"sector size":        {func(o *FormatOptions) { o.SectorSize = 4096 }, "sector size 4096"},
		"label":              {func(o *FormatOptions) { o.Label = "x" }, `label "x"`},
		"subsystem":          {func(o *FormatOptions) { o.Subsystem = "x" }, `subsystem "x"`},
		"metadata size":      {func(o *FormatOptions) { o.MetadataSize = 16384 }, "metadata size 16384"},
		"keyslots size":      {func(o *FormatOptions) { o.KeyslotsSize = 1 << 20 }, "keyslots size 1048576"},
		"data in the header": {func(o *FormatOptions) { o.DataOffset = 1<<20 + 4096 - 8192 }, "lies inside the header"},
		"data offset odd":    {func(o *FormatOptions) { o.DataOffset = 4<<20 + 512 }, "multiple of 4096"},
		"data offset large":  {func(o *FormatOptions) { o.DataOffset = 2 << 40 }, "more than LUKS1 can hold"},
		"data offset below":  {func(o *FormatOptions) { o.DataOffset = -4096 }, "multiple of 4096"},
		"argon2id":           {func(o *FormatOptions) { o.KDF = cheapArgon2 }, "KDF argon2id"},
		"two hashes":         {func(o *FormatOptions) { o.KDF.Hash = "sha512" }, `KDF hash "sha512"`},
		"UUID":               {func(o *FormatOptions) { o.UUID = "x" }, `UUID "x"`},
		"digest iterations":  {func(o *FormatOptions) { o.DigestIterations = 999 }, "999 digest iterations"},
	} {
		o := smallLUKS1()
		c.change(&o)
		_, err := Prepare(t.Context(), o)
		if !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: got %v; want ErrOption that names %s", name, err, c.word)
		}
	}
	o := smallLUKS1()
	o.DataSize = 2 << 20
	o.KeySize = 64
	_, err := Prepare(t.Context(), o)
	wantNamed(t, err, ErrSize, "hold no data behind a header of 2097152 bytes")
}

// Without a KDF the costs are measured: of PBKDF2 with the header's hash.
func TestLUKS1DefaultKDF(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the time of the key derivation: 2 s")
	}
	o := FormatOptions{Version: 1, Hash: "sha512", Passphrase: []byte("small")}
	image, _ := formatted(t, o)
	h := open(t, image, "small").Header
	if k := h.Keyslots[0].KDF; k.Type != KDFPBKDF2 || k.Hash != "sha512" || k.Iterations < 10*minPBKDF2Iterations {
		t.Errorf("%+v", k)
	}
	if n := h.Digests[0].KDF.Iterations; n < minDigestIterations {
		t.Errorf("digest of %d iterations", n)
	}
}

func recordLUKS1(t *testing.T, start memory, ignored int) *recorder {
	t.Helper()
	r := newRecorder(start, ignored)
	o := smallLUKS1()
	o.UUID, o.Passphrase = freshUUID, []byte("new")
	v, err := Format(t.Context(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	return r
}

// luks1CrashStarts are what Format may find on the storage.
func luks1CrashStarts(t *testing.T) map[string]memory {
	starts := crashStarts(t)
	o := smallLUKS1()
	o.UUID, o.Passphrase = oldUUID, []byte("old")
	image, _ := formatted(t, o)
	starts["LUKS1"] = append(image, make(memory, 3<<20)...)[:3<<20]
	return starts
}

// A crash at any point of Format leaves no header, the old or the new one,
// each of them whole; and no flush could be left out.
func TestLUKS1FormatCrash(t *testing.T) {
	check := wholeOrNothing(map[string]string{oldUUID: "old", freshUUID: "new"})
	starts := luks1CrashStarts(t)
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			r := recordLUKS1(t, start, -1)
			if err := r.crashes(start, rand.New(rand.NewPCG(1, 2)), check); err != nil {
				t.Error(err)
			}
			if last := r.epochs[len(r.epochs)-1]; len(last) != 0 {
				t.Errorf("%d writes are not flushed at the end", len(last))
			}
			if v := open(t, r.memory, "new"); v.Header.UUID != freshUUID || v.Header.Version != 1 {
				t.Errorf("LUKS%d with UUID %s", v.Header.Version, v.Header.UUID)
			}
		})
	}
	for ignored := range recordLUKS1(t, starts["empty"], -1).flushes {
		seen := false
		for _, start := range starts {
			r := recordLUKS1(t, start, ignored)
			seen = seen || r.crashes(start, rand.New(rand.NewPCG(3, 4)), check) != nil || len(r.epochs[len(r.epochs)-1]) > 0
		}
		if !seen {
			t.Errorf("without flush %d every crash is survived", ignored)
		}
	}
}

// A LUKS2 volume may take the place of a LUKS1 one, too.
func TestLUKS2OverLUKS1Crash(t *testing.T) {
	start := luks1CrashStarts(t)["LUKS1"]
	r := recordFormat(t, start, -1)
	check := wholeOrNothing(map[string]string{oldUUID: "old", freshUUID: "new"})
	if err := r.crashes(start, rand.New(rand.NewPCG(5, 6)), check); err != nil {
		t.Error(err)
	}
}

// A storage that fails at any call makes Format fail.
func TestLUKS1FormatReportsErrors(t *testing.T) {
	clean := recordLUKS1(t, make(memory, 2<<20), -1)
	calls := clean.flushes
	for _, e := range clean.epochs {
		calls += len(e)
	}
	for n := range calls {
		st := &faulty{memory: make(memory, 2<<20), left: n}
		if _, err := Format(t.Context(), st, smallLUKS1()); !errors.Is(err, errFault) {
			t.Errorf("call %d fails: %v", n, err)
		}
	}
}

// The layout is the one that cryptsetup chooses for the same options, and each
// opens what the other made, with the same volume key.
func TestLUKS1LikeCryptsetup(t *testing.T) {
	testenv.Tool(t, "cryptsetup")
	for _, c := range []struct {
		args    string
		options FormatOptions
	}{
		{"", FormatOptions{}},
		{"--key-size 256", FormatOptions{KeySize: 32}},
		{"--hash sha1", FormatOptions{Hash: "sha1"}},
		{"--hash sha512 --key-size 256", FormatOptions{Hash: "sha512", KeySize: 32}},
		{"--hash whirlpool", FormatOptions{Hash: "whirlpool"}},
		{"--hash ripemd160", FormatOptions{Hash: "ripemd160"}},
		{"--offset 8192", FormatOptions{DataOffset: 4 << 20}},
		{"--offset 4040", FormatOptions{DataOffset: 4040 * 512}},
		{"--align-payload 8", FormatOptions{DataOffset: 4040 * 512}},
		{"--uuid 01234567-89ab-cdef-0123-456789abcdef", FormatOptions{UUID: "01234567-89ab-cdef-0123-456789abcdef"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			path, pass := tempFile(t, make([]byte, 8<<20)), tempFile(t, []byte("shared"))
			args := []string{"luksFormat", "-q", "--type", "luks1", "--key-file", pass, "--pbkdf-force-iterations", "1000"}
			if _, err := cryptsetup(t, append(append(args, strings.Fields(c.args)...), path)...); err != nil {
				t.Fatal(err)
			}
			theirs, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			v := open(t, theirs, "shared")
			if want := dumpVolumeKey(t, path, pass); !bytes.Equal(v.Key(), want) {
				t.Errorf("key %x; cryptsetup has %x", v.Key(), want)
			}

			o := c.options
			o.Version, o.KDF, o.DigestIterations, o.Passphrase = 1, KDF{Type: KDFPBKDF2, Iterations: 1000}, 1000, []byte("shared")
			ours, key := formatted(t, o)
			path = tempFile(t, ours)
			if _, err := cryptsetup(t, "open", "--test-passphrase", "--key-file", pass, path); err != nil {
				t.Error(err)
			}
			if got := dumpVolumeKey(t, path, pass); !bytes.Equal(got, key) {
				t.Errorf("cryptsetup finds the key %x, not %x", got, key)
			}
			if a, b := layout1(theirs), layout1(ours); a != b {
				t.Errorf("cryptsetup has\n%s\nwe have\n%s", a, b)
			}
		})
	}
}

// layout1 is what a LUKS1 header has that is not random.
func layout1(image []byte) string {
	b := slices.Clone(image[:luks1Size])
	clear(b[off1Digest:off1DigestIterations])
	if !bytes.HasPrefix(b[off1UUID:], []byte("01234567")) {
		clear(b[off1UUID:off1Slots])
	}
	for i := range luks1Slots {
		clear(b[slot1(i, off1SlotSalt):slot1(i, off1SlotMaterial)])
	}
	return fmt.Sprintf("%x\n%x", b, image[luks1Size:4096])
}

// Format refuses what cryptsetup refuses.
func TestLUKS1OptionsLikeCryptsetup(t *testing.T) {
	testenv.Tool(t, "cryptsetup")
	for _, c := range []struct {
		args    string
		options FormatOptions
	}{
		{"--offset 4032", FormatOptions{DataOffset: 4032 * 512}},
		{"--offset 4041", FormatOptions{DataOffset: 4041 * 512}},
		{"--offset 8", FormatOptions{DataOffset: 8 * 512}},
		{"--sector-size 4096", FormatOptions{SectorSize: 4096}},
		{"--luks2-metadata-size 32k", FormatOptions{MetadataSize: 32 << 10}},
		{"--luks2-keyslots-size 1m", FormatOptions{KeyslotsSize: 1 << 20}},
		{"--uuid 1234", FormatOptions{UUID: "1234"}},
		{"--hash md4711", FormatOptions{Hash: "md4711"}},
		{"--key-size 384", FormatOptions{KeySize: 48}},
	} {
		path, pass := tempFile(t, make([]byte, 8<<20)), tempFile(t, []byte("x"))
		args := []string{"luksFormat", "-q", "--type", "luks1", "--key-file", pass, "--pbkdf-force-iterations", "1000"}
		if out, err := cryptsetup(t, append(append(args, strings.Fields(c.args)...), path)...); err == nil {
			t.Errorf("%s: cryptsetup takes it: %s", c.args, out)
		}
		c.options.Version = 1
		if err := c.options.Check(); err == nil {
			t.Errorf("%s: taken", c.args)
		}
	}
}
