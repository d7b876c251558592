package volume

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// keyFile is the 80-byte key file of cryptsetup's password-hash-test.
const keyFile = "0123456789abcdef\n\x01\x00\x03\xff\xff\r\xff\xff\n\r 2352j3rkjhadcfasc823rqaw7e1 3dq sdq3d 2dkjqw3h2====="

const keyFileHex = "303132333435363738396162636465660a010003ffff0dffff0a0d20323335326a33726b6a686164636661736338323372716177376531203364712073647133"

// The keys that cryptsetup's own test suite expects dm-crypt to get
// (tests/password-hash-test), among them keys longer than their hash.
func TestPlainKeyKnownAnswers(t *testing.T) {
	zeros := strings.Repeat("\x00", 80)
	for _, c := range []struct {
		hash       string
		bits       int
		passphrase string
		want       string
	}{
		{"ripemd160", 256, "xxx", "aeb26d1f69eb6dddfb9381eed4d7299f091e99aa5d3ff06866d4ce9f620f7aca"},
		{"ripemd160", 128, "xxx", "aeb26d1f69eb6dddfb9381eed4d7299f"},
		{"ripemd160", 256, "xxx\n", "625ce2a8dbdf08f1de400dba7ab9fab246f2a55ad6136e6cafd6703732dab8cf"},
		{"sha1", 256, "xxx", "b60d121b438a380c343d5ec3c2037564b82ffef30b1e0a6ad9af7a73aa91c197"},
		{"sha1", 128, "xxx", "b60d121b438a380c343d5ec3c2037564"},
		{"sha256", 256, "xxx", "cd2eb0837c9b4c962c22d2ff8b5441b7b45805887f051d39bf133b583baf6860"},
		{"sha256", 128, "xxx", "cd2eb0837c9b4c962c22d2ff8b5441b7"},
		{"plain", 256, zeros, strings.Repeat("00", 32)},
		{"plain", 256, keyFile, keyFileHex[:64]},
		{"plain", 128, keyFile, keyFileHex[:32]},
		{"plain", 512, keyFile, keyFileHex},
		// A length cuts the hash and fills the key with zeros (crypt_plain_hash's documentation).
		{"sha256:16", 256, "xxx", "cd2eb0837c9b4c962c22d2ff8b5441b7" + strings.Repeat("00", 16)},
		{"sha1:24", 256, "xxx", "b60d121b438a380c343d5ec3c2037564b82ffef30b1e0a6a" + strings.Repeat("00", 8)},
		{"sha256:32", 256, "xxx", "cd2eb0837c9b4c962c22d2ff8b5441b7b45805887f051d39bf133b583baf6860"},
		{"plain:4", 64, keyFile[:4], "3031323300000000"},
	} {
		got, err := PlainKey([]byte(c.passphrase), c.hash, c.bits/8)
		if err != nil || hex.EncodeToString(got) != c.want {
			t.Errorf("%s, %d bits, %q: %x, %v; want %s", c.hash, c.bits, c.passphrase, got, err, c.want)
		}
	}
}

func TestPlainKeyBadInput(t *testing.T) {
	for _, c := range []struct {
		hash       string
		size       int
		passphrase string
		want       error
	}{
		{"sha256", 0, "x", ErrOptions},
		{"sha256", -1, "x", ErrOptions},
		{"sha256:", 32, "x", ErrOptions},
		{"sha256:0", 32, "x", ErrOptions},
		{"sha256:33", 32, "x", ErrOptions},
		{"sha256:-1", 32, "x", ErrOptions},
		{"sha256:16x", 32, "x", ErrOptions},
		{"sha256:99999999999999999999", 32, "x", ErrOptions},
		{"plain", 32, "31 bytes are one too few......", ErrOptions},
		{"", 32, "x", ErrUnsupported},
		{"md5", 32, "x", ErrUnsupported},
		{"SHA256", 32, "x", ErrUnsupported},
		{"sha256:16:16", 32, "x", ErrOptions},
	} {
		got, err := PlainKey([]byte(c.passphrase), c.hash, c.size)
		if got != nil || !errors.Is(err, c.want) {
			t.Errorf("%q, %d bytes: %x, %v; want %v", c.hash, c.size, got, err, c.want)
		}
	}
}

// Every hash of the table against coreutils or openssl: one round, the second
// with an A in front, the third with two.
func TestPlainKeyHashes(t *testing.T) {
	openssl := testenv.Tool(t, "openssl")
	outside := map[string]string{
		"sha1": "sha1", "sha224": "sha224", "sha256": "sha256", "sha384": "sha384", "sha512": "sha512",
		"sha3-224": "sha3-224", "sha3-256": "sha3-256", "sha3-384": "sha3-384", "sha3-512": "sha3-512",
		"blake2b-512": "blake2b512", "blake2s-256": "blake2s256",
	}
	digest := func(name, text string) []byte {
		cmd := exec.Command(openssl, "dgst", "-"+name, "-binary")
		cmd.Stdin, cmd.Stderr = strings.NewReader(text), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("openssl dgst -%s: %v", name, err)
		}
		return out
	}
	for name, theirs := range outside {
		want := slices.Concat(digest(theirs, "pass phrase"), digest(theirs, "Apass phrase"), digest(theirs, "AApass phrase"))
		got, err := PlainKey([]byte("pass phrase"), name, len(want))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x, %v; want %x", name, got, err, want)
		}
	}
	// RIPEMD-160 is in the known answers; b2sum has BLAKE2b's other lengths.
	b2sum := testenv.Tool(t, "b2sum")
	for name, bits := range map[string]string{"blake2b-160": "160", "blake2b-256": "256", "blake2b-384": "384"} {
		cmd := exec.Command(b2sum, "-l", bits)
		cmd.Stdin = strings.NewReader("pass phrase")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		want, _, _ := strings.Cut(string(out), " ")
		got, err := PlainKey([]byte("pass phrase"), name, len(want)/2)
		if err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%s: %x, %v; want %s", name, got, err, want)
		}
	}
}
