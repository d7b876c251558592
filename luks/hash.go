package luks

import (
	"fmt"
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

// flawedWhirlpool is what libgcrypt before 1.6 took for Whirlpool.
const flawedWhirlpool = "whirlpool_gcryptbug"

// checkNewHash refuses what is there only to read old volumes.
func checkNewHash(name string) error {
	if name == flawedWhirlpool {
		return fmt.Errorf("%w: hash %s is flawed, and there only to read old volumes", ErrPolicy, name)
	}
	_, err := hashByName(name)
	return err
}

// quote makes text from a header fit for a message: escaped, and cut.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
