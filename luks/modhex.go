package luks

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// A recovery key is 256 random bits as systemd-cryptenroll writes them: 64
// characters of modhex, the 16 letters that lie in the same place on most
// keyboards, in eight groups of eight. The text, hyphens included, is the
// passphrase.
const (
	recoveryBytes  = 32
	recoveryGroup  = 8
	recoveryLength = 2*recoveryBytes + 2*recoveryBytes/recoveryGroup - 1

	modhex = "cbdefghijklnrtuv"
)

// RecoveryKDF is the key derivation for recovery keys: the least that is
// allowed, since nobody guesses 256 random bits.
var RecoveryKDF = KDF{Type: KDFPBKDF2, Hash: "sha512", Iterations: minPBKDF2Iterations}

// NewRecoveryKey returns a random recovery key. The caller destroys it.
func NewRecoveryKey() *secret.Buffer {
	random := secret.New(recoveryBytes)
	defer random.Destroy()
	_, _ = rand.Read(random.Bytes()) // never fails
	digits := secret.New(2 * recoveryBytes)
	defer digits.Destroy()
	for i, b := range random.Bytes() {
		digits.Bytes()[2*i] = modhex[b>>4]
		digits.Bytes()[2*i+1] = modhex[b&15]
	}
	return groupRecovery(digits.Bytes())
}

// groupRecovery puts hyphens between the groups.
func groupRecovery(digits []byte) *secret.Buffer {
	key := secret.New(recoveryLength)
	out := key.Bytes()[:0]
	for i, c := range digits {
		if i > 0 && i%recoveryGroup == 0 {
			out = append(out, '-')
		}
		out = append(out, c)
	}
	return key
}

// ParseRecoveryKey returns a recovery key that a person typed as it is stored:
// in lower case, with its hyphens; white space around it does not count. The
// caller destroys the result. Errors wrap ErrOption and do not quote the text.
func ParseRecoveryKey(typed []byte) (*secret.Buffer, error) {
	digits := secret.New(2 * recoveryBytes)
	defer digits.Destroy()
	n := 0
	for i, c := range typed {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		switch {
		case c == '-' || c == ' ' || c == '\r' || c == '\n' || c == '\t':
			continue
		case strings.IndexByte(modhex, c) < 0:
			return nil, fmt.Errorf("%w: recovery key: byte %d is none of the letters %s", ErrOption, i, modhex)
		case n < digits.Len():
			digits.Bytes()[n] = c
		}
		n++
	}
	if n != digits.Len() {
		return nil, fmt.Errorf("%w: recovery key of %d letters, not %d", ErrOption, n, digits.Len())
	}
	return groupRecovery(digits.Bytes()), nil
}
