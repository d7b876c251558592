package volume

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/luks"
)

// inReencryption tells of the fixtures that cryptsetup left in the middle of it.
func (f fixture) inReencryption() bool {
	return strings.HasPrefix(f.Name, "luks2-reenc-") || strings.HasPrefix(f.Name, "luks2-encrypt-") || strings.HasPrefix(f.Name, "luks2-decrypt-")
}

// Volumes that cryptsetup left in the middle of a reencryption, torn ones
// included, give the recorded plaintext, by Decrypt and by Open, with every
// keyslot's number, and are not changed. Nothing can be written to them.
func TestFixturesReencryption(t *testing.T) {
	b := newTable()
	for _, f := range fixtures(t) {
		if !f.inReencryption() {
			continue
		}
		said, err := f.readsInReencryption(t)
		b.add(f.Name, f.Type, said, err)
	}
	if b.rows != 9 {
		t.Errorf("%d images, not 9", b.rows)
	}
	b.show(t)
}

func (f fixture) readsInReencryption(t *testing.T) (string, error) {
	path := write(t, "volume", testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.File.File)))
	files := []string{path}
	o := OpenOptions{Passphrase: f.secret(t, 0), Slot: luks.AnySlot}
	if f.Header != nil {
		o.Header = write(t, "header", testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.Header.File)))
		files = append(files, o.Header)
	}
	before := sums(t, files)
	out := filepath.Join(t.TempDir(), "plain")
	report, err := Decrypt(t.Context(), DecryptOptions{Src: path, Dst: out, Open: o})
	if err != nil {
		return "", err
	}
	plaintext := read(t, out)
	if sum(plaintext) != f.PayloadSha256 {
		return "", errors.New("another plaintext")
	}
	for _, o.Slot = range []int{0, luks.AnySlot} {
		v, err := Open(t.Context(), path, o)
		if err != nil {
			return "", err
		}
		// Unaligned, and across the borders of segments and blocks.
		got := make([]byte, len(plaintext))
		for at := 0; at < len(got); at += 12345 {
			if _, err := v.ReadAt(got[at:min(at+12345, len(got))], int64(at)); err != nil && err != io.EOF {
				return "", err
			}
		}
		equal(t, f.Name, got, plaintext)
		if _, err := v.WriteAt(got[:512], 0); err == nil {
			return "", errors.New("it was written to")
		}
		if err := v.WriteZeroes(0, 512); err == nil {
			return "", errors.New("zeros were written to it")
		}
		v.Close()
	}
	o.Writable = true
	if v, err := Open(t.Context(), path, o); err == nil {
		v.Close()
		return "", errors.New("it opens for writing")
	} else if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), `requirement "online-reencrypt-v`) {
		return "", err
	}
	if after := sums(t, files); !slices.Equal(before, after) {
		return "", errors.New("reading changed it")
	}
	return strings.ReplaceAll(strings.Join(report.Warnings, "; "), path, "it"), nil
}

func sums(t *testing.T, files []string) (out []string) {
	t.Helper()
	for _, f := range files {
		out = append(out, sum(read(t, f)))
	}
	return out
}
