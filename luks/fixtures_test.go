package luks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// fixture is an entry of the manifest of volumes made by cryptsetup.
type fixture struct {
	Name   string
	Type   string
	File   imageFile
	Header *imageFile
	Unlock []struct {
		Slot       int
		Passphrase string
		Keyfile    string
		Offset     int
		Size       int
		Opens      bool
		NeedsSlot  bool `json:"needs_slot"`
		Unbound    bool
		AlsoSlots  []int `json:"also_slots"`
	}
	VolumeKey string `json:"volume_key_hex"`
}

type imageFile struct {
	File   string
	SHA256 string
}

// laterData are those whose key opens, and whose data is named unsupported.
var laterData = map[string]string{
	"luks2-int-chacha":            "chacha20",
	"luks2-int-dirty-journal":     "aead",
	"luks2-int-gcm-plain64":       "aes-gcm-plain64",
	"luks2-int-gcm-random":        "aes-gcm-random",
	"luks2-int-gcm-random-512":    "aes-gcm-random",
	"luks2-int-hmac-plain64-4096": "hmac(sha256)",
	"luks2-int-hmac-random":       "hmac(sha256)",
	"luks2-int-nojournal":         "aes-gcm-random",
}

// Every LUKS2 volume of the fixtures: passphrases and key files that open give
// the recorded volume key, the others give ErrWrongPassphrase, and data that
// cannot be opened is named.
func TestFixtures(t *testing.T) {
	dir := testenv.Data(t, "fixtures")
	raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Fixtures []fixture }
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range manifest.Fixtures {
		if f.Type != "luks2" {
			continue
		}
		n++
		t.Run(f.Name, func(t *testing.T) { f.test(t, dir) })
	}
	if n < 60 {
		t.Errorf("only %d LUKS2 fixtures", n)
	}
}

func (f *fixture) test(t *testing.T, dir string) {
	file := f.File
	if f.Header != nil {
		file = *f.Header
	}
	image := testenv.Unxz(t, filepath.Join(dir, file.File))
	if sum := sha256.Sum256(image); hex.EncodeToString(sum[:]) != file.SHA256 {
		t.Fatalf("%s is not the recorded file", file.File)
	}
	r := bytes.NewReader(image)
	h, err := ReadHeader(r, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	f.compareDump(t, h, dir)
	var p Policy
	if f.Name == "luks2-null" || f.Name == "luks2-lrw-benbi" {
		_, err := h.Unlock(t.Context(), r, []byte(f.Unlock[0].Passphrase), UnlockOptions{Slot: AnySlot})
		wantNamed(t, err, ErrPolicy, "segment 0: cipher")
		p.AllowWeak = true
	}
	if word, ok := laterData[f.Name]; ok {
		_, err := h.DataSegments()
		wantNamed(t, err, ErrUnsupported, word)
	} else if _, err := h.DataSegments(); err != nil {
		t.Errorf("data: %v", err)
	}
	for _, u := range f.Unlock {
		pass := []byte(u.Passphrase)
		if u.Keyfile != "" {
			all, err := os.ReadFile(filepath.Join(dir, "keys", u.Keyfile))
			if err != nil {
				t.Fatal(err)
			}
			pass = all[u.Offset:]
			if u.Size > 0 {
				pass = pass[:u.Size]
			}
		}
		v, err := h.Unlock(t.Context(), r, pass, UnlockOptions{Slot: AnySlot, Policy: p})
		if !u.Opens {
			wantNamed(t, err, ErrWrongPassphrase, "keyslot")
			if !u.NeedsSlot && !u.Unbound {
				continue
			}
			v, err = h.Unlock(t.Context(), r, pass, UnlockOptions{Slot: u.Slot})
		}
		if err != nil {
			t.Errorf("slot %d: %v", u.Slot, err)
			continue
		}
		f.checkVolume(t, v, u.Slot, u.AlsoSlots, u.Unbound)
	}
}

func (f *fixture) checkVolume(t *testing.T, v *Volume, slot int, also []int, unbound bool) {
	t.Helper()
	defer v.Close()
	if v.Slot != slot && len(also) == 0 {
		t.Errorf("slot %d opened, not %d", v.Slot, slot)
	}
	if v.Unbound != unbound {
		t.Errorf("slot %d: unbound %v", slot, v.Unbound)
	}
	if unbound {
		if _, err := v.Segments(); !errors.Is(err, ErrPolicy) {
			t.Errorf("data of an unbound key: %v", err)
		}
		return
	}
	if _, later := laterData[f.Name]; !later {
		if _, err := v.Segments(); err != nil {
			t.Errorf("slot %d: data: %v", slot, err)
		}
	}
	if want := f.VolumeKey; want != "" && hex.EncodeToString(v.Key()) != want {
		t.Errorf("slot %d: volume key %x, not %s", slot, v.Key(), want)
	}
	w, err := v.Header.UnlockWithKey(t.Context(), v.Key(), Policy{AllowWeak: true})
	if err != nil {
		t.Fatalf("with the key itself: %v", err)
	}
	w.Close()
}

// compareDump holds Summary against what cryptsetup printed: every line of its
// dump, spaces aside, in the same order. What only our text has is allowed.
func (f *fixture) compareDump(t *testing.T, h *Header, dir string) {
	t.Helper()
	dump, err := os.ReadFile(filepath.Join(dir, "dumps", f.Name+".dump.txt"))
	if err != nil {
		t.Fatal(err)
	}
	squeeze := strings.NewReplacer(" ", "", "\t", "").Replace
	ours := strings.Split(squeeze(h.Summary()), "\n")
	for _, line := range strings.Split(squeeze(string(dump)), "\n") {
		if line == "" || strings.HasPrefix(line, "Keydescription:") {
			continue
		}
		i := slices.Index(ours, line)
		if i < 0 {
			t.Errorf("dump: no line %q in what is left of the summary", line)
			return
		}
		ours = ours[i+1:]
	}
}
