package sector

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnsupported tells that a cipher string is none that this package knows.
// The error that wraps it names the part at fault.
var ErrUnsupported = errors.New("unsupported cipher")

// Spec is a cipher string in parts: "aes-xts-plain64" is {"aes", "xts",
// "plain64"}.
type Spec struct {
	Cipher, Mode, IV string
}

// family is one mode with the block ciphers and IV generators it takes.
type family struct {
	cipher, mode string
	ivs          []string
	keySizes     []int // bytes
	new          func(s Spec, key []byte, o Options) (Cipher, error)
}

var families = []*family{&aesXTS}

// maxSpec bounds the length of a cipher string: that of LUKS1's two fields,
// and far beyond any name in use.
const maxSpec = 64

// Parse splits a cipher string and checks that the package knows it. The
// error wraps ErrUnsupported.
func Parse(s string) (Spec, error) {
	if len(s) > maxSpec {
		return Spec{}, fmt.Errorf("%w: %q...: longer than %d bytes", ErrUnsupported, s[:maxSpec], maxSpec)
	}
	parts := strings.SplitN(s, "-", 3)
	if len(parts) != 3 || slices.Contains(parts, "") {
		return Spec{}, fmt.Errorf("%w: %q", ErrUnsupported, s)
	}
	spec := Spec{Cipher: parts[0], Mode: parts[1], IV: parts[2]}
	f := spec.family()
	if f == nil {
		return Spec{}, spec.unsupported()
	}
	if !slices.Contains(f.ivs, spec.IV) {
		return Spec{}, fmt.Errorf("%w: %q: IV %q with %s-%s", ErrUnsupported, s, spec.IV, f.cipher, f.mode)
	}
	return spec, nil
}

// String returns the cipher string.
func (s Spec) String() string { return s.Cipher + "-" + s.Mode + "-" + s.IV }

// KeySizes returns the lengths of key that the cipher takes, in bytes,
// smallest first; nil for a Spec that Parse would refuse.
func (s Spec) KeySizes() []int {
	if f := s.family(); f != nil {
		return slices.Clone(f.keySizes)
	}
	return nil
}

// ValidKeySize reports whether the cipher takes a key of n bytes.
func (s Spec) ValidKeySize(n int) bool {
	f := s.family()
	return f != nil && slices.Contains(f.keySizes, n)
}

func (s Spec) family() *family {
	for _, f := range families {
		if f.cipher == s.Cipher && f.mode == s.Mode {
			return f
		}
	}
	return nil
}

func (s Spec) unsupported() error {
	return fmt.Errorf("%w: %q", ErrUnsupported, s.String())
}
