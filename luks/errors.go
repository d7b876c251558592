package luks

import (
	"errors"
	"fmt"

	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// Errors that a caller decides by. Every error of this package that has one
// of these reasons wraps exactly one of them; the text names the field or
// keyslot, the value and, where there is one, the offset.
var (
	// ErrNotLUKS: there is no LUKS header.
	ErrNotLUKS = errors.New("not a LUKS volume")
	// ErrHeaderCorrupt: there is a header, and no copy of it is whole.
	ErrHeaderCorrupt = errors.New("LUKS header damaged")
	// ErrUnsupported: a cipher, hash, KDF, requirement or version that this
	// package does not know. The text names it.
	ErrUnsupported = errors.New("unsupported")
	// ErrPolicy: refused although it could be done.
	ErrPolicy = errors.New("refused")
	// ErrWrongPassphrase: no keyslot opens with this passphrase, or the given
	// key is not the volume's.
	ErrWrongPassphrase = errors.New("wrong passphrase")
	// ErrKeyslotDamaged: every keyslot that could open is measurably damaged,
	// so that no passphrase can be right.
	ErrKeyslotDamaged = errors.New("keyslot damaged")
	// ErrNoKeyslot: there is no such keyslot, or none that could open.
	ErrNoKeyslot = errors.New("no usable keyslot")
	// ErrNoMemory: a KDF needs more memory than the process may use.
	ErrNoMemory = errors.New("not enough memory")
	// ErrOption: an option is outside what the format or cryptsetup allows.
	ErrOption = errors.New("invalid option")
	// ErrSize: the storage is too small for the header and any data.
	ErrSize = errors.New("size does not fit")
)

// errVersion marks the magic of LUKS with a version that is not 2: whatever it
// is, it is no damaged LUKS2 header.
var errVersion = errors.New("LUKS version")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrHeaderCorrupt}, args...)...)
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w "+format, append([]any{ErrUnsupported}, args...)...)
}

// cipherError turns the error of a cipher string into this package's.
func cipherError(err error) error {
	if errors.Is(err, sector.ErrUnsupported) {
		return &kindError{kind: ErrUnsupported, err: err}
	}
	return err
}

// kindError gives an error one of the sentinels without repeating it in the text.
type kindError struct {
	kind, err error
}

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }
