package volume

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/xtsdisk/xtsdisk/luks"
)

const mib = 1 << 20

var passphrase = []byte("correct horse")

// cheap are options of a LUKS2 volume whose key derivation costs next to
// nothing, in a header as small as it gets.
func cheap() *luks.FormatOptions {
	return &luks.FormatOptions{
		KeySize:          32,
		KeyslotsSize:     128 << 10,
		DataOffset:       160 << 10,
		KDF:              luks.KDF{Type: "pbkdf2", Hash: "sha256", Iterations: 1000},
		DigestIterations: 1000,
		Passphrase:       passphrase,
	}
}

// unlockIt are the options that open what cheap made.
func unlockIt() OpenOptions {
	return OpenOptions{Passphrase: passphrase, Slot: luks.AnySlot}
}

// plainOf are options of a plain volume.
func plainOf(sectorSize int) *PlainOptions {
	return &PlainOptions{Cipher: "aes-xts-plain64", Key: noise(7, 64), SectorSize: sectorSize}
}

// noise is n bytes that look random and are the same each time.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	rng.Read(b)
	return b
}

// write makes a file in a folder of its own.
func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// equal compares without printing megabytes.
func equal(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	t.Errorf("%s: %d bytes, want %d; they differ from byte %d on", what, len(got), len(want), n)
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// only checks that the folder holds exactly these names.
func only(t testing.TB, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want := map[string]bool{}
	for _, n := range names {
		want[n] = true
	}
	for _, n := range got {
		if !want[n] {
			t.Errorf("%s holds %s", dir, n)
		}
		delete(want, n)
	}
	for n := range want {
		t.Errorf("%s does not hold %s", dir, n)
	}
}

// sparseFile is a file of size bytes with chunks of data here and there, data
// bytes in all.
func sparseFile(t *testing.T, size, data int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "src")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const chunk = 64 << 10
	n := data / chunk
	for i := range n {
		if _, err := f.WriteAt(noise(uint64(i), chunk), i*(size/n)/4096*4096); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return path
}
