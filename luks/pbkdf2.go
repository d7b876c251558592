package luks

import (
	"context"
	"encoding"
	"encoding/binary"
	"hash"

	"github.com/xtsdisk/xtsdisk/internal/hashes"
	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// pbkdf2 is PBKDF2 (RFC 8018, section 5.2) over HMAC. Unlike the standard
// library's it takes the passphrase as bytes that can be wiped, leaves nothing
// of it behind, and can be interrupted. The caller wipes the result.
func pbkdf2(ctx context.Context, newHash func() hash.Hash, passphrase, salt []byte, iterations, size int) ([]byte, error) {
	secret.EraseStack() // makes room: a stack that grows is left behind as it is
	defer secret.EraseStack()
	prf := newPRF(newHash, passphrase)
	defer prf.wipe()
	n := prf.inner.Size()
	blocks := (size + n - 1) / n
	key := make([]byte, 0, blocks*n)
	u := make([]byte, n)
	defer secret.Wipe(u)
	for block := 1; block <= blocks; block++ {
		prf.begin()
		prf.inner.Write(salt)
		prf.inner.Write(binary.BigEndian.AppendUint32(nil, uint32(block)))
		prf.finish(u)
		key = append(key, u...)
		t := key[len(key)-n:]
		for i := 1; i < iterations; i++ {
			if i%4096 == 0 && ctx.Err() != nil {
				secret.Wipe(key)
				return nil, ctx.Err()
			}
			prf.begin()
			prf.inner.Write(u)
			prf.finish(u)
			for j, b := range u {
				t[j] ^= b
			}
		}
	}
	secret.Wipe(key[size:])
	return key[:size], nil
}

// prf is HMAC (RFC 2104) under one key, to be wiped. crypto/hmac's keeps the
// key under the two pads, which are constants, in memory that it lets go of
// and nobody can clear.
type prf struct {
	inner, outer hash.Hash
	// What the hash functions begin with: their state after the key's block,
	// or, if a hash function does not give its state away, the block itself.
	innerStart, outerStart []byte
}

const innerPad, outerPad = 0x36, 0x5c

func newPRF(newHash func() hash.Hash, key []byte) *prf {
	p := &prf{inner: newHash(), outer: newHash()}
	block := make([]byte, p.inner.BlockSize())
	defer secret.Wipe(block)
	if len(key) > len(block) {
		p.inner.Write(key)
		p.inner.Sum(block[:0])
	} else {
		copy(block, key)
	}
	for i := range block {
		block[i] ^= innerPad
	}
	p.innerStart = start(p.inner, block)
	for i := range block {
		block[i] ^= innerPad ^ outerPad
	}
	p.outerStart = start(p.outer, block)
	return p
}

// hashState is a hash function that can be set back to an earlier state. All
// of package hashes can, but for RIPEMD-160.
type hashState interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

func start(h hash.Hash, block []byte) []byte {
	h.Reset()
	h.Write(block)
	if s, ok := h.(hashState); ok {
		if state, err := s.MarshalBinary(); err == nil {
			return state
		}
	}
	return append([]byte(nil), block...)
}

// restart undoes all that was written to h since start.
func restart(h hash.Hash, start []byte) {
	if s, ok := h.(hashState); ok && s.UnmarshalBinary(start) == nil {
		return
	}
	h.Reset()
	h.Write(start)
}

// begin starts the next message, which is to be written to p.inner.
func (p *prf) begin() { restart(p.inner, p.innerStart) }

// finish puts the message's code into out, which has its length.
func (p *prf) finish(out []byte) {
	p.inner.Sum(out[:0])
	restart(p.outer, p.outerStart)
	p.outer.Write(out)
	p.outer.Sum(out[:0])
}

func (p *prf) wipe() {
	secret.Wipe(p.innerStart)
	secret.Wipe(p.outerStart)
	hashes.Forget(p.inner)
	hashes.Forget(p.outer)
}
