package sector

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"

	"github.com/aead/serpent"
	"github.com/dgryski/go-camellia"
	//lint:ignore SA1019 existing volumes need it
	"golang.org/x/crypto/twofish"
)

// blockKeys are the key lengths in bytes of all block ciphers here.
var blockKeys = []int{16, 24, 32}

// newBlock returns a block cipher by its name. All but AES are plain Go, with
// tables: slow, and not constant-time.
func newBlock(name string, key []byte) (block cipher.Block, err error) {
	switch name {
	case "aes":
		block, err = aes.NewCipher(key)
	case "serpent":
		block, err = serpent.NewCipher(key)
	case "twofish":
		block, err = twofish.NewCipher(key)
	case "camellia":
		block, err = camellia.New(key)
	default:
		err = ErrUnsupported
	}
	if err != nil {
		return nil, fmt.Errorf("cipher %s: %w", name, err)
	}
	return block, nil
}

// doubled returns key sizes of two keys each.
func doubled(sizes []int) (out []int) {
	for _, n := range sizes {
		out = append(out, 2*n)
	}
	return out
}
