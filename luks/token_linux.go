package luks

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// maxKeyringKey is the kernel's limit on the payload of a key of type "user".
const maxKeyringKey = 32767

func keyringSupported() error { return nil }

// readKeyring returns the payload of a key of type "user": from the session's
// keyring, with all that is linked to it, or the user's.
func readKeyring(description string) (*secret.Buffer, error) {
	id, err := 0, error(nil)
	for _, ring := range []int{unix.KEY_SPEC_SESSION_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING, unix.KEY_SPEC_USER_KEYRING} {
		if id, err = unix.KeyctlSearch(ring, "user", description, 0); err == nil {
			break
		}
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return nil, unsupported("kernel keyring: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoKey, quote(description), err)
	}
	whole := secret.New(maxKeyringKey)
	defer whole.Destroy()
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, whole.Bytes(), 0)
	if err != nil || n > whole.Len() {
		return nil, fmt.Errorf("%w: %s: it cannot be read: %w", ErrNoKey, quote(description), err)
	}
	key := secret.New(n)
	copy(key.Bytes(), whole.Bytes())
	return key, nil
}
