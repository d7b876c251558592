package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// keyExpansion writes expandKey: FIPS 197, section 5.2, by AESKEYGENASSIST,
// and the keys of the equivalent inverse cipher, section 5.3.5, by AESIMC.
// SSE only: every level uses it.
//
// The words of the schedule come out in one stream, which ends in slot 14 and
// so begins where the key size says; its first key then goes to slot 0.
func keyExpansion(e *emitter) {
	x := &expansion{emitter: e}
	e.text("expandKey", "func(key *byte, rounds uint64, enc, dec *byte)",
		"expandKey expands an AES key of 16, 24 or 32 bytes, for 10, 12 or 14 rounds,",
		"into the 15 slots at enc, and the keys for decryption into those at dec,",
		"unless dec is nil.")
	e.registers("AX: key, then the last slot of enc", "BX: rounds", "DI: next place in the stream", "SI: dec",
		"CX: rounds left", "R8: enc",
		"X0, X1: the last words of the schedule", "X2: their contribution through the S-box", "X3: scratch")
	e.arg("key", tmp)
	e.arg("rounds", rounds)
	e.arg("enc", sched)
	e.arg("dec", src)
	e.MOVQ(operand.U32(slots-1), dst)
	e.SUBQ(rounds, dst)
	e.SHLQ(operand.U8(4), dst)
	e.ADDQ(sched, dst)

	aes192, aes256, expanded := e.label("aes192x"), e.label("aes256x"), e.label("expanded")
	e.MOVOU(at(tmp, 0), x.a())
	e.CMPQ(rounds, operand.U8(12))
	e.JEQ(aes192)
	e.JHI(aes256)
	x.aes128()
	e.JMP(expanded)
	e.place(aes192)
	x.aes192()
	e.JMP(expanded)
	e.place(aes256)
	x.aes256()

	e.place(expanded)
	x.finish()
	e.section("exit: nothing of the key stays in a register")
	for i := range 4 {
		e.PXOR(xmm[i], xmm[i])
	}
	e.RET()
}

type expansion struct {
	*emitter
	stored int // bytes of the stream so far
}

func (x *expansion) a() reg.VecPhysical { return xmm[0] }
func (x *expansion) b() reg.VecPhysical { return xmm[1] }

// store appends a whole key, or the first two words of v, to the stream.
func (x *expansion) store(v reg.VecPhysical, bytes int) {
	if bytes == 16 {
		x.MOVOU(v, at(dst, x.stored))
	} else {
		x.MOVQ(v, at(dst, x.stored))
	}
	x.stored += bytes
}

// mix makes the next words in v: each is the xor of all words of v up to it
// with the S-box's contribution, word i of AESKEYGENASSIST's result for from.
func (x *expansion) mix(v, from reg.VecPhysical, rcon, word int) {
	box, t := xmm[2], xmm[3]
	x.AESKEYGENASSIST(operand.U8(rcon), from, box)
	x.PSHUFD(operand.U8(0b01010101*word), box, box)
	x.MOVOU(v, t)
	for range 3 {
		x.PSLLDQ(operand.U8(4), t)
		x.PXOR(t, v)
	}
	x.PXOR(box, v)
}

// rcon returns the round constant x^(i-1), FIPS 197 section 5.2.
func rcon(i int) int {
	c := 1
	for range i - 1 {
		if c <<= 1; c > 0xff {
			c ^= 0x11b
		}
	}
	return c
}

func (x *expansion) aes128() {
	x.section("AES-128: 10 steps of 4 words")
	x.stored = 0
	x.store(x.a(), 16)
	for i := 1; i <= 10; i++ {
		x.mix(x.a(), x.a(), rcon(i), 3)
		x.store(x.a(), 16)
	}
}

func (x *expansion) aes192() {
	x.section("AES-192: 8 steps of 6 words, the last of 4")
	x.stored = 0
	x.MOVQ(at(tmp, 16), x.b())
	x.store(x.a(), 16)
	x.store(x.b(), 8)
	for i := 1; i <= 8; i++ {
		x.mix(x.a(), x.b(), rcon(i), 1)
		x.store(x.a(), 16)
		if i == 8 {
			break
		}
		t := xmm[3]
		x.MOVOU(x.b(), t)
		x.PSLLDQ(operand.U8(4), t)
		x.PXOR(t, x.b())
		x.PSHUFD(operand.U8(0xff), x.a(), t)
		x.PXOR(t, x.b())
		x.store(x.b(), 8)
	}
}

func (x *expansion) aes256() {
	x.section("AES-256: 7 steps of 8 words, the last of 4")
	x.stored = 0
	x.MOVOU(at(tmp, 16), x.b())
	x.store(x.a(), 16)
	x.store(x.b(), 16)
	for i := 1; i <= 7; i++ {
		x.mix(x.a(), x.b(), rcon(i), 3)
		x.store(x.a(), 16)
		if i < 7 {
			x.mix(x.b(), x.a(), 0, 2)
			x.store(x.b(), 16)
		}
	}
}

// finish puts the first key in slot 0 and makes the inverse cipher's keys: in
// reverse order, and all but the outer two through InvMixColumns.
func (x *expansion) finish() {
	done, inverse := x.label("done"), x.label("inverse")
	x.section("first key to slot 0")
	x.MOVOU(at(dst, 0), x.a())
	x.MOVOU(x.a(), at(sched, 0))
	x.TESTQ(src, src)
	x.JZ(done)
	x.section("keys of the inverse cipher, from both ends")
	x.MOVOU(x.a(), at(src, (slots-1)*slotBytes))
	x.LEAQ(at(sched, (slots-1)*slotBytes), tmp)
	x.MOVOU(at(tmp, 0), x.b())
	x.MOVOU(x.b(), at(src, 0))
	x.Comment("dec's stream begins as far into dec as enc's into enc")
	x.SUBQ(sched, dst)
	x.ADDQ(src, dst)
	x.LEAQ(at(rounds, -1), loop)
	x.place(inverse)
	x.SUBQ(operand.U8(slotBytes), tmp)
	x.ADDQ(operand.U8(slotBytes), dst)
	x.MOVOU(at(tmp, 0), x.a())
	x.AESIMC(x.a(), x.b())
	x.MOVOU(x.b(), at(dst, 0))
	x.DECQ(loop)
	x.JNZ(inverse)
	x.place(done)
}
