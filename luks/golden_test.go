package luks

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// golden are headers that cryptsetup made (testdata/README.md), with the
// volume keys that it told.
var golden = []struct{ file, key string }{
	{"cryptsetup-2.6.1-pbkdf2.img.gz", "5a72f9febb58566ffb1399a7ef67fa571d7dc3a354e5fbcc2f6a47af2f0af06b"},
	{"cryptsetup-2.6.1-argon2id.img.gz", "366d0842bca20f73e096e6ccc25bb8afa017b745f99fa72cddf2c187bfaf4d3e"},
}

func goldenImage(tb testing.TB, file string) []byte {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", file))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		t.Run(g.file, func(t *testing.T) {
			image := goldenImage(t, g.file)
			v := open(t, image, "golden")
			if got := hex.EncodeToString(v.Key()); got != g.key {
				t.Errorf("volume key %s, not %s", got, g.key)
			}
			if len(v.Header.Warnings) != 0 {
				t.Errorf("warnings %q", v.Header.Warnings)
			}
			if _, err := v.Segments(); err != nil {
				t.Error(err)
			}
			_, err := v.Header.Unlock(t.Context(), bytes.NewReader(image), []byte("golden\n"), UnlockOptions{Slot: AnySlot})
			if !errors.Is(err, ErrWrongPassphrase) {
				t.Errorf("another passphrase: %v", err)
			}
		})
	}
}
