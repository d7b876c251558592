package luks

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
)

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return formatUUID(b)
}

// parseUUID checks a UUID in its usual form and returns it in lower case.
func parseUUID(s string) (string, error) {
	var b [16]byte
	digits := strings.ReplaceAll(s, "-", "")
	if len(s) == 36 && len(digits) == 32 {
		if _, err := hex.Decode(b[:], []byte(digits)); err == nil {
			if u := formatUUID(b); strings.EqualFold(u, s) {
				return u, nil
			}
		}
	}
	return "", fmt.Errorf("%w: UUID %s is not 32 hexadecimal digits in groups of 8-4-4-4-12", ErrOption, quote(s))
}

func formatUUID(b [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
