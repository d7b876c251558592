// Package hashes finds hash functions by the names that cryptsetup and LUKS
// headers give them.
package hashes

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"hash"
	"maps"
	"slices"

	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/blake2s"
	//lint:ignore SA1019 existing volumes need it
	"golang.org/x/crypto/ripemd160"
)

// Some of them nothing new should use, ripemd160 having been cryptsetup's own
// default for plain volumes up to 2.6; but data hangs on them.
var byName = map[string]func() hash.Hash{
	"ripemd160":   ripemd160.New,
	"sha1":        sha1.New,
	"sha224":      sha256.New224,
	"sha256":      sha256.New,
	"sha384":      sha512.New384,
	"sha512":      sha512.New,
	"sha3-224":    func() hash.Hash { return sha3.New224() },
	"sha3-256":    func() hash.Hash { return sha3.New256() },
	"sha3-384":    func() hash.Hash { return sha3.New384() },
	"sha3-512":    func() hash.Hash { return sha3.New512() },
	"blake2b-160": func() hash.Hash { return unkeyed(blake2b.New(20, nil)) },
	"blake2b-256": func() hash.Hash { return unkeyed(blake2b.New256(nil)) },
	"blake2b-384": func() hash.Hash { return unkeyed(blake2b.New384(nil)) },
	"blake2b-512": func() hash.Hash { return unkeyed(blake2b.New512(nil)) },
	"blake2s-256": func() hash.Hash { return unkeyed(blake2s.New256(nil)) },
	"whirlpool":   newWhirlpool(whirlpoolSize, false),
	"wp512":       newWhirlpool(whirlpoolSize, false), // the kernel's names, in essiv:
	"wp384":       newWhirlpool(48, false),
	"wp256":       newWhirlpool(32, false),
	// What libgcrypt before 1.6 took for Whirlpool; cryptsetup's name for it.
	"whirlpool_gcryptbug": newWhirlpool(whirlpoolSize, true),
}

// unkeyed drops the error of BLAKE2's constructors, which only a key can cause.
func unkeyed(h hash.Hash, _ error) hash.Hash { return h }

// ByName returns the constructor of a hash function, or nil if there is none
// of that name.
func ByName(name string) func() hash.Hash { return byName[name] }

// Forget overwrites what h still holds of its input, which its Reset does not:
// the block that it collects, which a whole block at once would pass by, and
// the registers that it used. h is as new afterwards.
func Forget(h hash.Hash) {
	zeros := make([]byte, h.BlockSize())
	h.Reset()
	h.Write(zeros[:1])
	h.Write(zeros[1:])
	h.Sum(zeros[:0])
	h.Reset()
}

// Names lists the names that ByName knows, sorted.
func Names() []string { return slices.Sorted(maps.Keys(byName)) }
