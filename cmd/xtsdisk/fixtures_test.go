package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// fixture is what the manifest says of a volume that cryptsetup and dm-crypt
// made.
type fixture struct {
	Name   string
	File   struct{ File string }
	Header *struct{ File string }
	Unlock []struct {
		Passphrase *string
		Keyfile    string
		Offset     int
		Size       int
		Opens      bool
	}
	OpenArgs      []string `json:"open_args"`
	PayloadSHA256 string   `json:"payload_sha256"`
	PayloadLen    int      `json:"payload_len"`
}

// The options mean what cryptsetup's mean: its own command lines, with the
// sector size that it takes for granted, open its volumes.
func TestCryptsetupCommandLines(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(testenv.Data(t, "fixtures/manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Fixtures []fixture }
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	opened := 0
	for _, f := range manifest.Fixtures {
		if strings.HasPrefix(f.Name, "plain-") || strings.HasPrefix(f.Name, "luks2-detached") || strings.HasPrefix(f.Name, "luks2-keyfile-") ||
			strings.HasPrefix(f.Name, "luks2-reenc-") || strings.HasPrefix(f.Name, "luks2-encrypt-") || strings.HasPrefix(f.Name, "luks2-decrypt-") {
			opened++
			t.Run(f.Name, func(t *testing.T) { f.open(t) })
		}
	}
	if opened < 17 {
		t.Errorf("only %d fixtures were tried", opened)
	}
}

func (f fixture) open(t *testing.T) {
	dir := t.TempDir()
	folder := testenv.Data(t, "fixtures")
	write(t, filepath.Join(dir, "volume"), testenv.Unxz(t, filepath.Join(folder, f.File.File)))
	args := append([]string{"cat"}, f.OpenArgs...)
	if strings.HasPrefix(f.Name, "plain-") && !strings.Contains(strings.Join(args, " "), "--sector-size") {
		args = append(args, "--sector-size", "512")
	}
	if f.Header != nil {
		write(t, filepath.Join(dir, "header"), testenv.Unxz(t, filepath.Join(folder, f.Header.File)))
		args = append(args, "--header", "header")
	}
	for _, u := range f.Unlock {
		line := append([]string{}, args...)
		switch {
		case u.Passphrase != nil:
			write(t, filepath.Join(dir, "passphrase"), []byte(*u.Passphrase+"\n"))
			line = append(line, "--passphrase-file", "passphrase")
		case !strings.Contains(strings.Join(line, " "), "--key-file"):
			line = append(line, "--key-file", "keys/"+u.Keyfile)
		}
		if u.Offset > 0 {
			line = append(line, "--keyfile-offset", strconv.Itoa(u.Offset))
		}
		if u.Size > 0 {
			line = append(line, "--keyfile-size", strconv.Itoa(u.Size))
		}
		for i, arg := range line {
			if rest, ok := strings.CutPrefix(arg, "keys/"); ok {
				line[i] = filepath.Join(folder, "keys", rest)
			}
		}
		code, out, msg := try(t, dir, append(line, "volume")...)
		if !u.Opens {
			if code == 0 || out != "" {
				t.Errorf("%q: exit code %d and %d bytes of a volume that does not open", line, code, len(out))
			}
			continue
		}
		sum := sha256.Sum256([]byte(out))
		if code != 0 || len(out) != f.PayloadLen || hex.EncodeToString(sum[:]) != f.PayloadSHA256 {
			t.Errorf("%q: exit code %d, %d bytes of %d with hash %x: %s", line, code, len(out), f.PayloadLen, sum, msg)
		}
	}
}
