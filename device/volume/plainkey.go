package volume

import (
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/xtsdisk/xtsdisk/internal/hashes"
	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// PlainKey derives the key of a plain volume, keySize bytes long, from a
// passphrase as libcryptsetup's plain type does. It is one fast hash, with
// neither salt nor cost: anybody can try passphrases at the speed of the hash.
//
// name is the hash's name ("sha256"), or "plain" to take the first keySize
// bytes of the passphrase as the key, which is what a key file's bytes are for.
// A suffix ":N" hashes (or takes) only N bytes; the rest of the key is zeros.
// Where the key is longer than the hash, it is filled by further rounds, each
// over the passphrase with one more letter A in front.
//
// Errors are ErrOptions (the length is no number from 1 to keySize, or the
// passphrase too short to be taken plain) and ErrUnsupported (the hash). The
// caller wipes the result.
func PlainKey(passphrase []byte, name string, keySize int) ([]byte, error) {
	if keySize <= 0 {
		return nil, fmt.Errorf("%w: key size of %d bytes", ErrOptions, keySize)
	}
	n := keySize
	base, length, limited := strings.Cut(name, ":")
	if limited {
		v, err := strconv.ParseUint(length, 10, 31)
		if err != nil || v == 0 || int(v) > keySize {
			return nil, fmt.Errorf("%w: hash %q: its length is not a number from 1 to the key size, %d bytes", ErrOptions, name, keySize)
		}
		n = int(v)
	}
	if base == "plain" {
		if len(passphrase) < n {
			return nil, fmt.Errorf("%w: %d bytes of passphrase or key file where the key takes %d", ErrOptions, len(passphrase), n)
		}
		key := make([]byte, keySize)
		copy(key[:n], passphrase)
		return key, nil
	}
	newHash := hashes.ByName(base)
	if newHash == nil {
		return nil, fmt.Errorf("%w: hash %q for a plain volume's key", ErrUnsupported, name)
	}
	key := make([]byte, keySize)
	fillPlainKey(key[:n], passphrase, newHash())
	return key, nil
}

func fillPlainKey(key, passphrase []byte, h hash.Hash) {
	sum := make([]byte, 0, h.Size())
	for round := 0; len(key) > 0; round++ {
		h.Reset()
		for range round {
			h.Write([]byte{'A'})
		}
		h.Write(passphrase)
		sum = h.Sum(sum[:0])
		key = key[copy(key, sum):]
	}
	hashes.Forget(h)
	secret.Wipe(sum)
}
