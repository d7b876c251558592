package luks

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// addToKeyring puts a passphrase into the user's keyring, or skips. (A session
// keyring that is made here would be one thread's only.)
func addToKeyring(t *testing.T, name, passphrase string) {
	t.Helper()
	id, err := unix.AddKey("user", name, []byte(passphrase), unix.KEY_SPEC_USER_KEYRING)
	testenv.Feature(t, err == nil, "keyring")
	t.Cleanup(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0) })
	key, err := readKeyring(name)
	testenv.Feature(t, err == nil, "keyring") // a session that is not linked to the user's keyring
	key.Destroy()
}

func TestUnlockWithToken(t *testing.T) {
	const name = "xtsdisk-test-key"
	addToKeyring(t, name, "second")
	image := editable(t)["LUKS2"]
	addKey(t, image, "small", "second")
	for _, token := range [][]byte{KeyringToken(name, []int{1}), KeyringToken(name, nil), KeyringToken(name, []int{0}), KeyringToken("not there", nil), RecoveryToken(0)} {
		if _, err := edit(t, image).AddToken(t.Context(), AnyToken, token, false); err != nil {
			t.Fatal(err)
		}
	}
	h := edit(t, image).Header()
	for id := range 2 {
		v, err := h.UnlockWithToken(t.Context(), image, id, UnlockOptions{Slot: AnySlot})
		if err != nil {
			t.Fatal(err)
		}
		if v.Slot != 1 || !bytes.Equal(v.Key(), open(t, image, "small").Key()) {
			t.Errorf("token %d: keyslot %d", id, v.Slot)
		}
		v.Close()
	}
	unlock := func(id, slot int) error {
		_, err := h.UnlockWithToken(t.Context(), image, id, UnlockOptions{Slot: slot})
		return err
	}
	wantNamed(t, unlock(2, AnySlot), ErrWrongPassphrase, "keyslot 0")
	wantNamed(t, unlock(0, 0), ErrNoKeyslot, "keyslot 0")
	wantNamed(t, unlock(3, AnySlot), ErrNoKey, "not there")
	wantNamed(t, unlock(4, AnySlot), ErrUnsupported, "systemd-recovery")
	wantNamed(t, unlock(9, AnySlot), ErrOption, "no token 9")
}
