package luks

import (
	"hash"
	"strconv"

	"github.com/xtsdisk/xtsdisk/internal/hashes"
)

// hashByName finds the hash function of PBKDF2, a digest, an anti-forensic
// split or a header checksum.
func hashByName(name string) (func() hash.Hash, error) {
	if h := hashes.ByName(name); h != nil {
		return h, nil
	}
	return nil, unsupported("hash %s", quote(name))
}

// quote makes text from a header fit for a message: escaped, and cut.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
