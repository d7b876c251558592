package hashes

import (
	"encoding/binary"
	"hash"
)

// Whirlpool (ISO/IEC 10118-3:2004, dedicated hash function 7), written here
// because libraries lack what volumes of its time need: the flaw of libgcrypt
// before 1.6, which volumes were made with, and a state that can be wiped.
// It works with tables: it is not constant-time.
type whirlpool struct {
	state  [8]uint64
	block  [whirlpoolBlock]byte
	used   int    // bytes in block
	length uint64 // bytes hashed, as far as they were counted
	size   int    // bytes of the digest, cut from 64
	flawed bool
}

const whirlpoolBlock, whirlpoolSize, whirlpoolRounds = 64, 64, 10

func newWhirlpool(size int, flawed bool) func() hash.Hash {
	return func() hash.Hash { return &whirlpool{size: size, flawed: flawed} }
}

// Reset implements hash.Hash.
func (w *whirlpool) Reset() { *w = whirlpool{size: w.size, flawed: w.flawed} }

// Size implements hash.Hash.
func (w *whirlpool) Size() int { return w.size }

// BlockSize implements hash.Hash.
func (w *whirlpool) BlockSize() int { return whirlpoolBlock }

// Write implements hash.Hash. The flaw is here: bytes that a started block
// takes in without any being left over were not counted into the length, so
// that a digest depends on how its message was cut into writes.
func (w *whirlpool) Write(p []byte) (int, error) {
	n := len(p)
	started := w.used > 0
	if started {
		p = w.fill(p)
	}
	if !w.flawed || !started || len(p) > 0 {
		w.length += uint64(n)
	}
	for len(p) > 0 {
		p = w.fill(p)
	}
	return n, nil
}

// fill takes what fits into the block, and compresses it once it is full.
func (w *whirlpool) fill(p []byte) []byte {
	n := copy(w.block[w.used:], p)
	if w.used += n; w.used == whirlpoolBlock {
		w.compress()
	}
	return p[n:]
}

// Sum implements hash.Hash.
func (w *whirlpool) Sum(b []byte) []byte {
	end := *w
	end.block[end.used] = 0x80
	clear(end.block[end.used+1:])
	if end.used >= whirlpoolBlock-32 { // no room for the length
		end.compress()
		clear(end.block[:])
	}
	binary.BigEndian.PutUint64(end.block[whirlpoolBlock-8:], end.length<<3)
	end.block[whirlpoolBlock-9] = byte(end.length >> 61)
	end.compress()
	var digest [whirlpoolSize]byte
	for i, v := range end.state {
		binary.BigEndian.PutUint64(digest[8*i:], v)
	}
	return append(b, digest[:w.size]...)
}

// compress works the block into the state (Miyaguchi-Preneel over the cipher
// W, whose rounds are the same for key and data).
func (w *whirlpool) compress() {
	var message, data [8]uint64
	key := w.state
	for i := range message {
		message[i] = binary.BigEndian.Uint64(w.block[8*i:])
		data[i] = message[i] ^ key[i]
	}
	for r := range whirlpoolRounds {
		key = whirlpoolRound(&key)
		key[0] ^= whirlpoolConstants[r]
		data = whirlpoolRound(&data)
		for i := range data {
			data[i] ^= key[i]
		}
	}
	for i := range w.state {
		w.state[i] ^= data[i] ^ message[i]
	}
	w.used = 0
}

// whirlpoolRound substitutes, shifts columns and mixes rows.
func whirlpoolRound(in *[8]uint64) (out [8]uint64) {
	for i := range out {
		for t := range whirlpoolTables {
			out[i] ^= whirlpoolTables[t][byte(in[(i-t)&7]>>(56-8*t))]
		}
	}
	return out
}

// whirlpoolTables[t][x] is what a byte x in column t adds to its row;
// whirlpoolConstants are added to the key, a row of the S-box a round.
var (
	whirlpoolTables    [8][256]uint64
	whirlpoolConstants [whirlpoolRounds]uint64
)

func init() {
	box := whirlpoolBox()
	for x, s := range box {
		// The circulant matrix's first row: 1 1 4 1 8 5 2 9.
		s2 := gfDouble(s)
		s4 := gfDouble(s2)
		s8 := gfDouble(s4)
		row := binary.BigEndian.Uint64([]byte{s, s, s4, s, s8, s4 ^ s, s2, s8 ^ s})
		for t := range whirlpoolTables {
			whirlpoolTables[t][x] = row>>(8*t) | row<<(64-8*t)
		}
	}
	for r := range whirlpoolConstants {
		whirlpoolConstants[r] = binary.BigEndian.Uint64(box[8*r:])
	}
}

// gfDouble multiplies by x in GF(2^8) modulo x^8+x^4+x^3+x^2+1.
func gfDouble(b byte) byte { return b<<1 ^ b>>7*0x1d }

// whirlpoolBox builds the S-box from its three small ones.
func whirlpoolBox() (box [256]byte) {
	e := [16]byte{0x1, 0xb, 0x9, 0xc, 0xd, 0x6, 0xf, 0x3, 0xe, 0x8, 0x7, 0x4, 0xa, 0x2, 0x5, 0x0}
	r := [16]byte{0x7, 0xc, 0xb, 0xd, 0xe, 0x4, 0x9, 0xf, 0x6, 0x3, 0x8, 0xa, 0x2, 0x5, 0x1, 0x0}
	var inverse [16]byte
	for x, y := range e {
		inverse[y] = byte(x)
	}
	for x := range box {
		u, v := e[x>>4], inverse[x&15]
		w := r[u^v]
		box[x] = e[u^w]<<4 | inverse[v^w]
	}
	return box
}
