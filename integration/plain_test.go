//go:build linux

package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// A fixture is one volume of the manifest; see the README beside it.
type fixture struct {
	Name, Type string
	File       struct{ File, Sha256 string }
	Unlock     []struct {
		Passphrase, Keyfile string
	}
	OpenArgs      []string `json:"open_args"`
	PayloadSha256 string   `json:"payload_sha256"`
	PayloadLen    int64    `json:"payload_len"`
}

func fixtures(t *testing.T, typ string) []fixture {
	t.Helper()
	data, err := os.ReadFile(testenv.Data(t, "fixtures/manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Fixtures []fixture }
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	all := slices.DeleteFunc(manifest.Fixtures, func(f fixture) bool { return f.Type != typ })
	if len(all) == 0 {
		t.Fatalf("no fixture of type %s", typ)
	}
	return all
}

// Headerless volumes that dm-crypt wrote decrypt to what it was given, with
// cryptsetup's own options. The sector size, which cryptsetup would assume,
// is given.
func TestPlainFixtures(t *testing.T) {
	for _, f := range fixtures(t, "plain") {
		t.Run(f.Name, func(t *testing.T) {
			b := newBench(t)
			image := testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.File.File))
			if sum(image) != f.File.Sha256 {
				t.Fatal("the unpacked image is not the recorded one")
			}
			b.write("volume", image)
			args := append([]string{"decrypt", "volume", "payload"}, f.OpenArgs...)
			if !slices.Contains(args, "--sector-size") {
				args = append(args, "--sector-size", "512")
			}
			if i := slices.Index(args, "--key-file"); i >= 0 {
				args[i+1] = testenv.Data(t, filepath.Join("fixtures", args[i+1]))
				args = append(args, "--keyfile-size", keyBytes(t, args))
			} else {
				b.write("pass", []byte(f.Unlock[0].Passphrase))
				args = append(args, "--passphrase-file", b.pass)
			}
			b.run(program, args...)
			payload := b.read("payload")
			if sum(payload) != f.PayloadSha256 {
				t.Errorf("payload of %d bytes (want %d) has another hash", len(payload), f.PayloadLen)
			}

			// And back: the same options must give the same ciphertext.
			args[0], args[1], args[2] = "encrypt", "payload", "again"
			b.run(program, args...)
			again := b.read("again")
			if off := len(image) - len(payload); !slices.Equal(again[off:], image[off:]) {
				t.Error("encrypting the payload gives another ciphertext")
			}
		})
	}
}

// keyBytes is the length of the key that the arguments name in bits.
func keyBytes(t *testing.T, args []string) string {
	t.Helper()
	bits, err := strconv.Atoi(args[slices.Index(args, "--key-size")+1])
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(bits / 8)
}

// LUKS2 volumes made by real cryptsetup and dm-crypt, decrypted as whole
// images.
func TestLUKS2Fixtures(t *testing.T) {
	tried := 0
	for _, f := range fixtures(t, "luks2") {
		if !strings.HasPrefix(f.Name, "luks2-xts") || len(f.OpenArgs) > 0 || strings.Contains(f.Name, "essiv") {
			continue
		}
		tried++
		t.Run(f.Name, func(t *testing.T) {
			b := newBench(t)
			b.write("volume", testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.File.File)))
			b.write("pass", []byte(f.Unlock[0].Passphrase))
			b.xtsdisk("decrypt", "volume", "payload")
			if payload := b.read("payload"); sum(payload) != f.PayloadSha256 {
				t.Errorf("payload of %d bytes (want %d) has another hash", len(payload), f.PayloadLen)
			}
		})
	}
	if tried < 5 {
		t.Errorf("only %d fixtures fit: the selection is broken", tried)
	}
}
