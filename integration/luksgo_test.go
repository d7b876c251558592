//go:build linux

package integration

import (
	"bytes"
	"reflect"
	"testing"

	other "github.com/anatol/luks.go"
)

// luks.go, written by other people from the same documents, unseals the same
// volume key from the LUKS1 and LUKS2 volumes that encrypt makes.
func TestLuksGoAgreesOnTheKey(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
	}{
		{"luks1", append([]string{"--type", "luks1"}, cheapKDF...)},
		{"luks1, 256-bit key, sha1", append([]string{"--type", "luks1", "--key-size", "256", "--hash", "sha1"}, cheapKDF...)},
		{"luks1, sha512", append([]string{"--type", "luks1", "--hash", "sha512"}, cheapKDF...)},
		{"luks2, pbkdf2", cheapKDF},
		{"luks2, pbkdf2, 256-bit key, sectors of 4096", append([]string{"--key-size", "256", "--sector-size", "4096"}, cheapKDF...)},
		{"luks2, argon2id", []string{"--pbkdf-memory", "64", "--pbkdf-force-iterations", "4"}},
		{"luks2, argon2i", []string{"--pbkdf", "argon2i", "--pbkdf-memory", "64", "--pbkdf-force-iterations", "4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.write("plain", random(1<<20, 46))
			b.xtsdisk(append([]string{"encrypt", "plain", "volume"}, c.args...)...)
			b.xtsdisk("key", "export", "volume", "ours")
			dev, err := other.Open(b.path("volume"))
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			v, err := dev.UnsealVolume(0, []byte(passphrase))
			if err != nil {
				t.Fatal(err)
			}
			// The field is private; there is no other way to it but device-mapper.
			theirs := reflect.ValueOf(v).Elem().FieldByName("key").Bytes()
			if !bytes.Equal(theirs, b.read("ours")) {
				t.Errorf("luks.go has the key %x, we %x", theirs, b.read("ours"))
			}
			if _, err := dev.UnsealVolume(0, []byte("another")); err == nil {
				t.Error("another passphrase opens it")
			}
		})
	}
}
