//go:build linux

package integration

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// What cryptsetup must accept: every kind of volume that encrypt makes.
var variants = []struct {
	name string
	args []string
	dump []string // lines that luksDump must print
}{
	{"512-bit key, 512-byte sectors", []string{"--key-size", "512", "--sector-size", "512"},
		[]string{"cipher: aes-xts-plain64", "sector: 512 [bytes]", "512 bits"}},
	{"512-bit key, 4096-byte sectors", []string{"--key-size", "512", "--sector-size", "4096"},
		[]string{"sector: 4096 [bytes]"}},
	{"256-bit key, 512-byte sectors", []string{"--key-size", "256", "--sector-size", "512"},
		[]string{"256 bits"}},
	{"256-bit key, 4096-byte sectors", []string{"--key-size", "256", "--sector-size", "4096"},
		[]string{"256 bits", "sector: 4096 [bytes]"}},
	{"label and UUID", []string{"--label", "my disk", "--subsystem", "tests", "--uuid", "5b2b1b0c-1c5f-4a54-9d0b-6e4c50d7ad53"},
		[]string{"my disk", "tests", "5b2b1b0c-1c5f-4a54-9d0b-6e4c50d7ad53"}},
	{"large metadata, small keyslots", []string{"--luks2-metadata-size", "64K", "--luks2-keyslots-size", "512K"},
		[]string{"Metadata area: \t65536 [bytes]", "Keyslots area: \t524288 [bytes]"}},
	{"data at an offset", []string{"--offset", "65536"}, []string{"offset: 33554432 [bytes]"}},
	{"sha512", []string{"--hash", "sha512"}, []string{"Hash:       sha512"}},
}

func TestCryptsetupAcceptsAndDecrypts(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	plain := random(3<<20, 1)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			b := newBench(t)
			b.write("plain", plain)
			b.xtsdisk(append(append([]string{"encrypt", "plain", "volume"}, cheapKDF...), v.args...)...)
			b.checkDump(cryptsetup, v.dump)
			b.run(cryptsetup, "open", "--test-passphrase", "--key-file", b.pass, "volume")
			b.checkPayload(cryptsetup, plain)
		})
	}
}

// The costs that a person would get, bounded so that tests stay quick.
func TestCryptsetupOpensArgon2(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	for _, kdf := range []string{"argon2id", "argon2i"} {
		t.Run(kdf, func(t *testing.T) {
			b := newBench(t)
			b.write("plain", random(1<<20, 2))
			b.xtsdisk("encrypt", "plain", "volume", "--pbkdf", kdf, "--iter-time", "100", "--pbkdf-memory", "65536")
			b.checkDump(cryptsetup, []string{"PBKDF:      " + kdf})
			b.run(cryptsetup, "open", "--test-passphrase", "--key-file", b.pass, "volume")
		})
	}
}

// format makes an empty volume in an existing file; what cryptsetup reads
// there is what cat reads there.
func TestCryptsetupOpensFormatted(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	for _, size := range []string{"512", "4096"} {
		t.Run(size, func(t *testing.T) {
			b := newBench(t)
			b.xtsdisk(append([]string{"format", "volume", "--create", "20M", "--sector-size", size}, cheapKDF...)...)
			b.run(cryptsetup, "open", "--test-passphrase", "--key-file", b.pass, "volume")
			b.checkPayload(cryptsetup, b.xtsdisk("cat", "volume"))
		})
	}
}

// Volumes that cryptsetup made open here, with the key that it names.
func TestOpensWhatCryptsetupMade(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	kdfs := map[string][]string{
		"pbkdf2":   {"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"},
		"argon2i":  {"--pbkdf", "argon2i", "--pbkdf-memory", "64", "--pbkdf-force-iterations", "4"},
		"argon2id": {"--pbkdf", "argon2id", "--pbkdf-memory", "64", "--pbkdf-force-iterations", "4"},
	}
	for kdf, args := range kdfs {
		for _, bits := range []string{"256", "512"} {
			t.Run(kdf+"/"+bits, func(t *testing.T) {
				b := newBench(t)
				b.write("volume", make([]byte, 18<<20))
				b.run(cryptsetup, append([]string{"luksFormat", "-q", "--type", "luks2", "--key-size", bits,
					"volume", b.pass}, args...)...)
				b.run(cryptsetup, "luksDump", "-q", "--dump-volume-key", "--volume-key-file", "theirs",
					"--key-file", b.pass, "volume")
				b.xtsdisk("key", "export", "volume", "ours")
				if !bytes.Equal(b.read("ours"), b.read("theirs")) {
					t.Error("the exported volume keys differ")
				}
			})
		}
	}
}

func (b *bench) checkDump(cryptsetup string, want []string) {
	b.tb.Helper()
	dump := string(b.run(cryptsetup, "luksDump", "volume"))
	for _, line := range want {
		if !strings.Contains(dump, line) {
			b.tb.Errorf("luksDump does not show %q:\n%s", line, dump)
		}
	}
}

// checkPayload lets cryptsetup decrypt a copy of the volume in place, without
// device-mapper, and compares everything that it holds with want.
func (b *bench) checkPayload(cryptsetup string, want []byte) {
	b.tb.Helper()
	b.write("copy", b.read("volume"))
	b.run(cryptsetup, "reencrypt", "-q", "--decrypt", "--force-offline-reencrypt",
		"--header", "exported-header", "--key-file", b.pass, "copy")
	got := b.read("copy")
	if len(got) < len(want) || !bytes.Equal(got[:len(want)], want) {
		b.tb.Error(firstDifference(got, want))
	}
}

func firstDifference(got, want []byte) string {
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			return fmt.Sprintf("payload differs first at byte %d of %d", i, len(want))
		}
	}
	return "payloads are equal"
}
