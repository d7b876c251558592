package luks

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// cheapKDF costs next to nothing and is one that cryptsetup takes.
var cheapKDF = KDF{Type: KDFPBKDF2, Hash: "sha256", Iterations: 1000}

// cheapArgon2 is the least that cryptsetup takes.
var cheapArgon2 = KDF{Type: KDFArgon2id, Iterations: 4, MemoryKiB: 32, Threads: 1}

// smallOptions make a header of 1 MiB with a cheap keyslot.
func smallOptions() FormatOptions {
	return FormatOptions{
		KeySize:          32,
		KeyslotsSize:     areaSize(32),
		KDF:              cheapKDF,
		DigestIterations: minDigestIterations,
		Passphrase:       []byte("small"),
	}
}

// memory is Storage of a fixed size.
type memory []byte

func (m memory) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(m).ReadAt(p, off) }

func (m memory) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m)) || len(p) > len(m[off:]) {
		return 0, io.ErrShortWrite
	}
	return copy(m[off:], p), nil
}

func (m memory) Flush() error { return nil }

// formatted returns an image with a volume made by o, and its volume key.
func formatted(tb testing.TB, o FormatOptions) (image memory, key []byte) {
	tb.Helper()
	p, err := Prepare(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	defer p.Volume().Close()
	image = make(memory, p.DataOffset()+4096)
	if err := p.Invalidate(tb.Context(), image); err != nil {
		tb.Fatal(err)
	}
	if err := p.Write(tb.Context(), image); err != nil {
		tb.Fatal(err)
	}
	return image, slices.Clone(p.Volume().Key())
}

// open reads the header and unlocks any keyslot, or fails.
func open(tb testing.TB, image []byte, passphrase string) *Volume {
	tb.Helper()
	h, err := ReadHeader(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		tb.Fatal(err)
	}
	v, err := h.Unlock(tb.Context(), bytes.NewReader(image), []byte(passphrase), UnlockOptions{Slot: AnySlot})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(v.Close)
	return v
}

// wantNamed checks the sentinel and that the text names what it is about.
func wantNamed(tb testing.TB, err, sentinel error, word string) {
	tb.Helper()
	if !errors.Is(err, sentinel) || !bytes.Contains([]byte(err.Error()), []byte(word)) {
		tb.Errorf("got %v; want %v that names %s", err, sentinel, word)
	}
}

// tempFile writes b to a file of its own.
func tempFile(tb testing.TB, b []byte) string {
	tb.Helper()
	name := filepath.Join(tb.TempDir(), "file")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		tb.Fatal(err)
	}
	return name
}
