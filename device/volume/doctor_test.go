package volume

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/luks"
)

// doctorVolume is a volume of 4 MiB of data with two keyslots.
func doctorVolume(t *testing.T, data []byte, sectorSize int) []byte {
	t.Helper()
	f := cheap()
	f.SectorSize, f.KeyslotsSize, f.DataOffset = sectorSize, 512<<10, 1<<20
	path := filepath.Join(t.TempDir(), "volume")
	if _, err := Encrypt(t.Context(), EncryptOptions{Src: write(t, "data", data), Dst: path, Luks: f}); err != nil {
		t.Fatal(err)
	}
	return edited(t, read(t, path), func(e *luks.Editor, v *luks.Volume) error {
		_, err := e.AddKey(t.Context(), v, luks.NewKeyslot{
			Slot: luks.AnySlot, Passphrase: []byte("second"), KDF: f.KDF, DigestIterations: 1000,
		})
		return err
	})
}

// edited changes a header in memory: a file that was just written can look in
// use, since a child that another test starts has it open until it runs.
func edited(t *testing.T, image []byte, do func(*luks.Editor, *luks.Volume) error) []byte {
	t.Helper()
	m := device.NewMemory(int64(len(image)), 512)
	if _, err := m.WriteAt(image, 0); err != nil {
		t.Fatal(err)
	}
	e, err := luks.Edit(t.Context(), m, m.Size())
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.Header().Unlock(t.Context(), m, passphrase, luks.UnlockOptions{Slot: luks.AnySlot})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := do(e, v); err != nil {
		t.Fatal(err)
	}
	out := make([]byte, len(image))
	if n, err := m.ReadAt(out, 0); n < len(out) {
		t.Fatal(err)
	}
	return out
}

// examine runs the doctor on an image, which must stay as it is.
func examine(t *testing.T, image []byte, o DoctorOptions) *Diagnosis {
	t.Helper()
	path := write(t, "volume", image)
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	d, err := Examine(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	if sum(read(t, path)) != sum(image) {
		t.Fatal("the volume was changed")
	}
	return d
}

func with(pass string) DoctorOptions {
	return DoctorOptions{Open: OpenOptions{Passphrase: []byte(pass), Slot: luks.AnySlot}}
}

// finding returns the first of a kind, or fails.
func (d *Diagnosis) finding(t *testing.T, kind FindingKind, s Severity) Finding {
	t.Helper()
	i := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.Kind == kind && f.Severity == s })
	if i < 0 {
		t.Fatalf("no finding %s (%s) in %+v", kind, s, d.Findings)
	}
	return d.Findings[i]
}

// Each defect by its kind, where it is, and the error that it is.
func TestDoctorTellsApart(t *testing.T) {
	t.Parallel()
	whole := doctorVolume(t, noise(1, 4*mib), 512)
	const area0, area1, slotSize = 32 << 10, (32 + 128) << 10, 128000
	for name, c := range map[string]struct {
		break_ func(b []byte) []byte
		o      DoctorOptions
		kind   FindingKind
		s      Severity
		err    error // of the whole; nil: it opens
		off, n int64
		word   string
	}{
		"right":             {nil, with("correct horse"), KeyslotOpens, Good, nil, -1, 0, "keyslot 0"},
		"second":            {nil, with("second"), KeyslotOpens, Good, nil, -1, 0, "keyslot 1"},
		"nothing given":     {nil, DoctorOptions{Open: OpenOptions{Slot: luks.AnySlot}}, NotTried, Note, nil, -1, 0, "no passphrase"},
		"wrong":             {nil, with("other"), WrongPassphrase, Bad, luks.ErrWrongPassphrase, -1, 0, "(0, 1)"},
		"damaged keyslot":   {func(b []byte) []byte { clear(b[area0+1024:][:1024]); return b }, with("second"), KeyslotDamaged, Warning, nil, area0 + 1024, 1024, "2 of its 250 sectors"},
		"its passphrase":    {func(b []byte) []byte { clear(b[area0+1024:][:512]); return b }, with("correct horse"), WrongPassphrase, Bad, luks.ErrWrongPassphrase, -1, 0, "(1)"},
		"both keyslots":     {func(b []byte) []byte { clear(b[area0:][:512]); clear(b[area1:][:512]); return b }, with("second"), KeyslotDamaged, Bad, luks.ErrKeyslotDamaged, area0, 512, "keyslot 0"},
		"text over keyslot": {func(b []byte) []byte { copy(b[area1:], bytes.Repeat([]byte("text. "), 999)); return b }, with("correct horse"), KeyslotDamaged, Warning, nil, area1, 6144, "12 of its 250 sectors"},
		"primary gone":      {func(b []byte) []byte { clear(b[:4096]); return b }, with("second"), CopyDamaged, Warning, nil, 0, 16384, "primary"},
		"secondary damaged": {func(b []byte) []byte { b[16384+5000]++; return b }, with("second"), CopyDamaged, Warning, nil, 16384, 16384, "secondary"},
		"both copies":       {func(b []byte) []byte { b[5000]++; b[16384+5000]++; return b }, with("second"), HeaderDamaged, Bad, luks.ErrHeaderCorrupt, -1, 0, "checksum"},
		"no volume":         {func(b []byte) []byte { return noise(2, 1<<20) }, with("second"), NotAVolume, Bad, luks.ErrNotLUKS, -1, 0, "nothing that is known"},
		"unsupported": {func(b []byte) []byte {
			return changed(t, b, "aes-xts-plain64\",\"sector_size", "foo-xts-plain64\",\"sector_size")
		}, with("second"), Unsupported, Bad, luks.ErrUnsupported, -1, 0, "foo-xts"},
		"null cipher": {func(b []byte) []byte {
			return changed(t, b, "aes-xts-plain64\",\"sector_size", "cipher_null-ecb\",\"sector_size")
		}, with("second"), Refused, Bad, luks.ErrPolicy, -1, 0, "cipher_null"},
		"cut in keyslots":  {func(b []byte) []byte { return b[:area1+1000] }, with("correct horse"), Truncated, Bad, ErrTruncated, area1 + 1000, 0, "header"},
		"cut in a keyslot": {func(b []byte) []byte { return b[:area1+1000] }, with("correct horse"), KeyslotDamaged, Warning, ErrTruncated, area1 + 1000, slotSize - 1000, "behind the end"},
		"cut before data":  {func(b []byte) []byte { return b[:1<<20] }, with("second"), Truncated, Bad, ErrTruncated, 1 << 20, 0, "the data begins"},
		"odd end":          {func(b []byte) []byte { return b[:len(b)-100] }, with("second"), Truncated, Warning, nil, 5<<20 - 512, 412, "less than a sector"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image := bytes.Clone(whole)
			if c.break_ != nil {
				image = c.break_(image)
			}
			d := examine(t, image, c.o)
			f := d.finding(t, c.kind, c.s)
			if f.Offset != c.off || f.Size != c.n || !strings.Contains(f.Text, c.word) {
				t.Errorf("%+v: want %d bytes at %d and %q", f, c.n, c.off, c.word)
			}
			if c.kind == Refused && slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Kind == WrongPassphrase }) {
				t.Errorf("what was not tried is called wrong: %+v", d.Findings)
			}
			if err := d.Err(); !errors.Is(err, c.err) {
				t.Errorf("it is %v, not %v", err, c.err)
			}
		})
	}
}

// changed replaces text in both copies of the header.
func changed(t *testing.T, image []byte, old, new string) []byte {
	t.Helper()
	return editHeader(t, image, func(text string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("no %s in %s", old, text)
		}
		return strings.Replace(text, old, new, 1)
	})
}

// A copy that a write did not reach.
func TestDoctorOldCopy(t *testing.T) {
	t.Parallel()
	old := doctorVolume(t, noise(1, 1<<20), 512)
	label := "new"
	changed := edited(t, old, func(e *luks.Editor, _ *luks.Volume) error {
		return e.SetConfig(t.Context(), luks.ConfigChange{Label: &label})
	})
	for copy_, off := range map[string]int64{"primary": 0, "secondary": 16 << 10} {
		image := bytes.Clone(changed)
		copy(image[off:][:16<<10], old[off:])
		d := examine(t, image, with("second"))
		if f := d.finding(t, CopyOld, Warning); f.Offset != off || !strings.Contains(f.Text, "the "+copy_) || d.Err() != nil || d.Header.Label != "new" {
			t.Errorf("%+v", f)
		}
	}
}

// What cryptsetup and dm-crypt made is found healthy, and the filesystem in it.
func TestDoctorFixtures(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]string{"luks2-ext4": "", "luks1-multi-slots": ""} {
		image := testenv.Unxz(t, testenv.Data(t, "fixtures/"+name+".img.xz"))
		for _, f := range fixtures(t) {
			if f.Name == name {
				pass = string(f.secret(t, 0))
			}
		}
		d := examine(t, image, with(pass))
		d.finding(t, KeyslotOpens, Good)
		if name == "luks2-ext4" {
			if f := d.finding(t, DataFound, Good); !strings.Contains(f.Text, "ext4") {
				t.Error(f.Text)
			}
		}
		if d.Err() != nil || slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Severity == Warning }) {
			t.Errorf("%s: %+v", name, d.Findings)
		}
	}
}

// filesystems are the beginnings of what other programs made.
func filesystems(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for name, c := range map[string]struct {
		tool string
		size int64
		args []string
	}{
		"ext4":        {"mke2fs", 4 << 20, []string{"-q", "-t", "ext4"}},
		"ext4-1k":     {"mke2fs", 4 << 20, []string{"-q", "-t", "ext4", "-b", "1024", "-O", "^metadata_csum"}},
		"ext2":        {"mke2fs", 4 << 20, []string{"-q", "-t", "ext2"}},
		"xfs":         {"mkfs.xfs", 512 << 20, []string{"-q"}},
		"vfat":        {"mkfs.vfat", 4 << 20, nil},
		"vfat32":      {"mkfs.vfat", 64 << 20, []string{"-F", "32"}},
		"gpt":         {"fdisk", 4 << 20, nil},
		"vfat32-4096": {"mkfs.vfat", 512 << 20, []string{"-F", "32", "-S", "4096"}},
	} {
		path := filepath.Join(t.TempDir(), "fs")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, c.size); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(testenv.Tool(t, c.tool), append(c.args, path)...)
		cmd.Stdin = strings.NewReader("g\nn\n1\n\n\nw\n")
		if msg, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", c.tool, err, msg)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = make([]byte, 4<<20)
		if _, err := f.ReadAt(out[name], 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return out
}

// What was encrypted in another way than the header says is found out, and what
// was encrypted as it says is not doubted.
func TestDoctorSectorSizes(t *testing.T) {
	t.Parallel()
	all := filesystems(t)
	for _, declared := range []int{512, 4096} {
		image := doctorVolume(t, make([]byte, 4*mib), declared)
		path := write(t, "volume", image)
		v, err := Unlock(t.Context(), path, unlockIt())
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		says := reading{"aes-xts-plain64", declared, false, 0}
		for name, fs := range all {
			kind, _, _ := strings.Cut(strings.Replace(name, "vfat32", "vfat", 1), "-")
			for i, r := range append(others(says, 1<<20), says) {
				if r != says && (i+len(name))%4 != 0 && os.Getenv("XTSDISK_LONG") == "" {
					continue
				}
				if strings.Contains(r.cipher, "benbi") || r.cipher == "aes-xts-plain" {
					continue // not with XTS; the same as plain64 here
				}
				b := bytes.Clone(image)
				c, err := r.newCipher(v.Key())
				if err != nil {
					t.Fatal(r, err)
				}
				c.Encrypt(b[1<<20:], fs, r.ivOffset)
				c.Wipe()
				d := examine(t, b, with("second"))
				if r == says {
					d.finding(t, DataFound, Good)
					if slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Kind == WrongSectors }) {
						t.Errorf("%s as declared (%v): %+v", name, r, d.Findings)
					}
					continue
				}
				f := d.finding(t, WrongSectors, Bad)
				if !strings.Contains(f.Text, "holds "+kind+" if it is read with "+r.String()+";") {
					t.Errorf("%s with %v: %s", name, r, f.Text)
				}
			}
		}
	}
}

// A filesystem that is larger than what is left of the volume.
func TestDoctorTruncatedFilesystem(t *testing.T) {
	t.Parallel()
	for name, fs := range filesystems(t) {
		image := doctorVolume(t, fs, 512)
		d := examine(t, image[:3<<20], with("second"))
		if name == "gpt" || name == "ext4" || name == "ext2" || name == "xfs" || strings.HasPrefix(name, "vfat") || name == "ext4-1k" {
			f := d.finding(t, Truncated, Bad)
			if f.Offset != 3<<20 || !strings.Contains(f.Text, "are missing") {
				t.Errorf("%s: %+v", name, f)
			}
		}
		d = examine(t, image, with("second"))
		if whole := name != "xfs" && !strings.HasPrefix(name, "vfat32"); whole && d.Err() != nil {
			t.Errorf("%s, whole: %v", name, d.Findings)
		}
	}
}

// Passphrases as they were set, and as they were given.
func TestDoctorMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ set, given, word string }{
		{"secret\n", "secret", "with a newline"},
		{"secret", "secret\n", "without a newline"},
		{"secret\r\n", "secret", "with a carriage return and a newline"},
		{"secret", "secret\r\n", "without a carriage return"},
		{"two\r\nlines", "two\nlines", "Windows"},
		{"two\nlines", "two\r\nlines", "Unix"},
		{"Schl\u00fcssel", "Schlu\u0308ssel", "NFC"},
		{"Schlu\u0308ssel", "Schl\u00fcssel", "NFD"},
		{"yellow-zebra", "zellowßyebra", "layout us instead of de"},
		{"zellowßyebra", "yellow-zebra", "layout de instead of us"},
		{"azerty123", "qwerty!@#", "layout fr instead of us"},
		{"Quiz7!", "Auiy7&", ""},
		{"sECRET", "Secret", "caps lock"},
	} {
		f := cheap()
		f.Passphrase = []byte(c.set)
		path := filepath.Join(t.TempDir(), "volume")
		if _, err := Encrypt(t.Context(), EncryptOptions{Src: write(t, "data", noise(1, 8192)), Dst: path, Luks: f}); err != nil {
			t.Fatal(err)
		}
		o := with(c.given)
		o.Mistakes = true
		planned := 0
		o.Plan = func(runs int, _ time.Duration) { planned += runs }
		d := examine(t, read(t, path), o)
		if d.Runs > planned || planned > defaultRuns || d.Runs < 2 {
			t.Errorf("%q: %d key derivations, %d were announced", c.given, d.Runs, planned)
		}
		if !errors.Is(d.Err(), luks.ErrWrongPassphrase) {
			t.Errorf("%q: %v", c.given, d.Err())
		}
		if c.word == "" {
			d.finding(t, MistakesTried, Note)
			continue
		}
		if f := d.finding(t, MistakeFound, Bad); !strings.Contains(f.Text, c.word) || f.Keyslot != 0 {
			t.Errorf("%q given for %q: %s", c.given, c.set, f.Text)
		}
		o.MaxRuns, planned = 1, 0
		if d = examine(t, read(t, path), o); d.Runs != 1 || planned != 1 {
			t.Errorf("%d key derivations, 1 is allowed", d.Runs)
		}
		o.Mistakes = false
		if d = examine(t, read(t, path), o); len(d.Findings) != 1 {
			t.Errorf("not asked to: %+v", d.Findings)
		}
	}
}

// What X11's keyboard layouts give (xkeyboard-config, symbols us, de, fr).
func TestLayouts(t *testing.T) {
	by := map[string]*layout{}
	for _, l := range layouts {
		if by[l.name] = l; len(l.plain) != len(l.shift) || len(l.plain) != len(l.third) {
			t.Fatalf("%s: %d, %d and %d keys", l.name, len(l.plain), len(l.shift), len(l.third))
		}
	}
	for _, c := range []struct{ from, text, to, want string }{
		{"us", "qwertz [];'\\`-=/", "de", "qwerty ü+öä#^ß´-"},
		{"us", "AZ!@#$%^&*()", "de", "AY!\"§$%&/()="},
		{"us", "qwa zm,.;1234567890", "fr", "azq w,;:m&é\"'(-è_çà"},
		{"de", "@{[]}\\~|µ€", "us", "q7890-]<me"},
		{"de", "üÜöÖäÄ?", "fr", "^¨mMù%°"},
		{"fr", "@^{}ù%!§", "de", "}ü4´äÄ-_"},
		{"us", "<>", "fr", "./"},
	} {
		if got := string(retype(make([]byte, 0, 200), []byte(c.text), by[c.from], by[c.to])); got != c.want {
			t.Errorf("%q typed on %s instead of %s: %q, not %q", c.text, c.to, c.from, got, c.want)
		}
	}
	if retype(nil, []byte("a漢"), by["us"], by["de"]) != nil {
		t.Error("a character that no key gives")
	}
}

// However long a passphrase and whatever is in it: each variant once, none of
// them the passphrase, and no room is too small.
func TestVariants(t *testing.T) {
	for _, p := range []string{"", "a", "\n", "\r\n", strings.Repeat("\u0390", 100), strings.Repeat("\ufdfa", 60), "\xff\xfe", strings.Repeat("x", 100000), "ΐ\r\n\r"} {
		list := variants([]byte(p))
		seen := map[string]bool{p: true}
		for _, v := range list {
			if s := string(v.text.Bytes()); seen[s] {
				t.Errorf("%q (%d bytes) twice: %s", s[:min(20, len(s))], len(s), v.name)
			} else {
				seen[s] = true
			}
		}
		if len(list) == 0 || len(list) > 20 {
			t.Errorf("%d variants", len(list))
		}
		wipeVariants(list)
	}
}
