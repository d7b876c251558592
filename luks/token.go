package luks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// Token types with a meaning (specification, section 3.6, and systemd's).
const (
	// TokenKeyring names a key of the kernel's keyring that is the passphrase.
	TokenKeyring = "luks2-keyring"
	// TokenRecovery marks the keyslot of a recovery key, for people and programs
	// that list keyslots; it opens nothing by itself.
	TokenRecovery = "systemd-recovery"
)

// maxToken bounds the text of a token, in bytes: the largest JSON area there is.
const maxToken = 4 << 20

// CheckToken checks the JSON of a token: one object with a type and an array of
// keyslots, and for type "luks2-keyring" a description. White space around the
// object is dropped, the object itself is kept byte for byte. The result has no
// ID. Errors wrap ErrOption.
func CheckToken(text []byte) (Token, error) {
	text = bytes.TrimSpace(text)
	if len(text) > maxToken {
		return Token{}, fmt.Errorf("%w: token of %d bytes", ErrOption, len(text))
	}
	o, err := parseJSON(string(text))
	if err == nil && bytes.IndexByte(text, 0) >= 0 {
		err = errors.New("it has a NUL")
	}
	if err != nil {
		return Token{}, notToken(err)
	}
	f := &fields{}
	t := decodeToken(0, node{fields: f, path: "token", obj: o})
	if f.err == nil && t.Type == "" {
		f.fail("token.type", "is empty")
	}
	if f.err == nil && t.Type == TokenKeyring {
		_, f.err = t.description()
	}
	if f.err != nil {
		return Token{}, notToken(f.err)
	}
	t.JSON = slices.Clone(text)
	return t, nil
}

func notToken(err error) error { return fmt.Errorf("%w: not a token: %v", ErrOption, err) }

// KeyringToken returns the JSON of a token of type "luks2-keyring": the key
// with this description, of type "user", is the passphrase of the keyslots.
func KeyringToken(description string, keyslots []int) []byte {
	return encodeJSON(struct {
		Type        string   `json:"type"`
		Keyslots    []string `json:"keyslots"`
		Description string   `json:"key_description"`
	}{TokenKeyring, encodeIDs(keyslots), description})
}

// RecoveryToken returns the JSON of a token of type "systemd-recovery".
func RecoveryToken(keyslot int) []byte {
	return encodeJSON(struct {
		Type     string   `json:"type"`
		Keyslots []string `json:"keyslots"`
	}{TokenRecovery, encodeIDs([]int{keyslot})})
}

// description is the name of the key that a keyring token points at.
func (t *Token) description() (string, error) {
	o, err := parseJSON(string(t.JSON))
	if err != nil {
		return "", err
	}
	f := &fields{}
	s := node{fields: f, path: fmt.Sprintf("tokens.%d", t.ID), obj: o}.string("key_description")
	if f.err == nil && s == "" {
		f.fail(fmt.Sprintf("tokens.%d.key_description", t.ID), "is empty")
	}
	return s, f.err
}

// Supported returns nil if this package can open a keyslot by the token, or
// ErrUnsupported that names its type.
func (t *Token) Supported() error {
	if t.Type != TokenKeyring {
		return unsupported("token type %s", quote(t.Type))
	}
	return keyringSupported()
}

// ErrNoKey: the kernel's keyring has no such key, or it may not be read.
var ErrNoKey = errors.New("no key in the keyring")

// UnlockWithToken opens a keyslot with what a token gives: for type
// "luks2-keyring" the passphrase from the kernel's keyring (Linux only). The
// token's keyslots are tried, or if it names none all of them, within what o
// allows. Errors are ErrOption (no such token), ErrUnsupported, ErrNoKey and
// those of Unlock.
func (h *Header) UnlockWithToken(ctx context.Context, r io.ReaderAt, id int, o UnlockOptions) (*Volume, error) {
	i := slices.IndexFunc(h.Tokens, func(t Token) bool { return t.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("%w: there is no token %d", ErrOption, id)
	}
	t := &h.Tokens[i]
	if err := t.Supported(); err != nil {
		return nil, fmt.Errorf("token %d: %w", id, err)
	}
	name, err := t.description()
	if err != nil {
		return nil, err
	}
	passphrase, err := readKeyring(name)
	if err != nil {
		return nil, fmt.Errorf("token %d: %w", id, err)
	}
	defer passphrase.Destroy()
	return h.unlockSlots(ctx, r, passphrase, t.Keyslots, o)
}

// unlockSlots tries the keyslots in turn; none stands for all.
func (h *Header) unlockSlots(ctx context.Context, r io.ReaderAt, passphrase *secret.Buffer, slots []int, o UnlockOptions) (v *Volume, err error) {
	if len(slots) == 0 || o.Slot != AnySlot && slices.Contains(slots, o.Slot) {
		return h.Unlock(ctx, r, passphrase.Bytes(), o)
	}
	if o.Slot != AnySlot {
		return nil, fmt.Errorf("%w: the token is not for keyslot %d", ErrNoKeyslot, o.Slot)
	}
	for _, o.Slot = range slots {
		if v, err = h.Unlock(ctx, r, passphrase.Bytes(), o); err == nil || ctx.Err() != nil {
			return v, err
		}
	}
	return nil, err
}
