package luks

import (
	"context"
	"crypto/rand"
	"crypto/subtle"

	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// minDigestIterations is the least that the specification and cryptsetup take
// for a digest. The volume key is random, so guessing it is hopeless at any
// count.
const minDigestIterations = 1000

// supported returns nil if this package can compute d.
func (d *Digest) supported() error {
	if d.Type != KDFPBKDF2 {
		return unsupported("digest type %s", quote(d.Type))
	}
	return d.KDF.supported()
}

// verify reports whether key is the one that d was made of. PBKDF2 pads keys
// with zeros, so the caller compares the length first.
func (d *Digest) verify(ctx context.Context, key []byte) (bool, error) {
	sum, err := d.KDF.derive(ctx, key, len(d.Value))
	if err != nil {
		return false, err
	}
	defer secret.Wipe(sum)
	return subtle.ConstantTimeCompare(sum, d.Value) == 1, nil
}

// newDigest makes the digest of a volume key, with as many bytes as its hash gives.
func newDigest(ctx context.Context, key []byte, hashName string, iterations int) (Digest, error) {
	newHash, err := hashByName(hashName)
	if err != nil {
		return Digest{}, err
	}
	d := Digest{Type: KDFPBKDF2, KDF: KDF{Type: KDFPBKDF2, Hash: hashName, Iterations: iterations, Salt: randomBytes(newSaltSize)}}
	d.Value, err = d.KDF.derive(ctx, key, newHash().Size())
	return d, err
}

// newSaltSize is the length in bytes of new salts of KDFs and digests.
const newSaltSize = 32

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}
