package luks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// Ours has these lines more than cryptsetup's text; each is said by Summary's
// documentation.
var ownLines = regexp.MustCompile(`^(Header copy:   \t(primary|secondary)|\tiv offset: \d+ \[512-byte units\]|Warning: .*)$`)

// What luksDump printed of every fixture is what Summary prints, byte for byte,
// apart from the lines above, spaces at the end of lines, and the file's name
// in LUKS1's first line.
func TestSummaryIsLuksDump(t *testing.T) {
	t.Parallel()
	dir := testenv.Data(t, "fixtures")
	dumps, err := filepath.Glob(filepath.Join(dir, "dumps", "*.dump.txt"))
	if err != nil || len(dumps) < 70 {
		t.Fatalf("%d dumps: %v", len(dumps), err)
	}
	for _, name := range dumps {
		base := strings.TrimSuffix(filepath.Base(name), ".dump.txt")
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			compareText(t, fixtureHeader(t, dir, base).Summary(), string(want))
		})
	}
}

// fixtureHeader reads the header of a fixture, detached or not.
func fixtureHeader(t *testing.T, dir, name string) *Header {
	t.Helper()
	path := filepath.Join(dir, name+".hdr.xz")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(dir, name+".img.xz")
	}
	image := testenv.Unxz(t, path)
	h, err := ReadHeader(memory(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func compareText(t *testing.T, got, want string) {
	t.Helper()
	want = regexp.MustCompile(`information for .*`).ReplaceAllString(want, "information")
	ours := strings.Split(got, "\n")
	for i, line := range strings.Split(want, "\n") {
		for len(ours) > 0 && ownLines.MatchString(ours[0]) {
			ours = ours[1:]
		}
		if line = strings.TrimRight(line, " "); len(ours) == 0 || ours[0] != line {
			t.Fatalf("line %d: %q, not %q", i+1, strings.Join(ours[:min(1, len(ours))], ""), line)
		}
		ours = ours[1:]
	}
	if len(ours) > 0 {
		t.Errorf("more than luksDump prints: %q", ours)
	}
}

// One schema: every fixture's description has the same names, of LUKS1 and of
// LUKS2, and none of its lists is null.
func TestDescribe(t *testing.T) {
	t.Parallel()
	dir := testenv.Data(t, "fixtures")
	names := map[string]map[string]bool{}
	for _, name := range []string{"luks1-multi-slots", "luks2-label-tokens", "luks2-int-gcm-random", "luks2-reenc-checksum-torn", "luks2-detached", "luks2-encrypt-shift-torn"} {
		h := fixtureHeader(t, dir, name)
		text, err := json.Marshal(h.Describe())
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		names[name] = map[string]bool{}
		for key, v := range fields {
			names[name][key] = true
			if v == nil {
				t.Errorf("%s: %s is null", name, key)
			}
		}
		delete(names[name], "header_copy") // LUKS1 has one copy
	}
	for name, keys := range names {
		if len(keys) != len(names["luks1-multi-slots"]) {
			t.Errorf("%s has other names than a LUKS1 volume: %v", name, keys)
		}
	}
	d := fixtureHeader(t, dir, "luks2-reenc-checksum-torn").Describe()
	slot := d.Keyslots[2]
	if slot.Reencryption == nil || slot.Reencryption.Resilience != "checksum" || slot.Reencryption.HashedSize != 512 || !slot.Unbound ||
		d.Requirements[0] != "online-reencrypt-v2" || d.Segments[1].Flags[0] != "in-reencryption" || *d.Segments[1].Size != 65536 || d.Segments[2].Size != nil {
		t.Errorf("mid-reencryption: %+v", d)
	}
	d = fixtureHeader(t, dir, "luks2-int-hmac-random").Describe()
	if in := d.Segments[0].Integrity; in == nil || in.Type != "hmac(sha256)" || in.JournalEncryption == "" {
		t.Errorf("integrity: %+v", d.Segments)
	}
	d = fixtureHeader(t, dir, "luks1-multi-slots").Describe()
	if len(d.Keyslots) != 3 || d.Keyslots[1].ID != 5 || d.Keyslots[1].KDF.Iterations != 1001 || d.DataOffset != 4096*512 || d.Keyslots[2].AreaOffset != 1800*512 {
		t.Errorf("LUKS1: %+v", d)
	}
	if !fixtureHeader(t, dir, "luks2-detached").Describe().Detached {
		t.Error("a detached header is not said to be one")
	}
}

// Openable agrees with what the manifest says of the fixtures that this version
// opens, and names what keeps the others closed.
func TestOpenable(t *testing.T) {
	t.Parallel()
	dir := testenv.Data(t, "fixtures")
	for name, word := range laterData {
		h := fixtureHeader(t, dir, name)
		wantNamed(t, h.Openable(Policy{}), ErrUnsupported, word)
	}
	wantNamed(t, fixtureHeader(t, dir, "luks2-null").Openable(Policy{}), ErrPolicy, "cipher_null")
	for _, name := range []string{"luks1-multi-slots", "luks2-default-all", "luks2-adiantum-xchacha20"} {
		if err := fixtureHeader(t, dir, name).Openable(Policy{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := fixtureHeader(t, dir, "luks2-default-all").Openable(Policy{MaxKDFMemoryKiB: 32}); err == nil {
		t.Error("a KDF beyond the policy passes")
	}
}
