package sector

import "strings"

// capiPrefix begins a cipher string that names a template of the kernel's
// crypto API instead of cipher and mode (Linux, drivers/md/dm-crypt.c,
// crypt_ctr_cipher_new).
const capiPrefix = "capi:"

// splitCAPI takes "xts(aes)-plain64" apart. Inside the brackets there may be
// another mode, ecb, which is how the kernel builds its xts, and the name of an
// implementation: "xts(ecb(aes-generic))".
func splitCAPI(s string) (Spec, bool) {
	mode, rest, ok := strings.Cut(s, "(")
	end := strings.LastIndexByte(rest, ')')
	if !ok || end < 0 {
		return Spec{}, false
	}
	inner, iv := rest[:end], rest[end+1:]
	if iv != "" {
		if iv, ok = strings.CutPrefix(iv, "-"); !ok || iv == "" {
			return Spec{}, false
		}
	}
	if in, ok := strings.CutPrefix(inner, "ecb("); ok && mode != "ecb" {
		if inner, ok = strings.CutSuffix(in, ")"); !ok {
			return Spec{}, false
		}
	}
	return Spec{Cipher: capiCipher(inner), Mode: mode, IV: iv}, true
}

// capiCipher drops what names an implementation rather than a cipher.
func capiCipher(s string) string {
	for _, name := range []string{"aes", "serpent", "twofish", "camellia"} {
		if s == name+"-generic" {
			return name
		}
	}
	return s
}
