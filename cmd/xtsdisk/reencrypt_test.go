package main

import (
	"crypto/sha256"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// While a volume is being reencrypted nothing writes to it: every verb that
// would is refused, names the requirement, and changes no byte.
func TestReencryptionRefusesWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	vol := filepath.Join(dir, "VOL")
	write(t, vol, testenv.Unxz(t, testenv.Data(t, "fixtures/luks2-reenc-checksum-torn.img.xz")))
	write(t, filepath.Join(dir, "pass"), []byte("re checksum"))
	write(t, filepath.Join(dir, "new"), []byte("another"))
	write(t, filepath.Join(dir, "token"), []byte(`{"type":"x","keyslots":["0"]}`))
	before := sha256.Sum256(read(t, vol))
	for _, line := range []string{
		"key add --key-file pass --new-keyfile new VOL",
		"key change --key-file pass --new-keyfile new VOL",
		"key convert --key-file pass --pbkdf pbkdf2 --pbkdf-force-iterations 1000 VOL",
		"key remove --key-file pass VOL",
		"key kill --key-file pass VOL 0",
		"key priority VOL 0 prefer",
		"token add --json-file token VOL",
		"config --label new VOL",
		"header convert --type luks1 -q VOL",
		"header erase -q VOL",
	} {
		code, _, msg := try(t, dir, strings.Fields(line)...)
		if code != int(exitUnsupported) || !strings.Contains(msg, "online-reencrypt-v2") {
			t.Errorf("%s: exit code %d: %s", line, code, msg)
		}
		if sha256.Sum256(read(t, vol)) != before {
			t.Fatalf("%s changed the volume", line)
		}
	}
	for _, line := range []string{"cat --key-file pass VOL", "cat --range 400000:70000 --key-file pass VOL", "decrypt --key-file pass VOL plain", "key test --key-file pass VOL"} {
		if code, _, msg := try(t, dir, strings.Fields(line)...); code != 0 {
			t.Errorf("%s: exit code %d: %s", line, code, msg)
		}
		if sha256.Sum256(read(t, vol)) != before {
			t.Fatalf("%s changed the volume", line)
		}
	}
}
