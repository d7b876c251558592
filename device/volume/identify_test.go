package volume

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/luks"
)

// Every fixture is what its type says, and none changes. Those that open are
// the ones that TestFixtures decrypts.
func TestIdentifyFixtures(t *testing.T) {
	t.Parallel()
	dir := testenv.Data(t, "fixtures")
	for _, f := range fixtures(t) {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			file := f.File.File
			if f.Header != nil {
				file = f.Header.File
			}
			image := testenv.Unxz(t, filepath.Join(dir, file))
			path := write(t, "volume", image)
			id, err := Identify(t.Context(), path, OpenOptions{Policy: luks.Policy{AllowWeak: true}})
			if err != nil {
				t.Fatal(err)
			}
			if sum(read(t, path)) != sum(image) {
				t.Error("it was changed")
			}
			healthy(t, f, image)
			kind, _, _ := strings.Cut(f.Name, "-")
			switch {
			case f.Name == "luks2-converted-to-1":
				kind = "luks1"
			case kind == "plain":
				kind = ""
			case kind == "int":
				kind = "dm-integrity"
			}
			if id.Format != kind {
				t.Errorf("format %q, not %q", id.Format, kind)
			}
			switch {
			case kind == "" && !errors.Is(id.Reason, luks.ErrNotLUKS),
				kind == "dm-integrity" && !errors.Is(id.Reason, ErrUnsupported),
				strings.Contains(f.Name, "-int-") && !errors.Is(id.Reason, ErrUnsupported),
				slices.Contains([]string{"luks1-multi-slots", "luks2-ext4", "luks2-detached", "luks2-null"}, f.Name) && id.Reason != nil:
				t.Errorf("%v", id.Reason)
			}
		})
	}
}

// healthy checks that the doctor sees no damage where there is none.
func healthy(t *testing.T, f fixture, image []byte) {
	t.Helper()
	if !strings.HasPrefix(f.Name, "luks") || f.Header != nil {
		return
	}
	o := DoctorOptions{Open: OpenOptions{Slot: luks.AnySlot, Passphrase: f.secret(t, 0), Policy: luks.Policy{AllowWeak: true}}}
	d := examine(t, image, o)
	for _, one := range d.Findings {
		if slices.Contains([]FindingKind{CopyDamaged, CopyOld, KeyslotDamaged, Truncated, WrongSectors, NotAVolume}, one.Kind) {
			t.Errorf("doctor: %+v", one)
		}
	}
	if f.Unlock[0].Opens && !slices.ContainsFunc(d.Findings, func(one Finding) bool { return one.Kind == KeyslotOpens || one.Kind == NotTried }) {
		t.Errorf("doctor: the passphrase opens, and it says %+v", d.Findings)
	}
}

// What is no LUKS volume, by what it is.
func TestIdentifyOthers(t *testing.T) {
	t.Parallel()
	bitlocker := make([]byte, 1<<20)
	copy(bitlocker, "\xeb\x58\x90-FVE-FS-\x00\x02\x08")
	bitlocker[510], bitlocker[511] = 0x55, 0xaa
	ext := make([]byte, 1<<20)
	ext[1024+56], ext[1024+57] = 0x53, 0xef
	newer := doctorVolume(t, noise(1, 4096), 512)
	newer[7] = 3
	for name, c := range map[string]struct {
		image  []byte
		format string
		found  string
		err    error
	}{
		"bitlocker": {bitlocker, "bitlocker", "bitlocker", ErrUnsupported},
		"ext2":      {ext, "", "ext2", luks.ErrNotLUKS},
		"noise":     {noise(3, 5000), "", "", luks.ErrNotLUKS},
		"empty":     {nil, "", "", luks.ErrNotLUKS},
		"version 3": {newer, "luks3", "", ErrUnsupported},
	} {
		id, err := Identify(t.Context(), write(t, "x", c.image), OpenOptions{})
		if err != nil || id.Format != c.format || strings.Join(id.Found, " ") != c.found || !errors.Is(id.Reason, c.err) {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
	if _, err := Identify(t.Context(), t.TempDir(), OpenOptions{}); !errors.Is(err, ErrKind) {
		t.Errorf("a folder: %v", err)
	}
}

// A header that says more than this version knows is shown, and named.
func TestUnknownThings(t *testing.T) {
	t.Parallel()
	image := doctorVolume(t, noise(1, 4096), 512)
	for name, c := range map[string]struct{ old, new, shown, reason string }{
		"requirement": {`"config":{`, `"config":{"requirements":{"mandatory":["to-be-invented"]},`, "Requirements:\tto-be-invented\n", "to-be-invented"},
		"opal":        {`"type":"crypt"`, `"type":"hw-opal"`, "  0: hw-opal\n", "hw-opal"},
		"segment":     {`"type":"crypt"`, `"type":"magic"`, "  0: magic\n", "magic"},
	} {
		path := write(t, "volume", changed(t, image, c.old, c.new))
		h, err := ReadHeader(t.Context(), path, OpenOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(h.Summary(), c.shown) {
			t.Errorf("%s: no %q in\n%s", name, c.shown, h.Summary())
		}
		id, err := Identify(t.Context(), path, OpenOptions{})
		if err != nil || !errors.Is(id.Reason, ErrUnsupported) || !strings.Contains(id.Reason.Error(), c.reason) {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
}
