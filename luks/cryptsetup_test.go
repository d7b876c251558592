package luks

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// cryptsetup runs the program; it reads key files only, no prompt.
func cryptsetup(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(testenv.Tool(t, "cryptsetup"), args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("cryptsetup %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// formatVariants are options of Format, each with a line that luksDump then
// prints.
var formatVariants = []struct {
	name   string
	change func(o *FormatOptions)
	dump   string
}{
	{"small", func(o *FormatOptions) {}, "Keyslots area: 131072 [bytes]"},
	{"defaults", func(o *FormatOptions) { o.KeySize, o.KeyslotsSize = 0, 0 }, "Keyslots area: 16744448 [bytes]"},
	{"argon2id", func(o *FormatOptions) { o.KDF = cheapArgon2 }, "PBKDF: argon2id"},
	{"argon2i two threads", func(o *FormatOptions) { o.KDF = KDF{Type: KDFArgon2i, Iterations: 5, MemoryKiB: 67, Threads: 2} }, "PBKDF: argon2i"},
	{"argon2id four threads", func(o *FormatOptions) {
		o.KDF = KDF{Type: KDFArgon2id, Iterations: 4, MemoryKiB: 1024, Threads: 4}
	}, "Threads: 4"},
	{"pbkdf2 sha1", func(o *FormatOptions) { o.KDF.Hash, o.Hash = "sha1", "sha1" }, "AF hash: sha1"},
	{"pbkdf2 sha512", func(o *FormatOptions) { o.KDF.Hash, o.Hash = "sha512", "sha512" }, "AF hash: sha512"},
	{"sha384", func(o *FormatOptions) { o.KDF.Hash, o.Hash = "sha384", "sha384" }, "AF hash: sha384"},
	{"sha3-256", func(o *FormatOptions) { o.KDF.Hash, o.Hash = "sha3-256", "sha3-256" }, "AF hash: sha3-256"},
	{"blake2b", func(o *FormatOptions) { o.KDF.Hash, o.Hash = "blake2b-512", "blake2b-512" }, "AF hash: blake2b-512"},
	{"blake2s", func(o *FormatOptions) { o.KDF.Hash, o.Hash = "blake2s-256", "blake2s-256" }, "AF hash: blake2s-256"},
	{"512-bit key", func(o *FormatOptions) { o.KeySize, o.KeyslotsSize = 64, areaSize(64) }, "Cipher key: 512 bits"},
	{"sector 1024", func(o *FormatOptions) { o.SectorSize = 1024 }, "sector: 1024 [bytes]"},
	{"sector 2048", func(o *FormatOptions) { o.SectorSize = 2048 }, "sector: 2048 [bytes]"},
	{"sector 4096", func(o *FormatOptions) { o.SectorSize = 4096 }, "sector: 4096 [bytes]"},
	{"metadata 64 KiB", func(o *FormatOptions) { o.MetadataSize = 64 << 10 }, "Metadata area: 65536 [bytes]"},
	{"metadata 4 MiB", func(o *FormatOptions) { o.MetadataSize = 4 << 20 }, "Metadata area: 4194304 [bytes]"},
	{"data offset", func(o *FormatOptions) { o.DataOffset, o.KeyslotsSize = 3<<20+4096, 0 }, "offset: 3149824 [bytes]"},
	{"names", func(o *FormatOptions) {
		o.Label, o.Subsystem = strings.Repeat("L", 47), "sub/system"
		o.UUID = "01234567-89AB-cdef-0123-456789abcdef"
	}, "UUID: 01234567-89ab-cdef-0123-456789abcdef"},
	{"keyslot cipher", func(o *FormatOptions) { o.KeyslotCipher, o.KeyslotKeySize = "aes-cbc-essiv:sha256", 32 }, "Cipher: aes-cbc-essiv:sha256"},
	{"keyslot key size", func(o *FormatOptions) { o.KeyslotKeySize = 64 }, "Cipher key: 512 bits"},
	{"plain", func(o *FormatOptions) { o.Cipher = "aes-xts-plain" }, "cipher: aes-xts-plain"},
	{"plain64be", func(o *FormatOptions) { o.Cipher = "aes-xts-plain64be" }, "cipher: aes-xts-plain64be"},
	{"empty passphrase", func(o *FormatOptions) { o.Passphrase = nil }, "Epoch: 1"},
	{"binary passphrase", func(o *FormatOptions) { o.Passphrase = []byte("a\x00b\nc\n") }, "Epoch: 1"},
}

// cryptsetup dumps what Format makes, opens it, and finds the same volume key.
func TestFormatForCryptsetup(t *testing.T) {
	testenv.Tool(t, "cryptsetup")
	for _, c := range formatVariants {
		t.Run(c.name, func(t *testing.T) {
			o := smallOptions()
			c.change(&o)
			image, key := formatted(t, o)
			path, pass := tempFile(t, image), tempFile(t, o.Passphrase)
			dump, err := cryptsetup(t, "luksDump", path)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(strings.Split(dump, "\n"), func(l string) bool { return strings.Join(strings.Fields(l), " ") == c.dump }) {
				t.Errorf("luksDump has no line %q:\n%s", c.dump, dump)
			}
			if o.Cipher != "" && o.Cipher != defaultCipher {
				return // its user-space code has no other IV
			}
			if _, err := cryptsetup(t, "open", "--test-passphrase", "--key-file", pass, path); err != nil {
				t.Error(err)
			}
			if got := dumpVolumeKey(t, path, pass); !bytes.Equal(got, key) {
				t.Errorf("cryptsetup finds the key %x, not %x", got, key)
			}
		})
	}
}

func dumpVolumeKey(t *testing.T, path, pass string) []byte {
	t.Helper()
	out := tempFile(t, nil) + ".key"
	if _, err := cryptsetup(t, "luksDump", "-q", "--dump-volume-key", "--volume-key-file", out, "--key-file", pass, path); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// What cryptsetup formats opens here with the same volume key, and the layout
// that Format would have chosen for the same options is the same.
func TestUnlockFromCryptsetup(t *testing.T) {
	testenv.Tool(t, "cryptsetup")
	cheap := []string{"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"}
	for _, c := range []struct {
		args   string
		layout FormatOptions
	}{
		{"--key-size 512", FormatOptions{}},
		{"--key-size 256 --hash sha1", FormatOptions{KeySize: 32}},
		{"--hash sha224", FormatOptions{}},
		{"--hash sha3-512", FormatOptions{}},
		{"--pbkdf argon2id --pbkdf-memory 32 --pbkdf-force-iterations 4 --pbkdf-parallel 1", FormatOptions{}},
		{"--pbkdf argon2id --pbkdf-memory 999 --pbkdf-force-iterations 6 --pbkdf-parallel 2 --hash sha512", FormatOptions{}},
		{"--pbkdf argon2i --pbkdf-memory 40 --pbkdf-force-iterations 4 --pbkdf-parallel 1", FormatOptions{}},
		{"--sector-size 2048", FormatOptions{}},
		{"--luks2-metadata-size 32k", FormatOptions{MetadataSize: 32 << 10}},
		{"--luks2-metadata-size 4m", FormatOptions{MetadataSize: 4 << 20}},
		{"--luks2-keyslots-size 1m", FormatOptions{KeyslotsSize: 1 << 20}},
		{"--luks2-keyslots-size 252k", FormatOptions{KeyslotsSize: 252 << 10}},
		{"--luks2-keyslots-size 5000k --luks2-metadata-size 1m", FormatOptions{KeyslotsSize: 5000 << 10, MetadataSize: 1 << 20}},
		{"--offset 2048", FormatOptions{DataOffset: 1 << 20}},
		{"--offset 40000", FormatOptions{DataOffset: 40000 * 512}},
		{"--offset 2048 --luks2-keyslots-size 2m", FormatOptions{DataOffset: 1 << 20, KeyslotsSize: 2 << 20}},
		{"--offset 8192 --luks2-keyslots-size 1m", FormatOptions{DataOffset: 4 << 20, KeyslotsSize: 1 << 20}},
		{"--offset 409600", FormatOptions{DataOffset: 200 << 20}},
		{"--luks2-keyslots-size 128m", FormatOptions{KeyslotsSize: 128 << 20}},
	} {
		t.Run(c.args, func(t *testing.T) {
			path, pass := tempFile(t, nil), tempFile(t, []byte("from cryptsetup"))
			if err := os.Truncate(path, 256<<20); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"luksFormat", "-q", "--type", "luks2", "--key-file", pass}, cheap...)
			if strings.Contains(c.args, "--pbkdf ") {
				args = args[:len(args)-len(cheap)]
			}
			if _, err := cryptsetup(t, append(append(args, strings.Fields(c.args)...), path)...); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			h, err := ReadHeader(f, 256<<20)
			if err != nil {
				t.Fatal(err)
			}
			v, err := h.Unlock(t.Context(), f, []byte("from cryptsetup"), UnlockOptions{Slot: AnySlot})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			if want := dumpVolumeKey(t, path, pass); !bytes.Equal(v.Key(), want) {
				t.Errorf("key %x; cryptsetup has %x", v.Key(), want)
			}
			l, err := c.layout.complete()
			if err != nil {
				t.Fatal(err)
			}
			theirs := layout{metadata: h.Size, keyslots: h.Config.KeyslotsSize, dataOffset: h.Segments[0].Offset}
			if l != theirs {
				t.Errorf("layout %+v; cryptsetup has %+v", l, theirs)
			}
			if a := h.Keyslots[0].Area; a.Size != areaSize(h.Keyslots[0].KeySize) {
				t.Errorf("area of %d bytes for %d-byte keys", a.Size, a.KeySize)
			}
		})
	}
}

// Format refuses what cryptsetup refuses.
func TestOptionsLikeCryptsetup(t *testing.T) {
	testenv.Tool(t, "cryptsetup")
	for _, c := range []struct {
		args   string
		layout FormatOptions
	}{
		{"--luks2-metadata-size 20k", FormatOptions{MetadataSize: 20 << 10}},
		{"--luks2-metadata-size 8m", FormatOptions{MetadataSize: 8 << 20}},
		{"--luks2-keyslots-size 129m", FormatOptions{KeyslotsSize: 129 << 20}},
		{"--luks2-keyslots-size 1026k", FormatOptions{KeyslotsSize: 1026 << 10}},
		{"--luks2-keyslots-size 100k", FormatOptions{KeyslotsSize: 100 << 10}},
		{"--offset 513", FormatOptions{DataOffset: 513 * 512}},
		{"--offset 512", FormatOptions{DataOffset: 512 * 512}},
		{"--offset 8", FormatOptions{DataOffset: 8 * 512}},
		{"--sector-size 8192", FormatOptions{SectorSize: 8192}},
		{"--sector-size 1000", FormatOptions{SectorSize: 1000}},
		{"--uuid 1234", FormatOptions{UUID: "1234"}},
		{"--hash md4711", FormatOptions{Hash: "md4711"}},
		{"--key-size 384", FormatOptions{KeySize: 48}},
	} {
		t.Run(c.args, func(t *testing.T) {
			path, pass := tempFile(t, nil), tempFile(t, []byte("x"))
			if err := os.Truncate(path, 200<<20); err != nil {
				t.Fatal(err)
			}
			args := []string{"luksFormat", "-q", "--type", "luks2", "--key-file", pass, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"}
			if out, err := cryptsetup(t, append(append(args, strings.Fields(c.args)...), path)...); err == nil {
				t.Errorf("cryptsetup takes it: %s", out)
			}
			if _, err := c.layout.complete(); err == nil {
				t.Error("taken")
			}
		})
	}
}

// What cryptsetup's own key operations leave opens here: keyslots added,
// changed, killed, unbound, with priorities.
func TestAfterCryptsetupKeyOperations(t *testing.T) {
	o := smallOptions()
	o.KeyslotsSize = 8 * areaSize(32)
	image, key := formatted(t, o)
	path, first := tempFile(t, image), tempFile(t, o.Passphrase)
	second, third := tempFile(t, []byte("second")), tempFile(t, []byte("third"))
	for _, command := range [][]string{
		{"luksAddKey", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", first, path, second},
		{"luksChangeKey", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", first, "--key-slot", "0", path, third},
		{"luksAddKey", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--unbound", "--key-size", "256", "--key-slot", "5", path, first},
		{"config", "--label", "renamed", path},
	} {
		if _, err := cryptsetup(t, append(command, "-q")...); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := ReadHeader(f, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	if h.Label != "renamed" || len(h.Warnings) != 0 || len(h.Keyslots) != 3 {
		t.Errorf("label %q, warnings %q, %d keyslots", h.Label, h.Warnings, len(h.Keyslots))
	}
	for pass, slot := range map[string]int{"third": 0, "second": 1} {
		v, err := h.Unlock(t.Context(), f, []byte(pass), UnlockOptions{Slot: AnySlot})
		if err != nil {
			t.Fatalf("%s: %v", pass, err)
		}
		if v.Slot != slot || !bytes.Equal(v.Key(), key) {
			t.Errorf("%s opens slot %d with key %x; want slot %d, %x", pass, v.Slot, v.Key(), slot, key)
		}
		v.Close()
	}
	if _, err := h.Unlock(t.Context(), f, o.Passphrase, UnlockOptions{Slot: AnySlot}); err == nil {
		t.Error("the changed passphrase still opens")
	}
	v, err := h.Unlock(t.Context(), f, o.Passphrase, UnlockOptions{Slot: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if !v.Unbound {
		t.Error("keyslot 5 is not unbound")
	}
}
