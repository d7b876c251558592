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

// Spec is a cipher string in parts: "aes-xts-plain64" is {Cipher: "aes", Mode:
// "xts", IV: "plain64"}. Modes that take no IV have an empty one:
// "cipher_null-ecb".
type Spec struct {
	Cipher, Mode, IV string

	// Stray is a hash that stands behind an IV which takes none, as in
	// "aes-xts-plain64:sha256". The kernel ignores it, and so does New.
	Stray string
}

// family is one mode with the block cipher and the IVs that it takes.
type family struct {
	cipher, mode string
	ivs          []string // without the hash of essiv; "" is none
	keySizes     []int    // bytes; nil: any
	weak         string   // what is wrong with it; "" if it keeps what it promises
	new          func(s Spec, key []byte, o Options) (Cipher, error)
}

// families lists what Parse knows. Which block cipher takes which mode follows
// what volumes are found with, not what dm-crypt could be talked into.
var families = slices.Concat(
	[]*family{&aesXTS},
	slowXTS("serpent", "twofish", "camellia"),
	cbcFamilies("aes", "serpent", "twofish", "camellia"),
	[]*family{&aesLRW, &aesECB, &nullECB, adiantumFamily(12), adiantumFamily(20)},
)

// maxSpec bounds the length of a cipher string: that of LUKS1's two fields,
// and far beyond any name in use.
const maxSpec = 64

// Parse splits a cipher string and checks that the package knows it. Names of
// the kernel's crypto API ("capi:xts(aes)-plain64") are taken too. The error
// wraps ErrUnsupported.
func Parse(s string) (Spec, error) {
	if len(s) > maxSpec {
		return Spec{}, fmt.Errorf("%w: %q...: longer than %d bytes", ErrUnsupported, s[:maxSpec], maxSpec)
	}
	spec, ok := split(s)
	if !ok {
		return Spec{}, fmt.Errorf("%w: %q", ErrUnsupported, s)
	}
	f := spec.family()
	if f == nil {
		return Spec{}, fmt.Errorf("%w: %q", ErrUnsupported, s)
	}
	if err := spec.checkIV(f); err != nil {
		return Spec{}, fmt.Errorf("%w: %q: %w", ErrUnsupported, s, err)
	}
	return spec, nil
}

// split takes a string apart at its hyphens, of which the cipher has none.
func split(s string) (Spec, bool) {
	if name, ok := strings.CutPrefix(s, capiPrefix); ok {
		return splitCAPI(name)
	}
	parts := strings.SplitN(s, "-", 3)
	if len(parts) < 2 || slices.Contains(parts, "") {
		return Spec{}, false
	}
	spec := Spec{Cipher: parts[0], Mode: parts[1]}
	if len(parts) == 3 {
		spec.IV = parts[2]
	}
	return spec, true
}

// checkIV checks that the family takes the IV, and moves a stray hash away.
func (s *Spec) checkIV(f *family) error {
	name, hash, hasHash := strings.Cut(s.IV, ":")
	if !slices.Contains(f.ivs, name) {
		return fmt.Errorf("IV %q with %s-%s", s.IV, f.cipher, f.mode)
	}
	if name == ivESSIV {
		return checkESSIV(s.Cipher, hash)
	}
	if hasHash {
		if !plainWord(hash) {
			return fmt.Errorf("IV %q with %s-%s", s.IV, f.cipher, f.mode)
		}
		s.IV, s.Stray = name, hash
	}
	return nil
}

// plainWord tells whether s looks like the name of a hash.
func plainWord(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// String returns the cipher string, without a stray hash and never as a name
// of the kernel's crypto API.
func (s Spec) String() string {
	if s.IV == "" {
		return s.Cipher + "-" + s.Mode
	}
	return s.Cipher + "-" + s.Mode + "-" + s.IV
}

// KeySizes returns the lengths of key that the cipher takes, in bytes,
// smallest first; nil for a Spec that Parse would refuse and for a cipher that
// ignores its key.
func (s Spec) KeySizes() []int {
	if f := s.family(); f != nil {
		return slices.Clone(f.keySizes)
	}
	return nil
}

// ValidKeySize reports whether the cipher takes a key of n bytes.
func (s Spec) ValidKeySize(n int) bool {
	f := s.family()
	return f != nil && n >= 0 && (f.keySizes == nil || slices.Contains(f.keySizes, n))
}

// Weakness says why the cipher is only there to read old volumes with, as the
// end of a sentence that begins with its name; "" if it is not so.
func (s Spec) Weakness() string {
	if f := s.family(); f != nil {
		return f.weak
	}
	return ""
}

// ReadOnly says why nothing may be written with the cipher, as the end of a
// sentence that begins with its name; "" if it may: a weak cipher shall not
// get new data, and where a stray hash stands, programs disagree about what it
// means.
func (s Spec) ReadOnly() string {
	if s.Stray != "" {
		return "carries the hash " + s.Stray + ", which its IV does not take"
	}
	return s.Weakness()
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
