package luks

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"hash"

	"github.com/xtsdisk/xtsdisk/internal/hashes"
	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// The anti-forensic split (LUKS1 On-Disk Format Specification 1.2.3, section
// 2.4; LUKS2 takes it over) spreads a key over many stripes, all of which are
// needed to get it back, so that wiping any part of a keyslot's area destroys
// the key.

// afSplit returns len(key)*stripes bytes that afMerge turns back into key. All
// stripes but the last are random.
func afSplit(key []byte, stripes int, newHash func() hash.Hash) []byte {
	n := len(key)
	out := make([]byte, n*stripes)
	last := out[n*(stripes-1):]
	_, _ = rand.Read(out[:n*(stripes-1)]) // never fails
	sum := afSum(out[:n*(stripes-1)], n, newHash)
	defer secret.Wipe(sum)
	subtle.XORBytes(last, sum, key)
	return out
}

// afMerge writes the key that material holds into key.
func afMerge(key, material []byte, newHash func() hash.Hash) {
	n := len(key)
	last := material[len(material)-n:]
	sum := afSum(material[:len(material)-n], n, newHash)
	defer secret.Wipe(sum)
	subtle.XORBytes(key, sum, last)
}

// afSum folds all stripes but the last: xor, diffuse, and so on.
func afSum(stripes []byte, n int, newHash func() hash.Hash) []byte {
	sum := make([]byte, n)
	h := newHash()
	scratch := make([]byte, 0, h.Size())
	for ; len(stripes) > 0; stripes = stripes[n:] {
		subtle.XORBytes(sum, sum, stripes[:n])
		scratch = afDiffuse(sum, h, scratch)
	}
	secret.Wipe(scratch[:cap(scratch)])
	hashes.Forget(h)
	return sum
}

// afDiffuse replaces each part of b, as long as a digest of h, by the digest of
// its number and itself, cut to the part's length at the end.
func afDiffuse(b []byte, h hash.Hash, scratch []byte) []byte {
	var number [4]byte
	for i := 0; len(b) > 0; i++ {
		part := b[:min(len(b), h.Size())]
		binary.BigEndian.PutUint32(number[:], uint32(i))
		h.Reset()
		h.Write(number[:])
		h.Write(part)
		scratch = h.Sum(scratch[:0])
		copy(part, scratch)
		b = b[len(part):]
	}
	return scratch
}
