package luks

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// smallLUKS1 are options of a LUKS1 volume that costs next to nothing.
func smallLUKS1() FormatOptions {
	return FormatOptions{Version: 1, KeySize: 32, KDF: cheapKDF, DigestIterations: minDigestIterations, Passphrase: []byte("small")}
}

// allowAll opens what old volumes have.
var allowAll = UnlockOptions{Slot: AnySlot, Policy: Policy{AllowWeak: true}}

// Every LUKS1 volume of the fixtures: what opens gives the recorded volume key
// from the recorded keyslot, what does not gives ErrWrongPassphrase.
func TestLUKS1Fixtures(t *testing.T) {
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
		if f.Type != "luks1" {
			continue
		}
		n++
		t.Run(f.Name, func(t *testing.T) { f.testLUKS1(t, dir) })
	}
	if n != 10 {
		t.Errorf("%d LUKS1 fixtures, want 10", n)
	}
}

func (f *fixture) testLUKS1(t *testing.T, dir string) {
	file := f.File
	if f.Header != nil {
		file = *f.Header
	}
	image := memory(testenv.Unxz(t, filepath.Join(dir, file.File)))
	h, err := ReadHeader(image, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	if h.Version != 1 || h.Detached() != (f.Header != nil) {
		t.Errorf("version %d, detached %v", h.Version, h.Detached())
	}
	if _, err := h.DataSegments(); err != nil {
		t.Errorf("data: %v", err)
	}
	for _, u := range f.Unlock {
		v, err := h.Unlock(t.Context(), image, []byte(u.Passphrase), allowAll)
		if !u.Opens {
			wantNamed(t, err, ErrWrongPassphrase, "keyslot")
			continue
		}
		if err != nil {
			t.Errorf("slot %d: %v", u.Slot, err)
			continue
		}
		if v.Slot != u.Slot || hex.EncodeToString(v.Key()) != f.VolumeKey {
			t.Errorf("slot %d opened with key %x; want %d, %s", v.Slot, v.Key(), u.Slot, f.VolumeKey)
		}
		w, err := v.Header.UnlockWithKey(t.Context(), v.Key(), allowAll.Policy)
		if err != nil {
			t.Fatalf("with the key itself: %v", err)
		}
		w.Close()
		v.Close()
	}
}

// A LUKS1 header that cryptsetup made, with the volume key that it told.
func TestLUKS1Golden(t *testing.T) {
	image := goldenImage(t, "cryptsetup-2.6.1-luks1.img.gz")
	v := open(t, image, "golden")
	if got := hex.EncodeToString(v.Key()); got != "6f8225df5bfcd7a631b1d85afc0b2349" {
		t.Errorf("volume key %s", got)
	}
	want := Segment{Type: "crypt", Offset: 1 << 20, Size: -1, Cipher: "aes-cbc-essiv:sha256", SectorSize: 512}
	if list, err := v.Segments(); err != nil || len(list) != 1 || fmt.Sprint(list[0]) != fmt.Sprint(want) {
		t.Errorf("segments %+v: %v", list, err)
	}
	if h := v.Header; h.UUID != "064fe3e8-ab2f-42c9-99e8-54466ba09749" || h.Keyslots[0].KDF.String() != "pbkdf2-sha1, 1000 iterations" || len(h.Warnings) != 0 {
		t.Errorf("UUID %s, %s, warnings %q", h.UUID, h.Keyslots[0].KDF, h.Warnings)
	}
	_, err := v.Header.Unlock(t.Context(), memory(image), []byte("golden\n"), UnlockOptions{Slot: AnySlot})
	wantNamed(t, err, ErrWrongPassphrase, "keyslot 0")
}

// luks1Peers are the LUKS1 volumes of cryptsetup's own tests.
func luks1Peers(t *testing.T) (images map[string]memory, passphrase func(name string) []byte) {
	t.Helper()
	images = peerImages(t, "luks1-images.tar.xz")
	keyfile := images["luks1-images/keyfile1"]
	for name := range images {
		if !strings.HasSuffix(name, ".img") {
			delete(images, name)
		}
	}
	for _, name := range []string{"compatimage.img.xz", "compatv10image.img.xz"} {
		images[name] = peerImages(t, name)[name]
	}
	return images, func(name string) []byte {
		if strings.HasPrefix(name, "compat") {
			return []byte("compatkey")
		}
		return keyfile
	}
}

// Every LUKS1 image of cryptsetup's own tests opens, and no other passphrase
// opens it.
func TestLUKS1Peers(t *testing.T) {
	images, passphrase := luks1Peers(t)
	if len(images) != 14 {
		t.Errorf("%d images, want 14", len(images))
	}
	for name, image := range images {
		t.Run(name, func(t *testing.T) {
			h, err := ReadHeader(image, int64(len(image)))
			if err != nil {
				t.Fatal(err)
			}
			pass := passphrase(name)
			v, err := h.Unlock(t.Context(), image, pass, allowAll)
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			if list, err := v.Segments(); err != nil || len(list) != 1 {
				t.Errorf("segments %+v: %v", list, err)
			}
			// The makers took zeros for the encrypted split of most of them.
			want := ErrKeyslotDamaged
			if strings.HasPrefix(name, "compat") {
				want = ErrWrongPassphrase
			}
			_, err = h.Unlock(t.Context(), image, pass[1:], allowAll)
			wantNamed(t, err, want, "keyslot")
		})
	}
}

// cryptsetup's own headers that attack: each is refused, with its keyslot.
func TestLUKS1Evil(t *testing.T) {
	for name, word := range map[string]string{
		"evil_hdr-keyslot_overlap.xz":     "overlaps that of keyslot",
		"evil_hdr-luks_hdr_damage.xz":     "keyslot 2: its area at offset 512 lies in the header",
		"evil_hdr-payload_overwrite.xz":   "keyslot 3: its area of 128000 bytes at offset 1969664 overlaps the data",
		"evil_hdr-small_luks_device.xz":   "keyslot 7: its area of 128000 bytes at offset 921600 ends behind the file",
		"evil_hdr-stripes_payload_dmg.xz": "keyslot 5",
	} {
		t.Run(name, func(t *testing.T) {
			image := peerImages(t, name)[name]
			_, err := ReadHeader(image, int64(len(image)))
			wantNamed(t, err, ErrHeaderCorrupt, word)
			if v, ok := Detect(image); v != 1 || !ok {
				t.Errorf("detected as version %d, %v", v, ok)
			}
		})
	}
	image := peerImages(t, "valid_header_file.xz")["valid_header_file.xz"]
	h, err := ReadHeader(image, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Unlock(t.Context(), image, []byte("x"), allowAll)
	wantNamed(t, err, ErrNoKeyslot, "none of the 0")
}

// A header is written as it was read, down to what lies behind its strings.
func TestLUKS1EncodesWhatItRead(t *testing.T) {
	images, _ := luks1Peers(t)
	junk, _ := formatted(t, smallLUKS1())
	copy(junk[off1Hash+len("sha256")+1:], "junk")
	copy(junk[off1UUID+37:], "xy")
	copy(junk[off1Slots+3*luks1SlotSize+off1SlotSalt:], "salt of no keyslot")
	junk[off1Slots+2*luks1SlotSize+off1SlotIterations] = 7
	images["junk"] = junk
	for name, image := range images {
		h, err := ReadHeader(image, int64(len(image)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := h.luks1.encode(); !bytes.Equal(got, image[:luks1Size]) {
			t.Errorf("%s: encoded as\n%x\nnot\n%x", name, got, image[:luks1Size])
		}
	}
}

// A keyslot that is activated and deactivated leaves the header as it was, and
// in between it is what was asked for and changes no other.
func TestLUKS1Slots(t *testing.T) {
	image, _ := formatted(t, smallLUKS1())
	h := open(t, image, "small").Header
	l := *h.luks1
	if l.freeSlot() != 1 {
		t.Errorf("free keyslot %d", l.freeSlot())
	}
	for slot := 1; slot < luks1Slots; slot++ {
		salt := [luks1SaltSize]byte(randomBytes(luks1SaltSize))
		l.activate(slot, 1234+slot, salt)
		again, err := parseLUKS1(l.encode(), int64(len(image)))
		if err != nil {
			t.Fatal(err)
		}
		k := again.keyslot(slot)
		if k == nil || len(again.Keyslots) != 1+slot || k.KDF.Iterations != 1234+slot || !bytes.Equal(k.KDF.Salt, salt[:]) {
			t.Errorf("keyslot %d: %+v", slot, k)
		}
		off, size := l.area(slot)
		if k.Area.Offset != off || k.Area.Size != size || size != 128000 {
			t.Errorf("keyslot %d: area %+v; %d bytes at %d", slot, k.Area, size, off)
		}
		if d := again.Digests[0]; !slices.Contains(d.Keyslots, slot) {
			t.Errorf("keyslot %d is not in the digest", slot)
		}
	}
	if l.freeSlot() != -1 {
		t.Errorf("free keyslot %d of none", l.freeSlot())
	}
	for slot := 1; slot < luks1Slots; slot++ {
		l.deactivate(slot)
	}
	if !bytes.Equal(l.encode(), image[:luks1Size]) {
		t.Error("the header is not as it was")
	}
}

// cryptsetup takes a hash's name in any case.
func TestLUKS1HashName(t *testing.T) {
	image, _ := formatted(t, smallLUKS1())
	copy(image[off1Hash:], "SHA256")
	open(t, image, "small")
}
