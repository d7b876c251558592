package volume

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/luks"
)

// fixture is an entry of the manifest of volumes made by cryptsetup and
// dm-crypt.
type fixture struct {
	Name, Type string
	File       struct{ File string }
	Header     *struct{ File string }
	Unlock     []struct {
		Slot       int
		Passphrase *string
		Keyfile    string
		Offset     int64
		Size       int
		Opens      bool
		NeedsSlot  bool `json:"needs_slot"`
		Unbound    bool
	}
	OpenArgs      []string `json:"open_args"`
	PayloadSha256 string   `json:"payload_sha256"`
	PayloadLen    int64    `json:"payload_len"`
}

func fixtures(t *testing.T) []fixture {
	t.Helper()
	b := read(t, testenv.Data(t, "fixtures/manifest.json"))
	var m struct{ Fixtures []fixture }
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m.Fixtures
}

// secret is the passphrase or the part of the key file of unlock entry i.
func (f fixture) secret(t *testing.T, i int) []byte {
	t.Helper()
	u := f.Unlock[i]
	if u.Passphrase != nil {
		return []byte(*u.Passphrase)
	}
	b := read(t, testenv.Data(t, "fixtures/keys/"+u.Keyfile))[u.Offset:]
	if u.Size > 0 {
		b = b[:u.Size]
	}
	return b
}

// arg is the value of an option of cryptsetup; has tells of one without value.
func (f fixture) arg(name string) string {
	if i := slices.Index(f.OpenArgs, name); i >= 0 {
		return f.OpenArgs[i+1]
	}
	return ""
}

func (f fixture) number(name string) int64 {
	n, _ := strconv.ParseInt(f.arg(name), 10, 64)
	return n
}

// plain translates the options: offset and skip count 512-byte sectors, a key
// file is used raw, a passphrase is hashed.
func (f fixture) plain(t *testing.T) *PlainOptions {
	t.Helper()
	hash := f.arg("--hash")
	if f.Unlock[0].Keyfile != "" {
		hash = "plain"
	}
	key, err := PlainKey(f.secret(t, 0), hash, int(f.number("--key-size")/8))
	if err != nil {
		t.Fatal(err)
	}
	return &PlainOptions{
		Cipher:         f.arg("--cipher"),
		Key:            key,
		SectorSize:     int(max(512, f.number("--sector-size"))),
		IVLargeSectors: slices.Contains(f.OpenArgs, "--iv-large-sectors"),
		Offset:         f.number("--offset") * 512,
		Skip:           f.number("--skip") * 512,
	}
}

func TestFixturesPlain(t *testing.T) {
	tried := 0
	for _, f := range fixtures(t) {
		if f.Type != "plain" {
			continue
		}
		tried++
		path := write(t, "volume", testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.File.File)))
		out := path + ".plain"
		p := f.plain(t)
		if _, err := Decrypt(t.Context(), DecryptOptions{Src: path, Dst: out, Open: OpenOptions{Plain: p}}); err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		plaintext := read(t, out)
		if sum(plaintext) != f.PayloadSha256 {
			t.Errorf("%s: another plaintext of %d bytes, want %d", f.Name, len(plaintext), f.PayloadLen)
		}
		// And the way back gives the same volume, from its offset on.
		if _, err := Encrypt(t.Context(), EncryptOptions{Src: out, Dst: path + ".2", Plain: p}); err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		equal(t, f.Name, read(t, path+".2")[p.Offset:], read(t, path)[p.Offset:])
	}
	if tried != 4 {
		t.Errorf("%d plain images in the manifest, want 4", tried)
	}
}

// Asking for a plain volume where a LUKS header lies is a mistake.
func TestPlainOnLuks(t *testing.T) {
	data := noise(1, mib)
	src := write(t, "src", data)
	volume, _ := roundTrip(t, src, EncryptOptions{Luks: cheap()}, unlockIt())
	p := plainOf(512)
	for _, offset := range []int64{0, 512, 160 << 10} {
		p.Offset = offset
		o := OpenOptions{Plain: p}
		_, err := Open(t.Context(), volume, o)
		if !errors.Is(err, ErrIsLUKS) || !strings.Contains(err.Error(), "luks2") || !strings.Contains(err.Error(), volume) {
			t.Errorf("open at %d: %v", offset, err)
		}
		if _, err := Decrypt(t.Context(), DecryptOptions{Src: volume, Dst: volume + ".out", Open: o}); !errors.Is(err, ErrIsLUKS) {
			t.Errorf("decrypt at %d: %v", offset, err)
		}
		only(t, filepath.Dir(volume), "volume", "plain")
		o.Force = true
		v, err := Open(t.Context(), volume, o)
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "LUKS header") {
			t.Errorf("warnings: %q", v.Warnings)
		}
		v.Close()
	}
	if _, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: volume, Plain: plainOf(512)}); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "luks2") {
		t.Errorf("a plain volume over a LUKS volume: %v", err)
	}

	// At an offset inside, as in a partition.
	inside := write(t, "disk", append(make([]byte, 4096), read(t, volume)...))
	p.Offset = 4096
	if _, err := Open(t.Context(), inside, OpenOptions{Plain: p}); !errors.Is(err, ErrIsLUKS) || !strings.Contains(err.Error(), "byte 4096") {
		t.Errorf("a LUKS volume at the offset: %v", err)
	}
}

// A header that cryptsetup made for data in another file is not taken for the
// volume.
func TestFixtureDetachedHeaderAlone(t *testing.T) {
	tried := 0
	for _, f := range fixtures(t) {
		if f.Type != "luks2" || f.Header == nil || f.Name != "luks2-detached" {
			continue
		}
		tried++
		header := write(t, "header", testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.Header.File)))
		_, err := Decrypt(t.Context(), DecryptOptions{
			Src: header, Dst: header + ".plain",
			Open: OpenOptions{Passphrase: f.secret(t, 0), Slot: luks.AnySlot},
		})
		if !errors.Is(err, ErrDetached) {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	if tried == 0 {
		t.Error("no such fixture")
	}
}
