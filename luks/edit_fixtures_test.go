package luks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// chosenCiphers are fixtures whose keyslots were made with --keyslot-cipher.
var chosenCiphers = []string{"luks2-keyslot-cipher"}

// The cipher for a new keyslot's area is the one that cryptsetup took for those
// that are there, for every cipher of the data; but for those that are only read
// here, where it is aes-xts-plain64.
func TestAreaCipherAsCryptsetup(t *testing.T) {
	dir := testenv.Data(t, "fixtures")
	raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Fixtures []fixture }
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range manifest.Fixtures {
		file := f.File
		if f.Header != nil {
			file = *f.Header
		}
		if f.Type != "luks2" || slices.Contains(chosenCiphers, f.Name) || testing.Short() && len(seen) > 3 {
			continue
		}
		image := memory(testenv.Unxz(t, filepath.Join(dir, file.File)))
		h, err := ReadHeader(image, int64(len(image)))
		if err != nil || len(h.Config.Requirements) > 0 || h.dataSegment() == nil || len(h.Keyslots) == 0 {
			continue
		}
		var a Area
		if err := h.setAreaCipher(&a); err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		want := h.Keyslots[0].Area
		if strings.Contains(want.Cipher, "lrw") || strings.Contains(want.Cipher, "ecb") {
			want.Cipher, want.KeySize = defaultCipher, defaultKeySize
		}
		if a.Cipher != want.Cipher || a.KeySize != want.KeySize {
			t.Errorf("%s, data %s: %s with %d bytes, cryptsetup has %s with %d", f.Name, h.dataSegment().Cipher, a.Cipher, a.KeySize, want.Cipher, want.KeySize)
		}
		seen[h.dataSegment().Cipher] = true
	}
	t.Logf("%d ciphers of data", len(seen))
	if !testing.Short() && len(seen) < 10 {
		t.Errorf("only %d ciphers of data", len(seen))
	}
}
