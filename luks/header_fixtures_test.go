package luks

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// eachHeader calls f with the file of every LUKS fixture that has the header.
func eachHeader(t *testing.T, do func(t *testing.T, f fixture, image []byte, h *Header)) {
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
		file := f.File
		if f.Header != nil {
			file = *f.Header
		}
		if !strings.HasPrefix(f.Type, "luks") || testing.Short() && n > 5 {
			continue
		}
		image := testenv.Unxz(t, filepath.Join(dir, file.File))
		h, err := ReadHeader(bytes.NewReader(image), int64(len(image)))
		if err != nil {
			continue
		}
		n++
		t.Run(f.Name, func(t *testing.T) { do(t, f, image, h) })
	}
	if n < 6 || !testing.Short() && n < 60 {
		t.Errorf("only %d headers", n)
	}
}

// The backup of every fixture's header has the bytes of cryptsetup's.
func TestBackupFixtures(t *testing.T) {
	same := 0
	eachHeader(t, func(t *testing.T, _ fixture, image []byte, h *Header) {
		theirs := filepath.Join(t.TempDir(), "theirs")
		if _, err := cryptsetup(t, "luksHeaderBackup", tempFile(t, image), "--header-backup-file", theirs); err != nil {
			t.Log(err)
			return
		}
		var ours bytes.Buffer
		if err := h.WriteBackup(&ours, bytes.NewReader(image)); err != nil {
			t.Fatal(err)
		}
		want := readFile(t, theirs)
		if len(h.Warnings) > 0 {
			return // cryptsetup repairs the copy first
		}
		if !bytes.Equal(ours.Bytes(), want) {
			t.Errorf("%d bytes differ from cryptsetup's %d", ours.Len(), len(want))
		}
		if _, err := ReadBackup(bytes.NewReader(want), int64(len(want))); err != nil {
			t.Error(err)
		}
		same++
	})
	t.Logf("%d backups are the same", same)
}

// convertedHereOnly are those that cryptsetup's way to move keyslots has no room
// for, or whose ciphers it asks the kernel for.
var convertedHereOnly = []string{"luks1-serpent-xts", "luks2-meta4m", "luks2-offset"}

// Of every fixture's header cryptsetup converts what is converted here, to the
// same header; passphrases stay.
func TestConvertFixtures(t *testing.T) {
	converted := 0
	eachHeader(t, func(t *testing.T, f fixture, image []byte, h *Header) {
		path := tempFile(t, image)
		_, theirs := cryptsetup(t, "convert", "-q", path, "--type", map[int]string{1: "luks2", 2: "luks1"}[h.Version])
		p, err := h.Convert(bytes.NewReader(image), 3-h.Version)
		if (err == nil) != (theirs == nil) && !slices.Contains(convertedHereOnly, f.Name) {
			t.Errorf("%v; cryptsetup: %v", err, theirs)
		}
		if err != nil {
			return
		}
		converted++
		ours := memory(append(slices.Clone(image), make([]byte, max(0, p.Size()-int64(len(image))))...))
		if err := p.Write(t.Context(), ours); err != nil {
			t.Fatal(err)
		}
		now, err := ReadHeader(ours, int64(len(ours)))
		if err != nil || len(now.Warnings) > 0 {
			t.Fatal(err, now)
		}
		if _, err := cryptsetup(t, "luksDump", tempFile(t, ours)); err != nil {
			t.Error(err)
		}
		for _, u := range f.Unlock {
			if u.Keyfile != "" || !u.Opens {
				continue
			}
			v, err := now.Unlock(t.Context(), ours, []byte(u.Passphrase), UnlockOptions{Slot: u.Slot, Policy: Policy{AllowWeak: true}})
			if err != nil {
				t.Errorf("keyslot %d: %v", u.Slot, err)
				continue
			}
			v.Close()
		}
		if theirs == nil {
			b := readFile(t, path)
			other, err := ReadHeader(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			list, err := Diff(now, other, ours, bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range list {
				// With larger metadata cryptsetup moves the keyslots by as much as with the smallest.
				if d.Path != "epoch" && !(h.Size > defaultMetadataSize && d.Path == "keyslots.0.area.offset") {
					t.Errorf("%s: %s, cryptsetup has %s", d.Path, d.A, d.B)
				}
			}
		}
	})
	t.Logf("%d headers converted", converted)
}
