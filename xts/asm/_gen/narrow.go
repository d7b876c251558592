package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrow is what the kernels on 128-bit registers share: instructions in
// either encoding, and the blocks after the last whole group. With SSE
// encodings memory operands are all in moves: in any other instruction they
// would have to be 16-byte aligned, which neither data nor Go's structs are.
//
// Instructions are named by what they do, operands in Go's order: sources, then
// destination. With SSE encodings a destination that is not the last source
// takes a move first, which renaming takes over on any processor with AES-NI
// but the first two.
type narrow struct {
	*emitter
	vex  bool
	regs narrowRegisters

	// compact code of tails has a loop of one round instead of all rounds;
	// aesni4 is small enough without.
	compact bool

	encrypt, encrypted operand.LabelRef // of the function being written
}

// narrowRegisters are those that differ between the kernels. The last four are
// used in the tail only, where they may be what a group uses otherwise.
type narrowRegisters struct {
	ahead reg.VecPhysical // the next sector's encrypted tweak
	key   reg.VecPhysical // a round key

	partial reg.VecPhysical // the partial block, zeros after it
	join    reg.VecPhysical // the joined block's tweak
	end     reg.VecPhysical
	scratch reg.VecPhysical
}

// blocks are as many as a pass does at once.
const blocks = 4

func (k *narrow) data(i int) reg.VecPhysical  { return xmm[i] }
func (k *narrow) tweak(i int) reg.VecPhysical { return xmm[blocks+i] }
func (k *narrow) ahead() reg.VecPhysical      { return k.regs.ahead }
func (k *narrow) keyTemp() reg.VecPhysical    { return k.regs.key }

func (k *narrow) move(from, to reg.Register) {
	switch {
	case from == to:
	case k.vex:
		k.VMOVDQA(from, to)
	default:
		k.MOVO(from, to)
	}
}

func (k *narrow) load(from operand.Mem, to reg.Register) {
	if k.vex {
		k.VMOVDQU(from, to)
	} else {
		k.MOVOU(from, to)
	}
}

func (k *narrow) store(from reg.Register, to operand.Mem) {
	if k.vex {
		k.VMOVDQU(from, to)
	} else {
		k.MOVOU(from, to)
	}
}

// do emits an instruction that makes to from the sources a and to by SSE, or
// from a and b by VEX.
func (k *narrow) do(sse func(a, to operand.Op), vex func(a, b, to operand.Op), a operand.Op, b, to reg.Register) {
	if k.vex {
		vex(a, b, to)
		return
	}
	if a == to && b != to {
		panic("the first source would be overwritten")
	}
	k.move(b, to)
	sse(a, to)
}

// three is an instruction whose other forms have other numbers of operands.
func three(f func(...operand.Op)) func(a, b, to operand.Op) {
	return func(a, b, to operand.Op) { f(a, b, to) }
}

func (k *narrow) xor(a operand.Op, b, to reg.Register) { k.do(k.PXOR, k.VPXOR, a, b, to) }

// shuffle permutes the bytes of v by the indices in by.
func (k *narrow) shuffle(by operand.Op, v, to reg.Register) {
	k.do(k.PSHUFB, three(k.VPSHUFB), by, v, to)
}

// bytesUp and bytesDown shift by n bytes, bitsUp and bitsDown each quadword by
// n bits.
func (k *narrow) bytesUp(n int, v, to reg.Register) {
	k.do(k.PSLLDQ, k.VPSLLDQ, operand.U8(n), v, to)
}
func (k *narrow) bytesDown(n int, v, to reg.Register) {
	k.do(k.PSRLDQ, k.VPSRLDQ, operand.U8(n), v, to)
}
func (k *narrow) bitsUp(n int, v, to reg.Register) {
	k.do(k.PSLLQ, three(k.VPSLLQ), operand.U8(n), v, to)
}
func (k *narrow) bitsDown(n int, v, to reg.Register) {
	k.do(k.PSRLQ, three(k.VPSRLQ), operand.U8(n), v, to)
}

// aesRound and aesLast do a round of the data's cipher on v.
func (k *narrow) aesRound(dec bool, key operand.Op, v reg.Register) {
	if dec {
		k.do(k.AESDEC, k.VAESDEC, key, v, v)
	} else {
		k.do(k.AESENC, k.VAESENC, key, v, v)
	}
}

func (k *narrow) aesLast(dec bool, key operand.Op, v reg.Register) {
	if dec {
		k.do(k.AESDECLAST, k.VAESDECLAST, key, v, v)
	} else {
		k.do(k.AESENCLAST, k.VAESENCLAST, key, v, v)
	}
}

// key loads a round key of the data key.
func (k *narrow) key(dec bool, slot int) reg.VecPhysical {
	k.load(at(sched, keyOffset(dec, slot)), k.keyTemp())
	return k.keyTemp()
}

// firstTweak encrypts the first sector's tweak and takes it. A batch is one
// tweak: the next sector's, encrypted during the current sector. Both are the
// same instructions, which are in nextBatch: loop says which it was.
func (k *narrow) firstTweak(take func()) {
	resume := k.label("resume")
	k.encrypt, k.encrypted = k.label("encrypt"), k.label("encrypted")
	k.section("tweak of the first sector")
	k.TESTQ(operand.U32(modeResume), k.argAddr("mode"))
	k.JNZ(resume)
	k.MOVQ(operand.U32(1), loop)
	k.JMP(k.encrypt)
	k.place(resume)
	k.load(at(iv, 0), k.ahead())
	k.place(k.encrypted)
	take()
}

func (k *narrow) nextBatch() {
	none := k.label("none")
	k.XORQ(loop, loop)
	k.CMPQ(sectors, operand.U8(1))
	k.JEQ(none)
	k.section("tweak of the next sector")
	k.place(k.encrypt)
	k.encryptTweak()
	k.TESTQ(loop, loop)
	k.JNZ(k.encrypted)
	k.place(none)
}

func (k *narrow) encryptTweak() {
	explicit, ready := k.label("explicit"), k.label("ready")
	t := k.ahead()
	k.TESTQ(operand.U32(modeExplicit), k.argAddr("mode"))
	k.JNZ(explicit)
	if k.vex {
		k.VMOVQ(iv, t)
	} else {
		k.MOVQ(iv, t)
	}
	k.ADDQ(k.argAddr("step"), iv)
	k.JMP(ready)
	k.place(explicit)
	k.load(at(iv, 0), t)
	k.ADDQ(operand.U8(slotBytes), iv)
	k.place(ready)
	key := func(slot int) reg.VecPhysical {
		k.load(at(sched, tweakKeys+slotBytes*slot), k.keyTemp())
		return k.keyTemp()
	}
	k.xor(key(0), t, t)
	k.eachRound(func(slot int) { k.aesRound(false, key(slot), t) })
	k.aesLast(false, key(slots-1), t)
}

func (k *narrow) save() {
	k.arg("tweaks", tmp)
	k.store(k.tweak(0), at(tmp, 0))
}

// input loads block i and gives it the first round key and its tweak.
func (k *narrow) input(i int, from operand.Mem, tweak, key reg.VecPhysical) {
	d := k.data(i)
	if k.vex {
		k.VPXOR(key, tweak, d)
		k.VPXOR(from, d, d)
		return
	}
	k.load(from, d)
	k.xor(key, d, d)
	k.xor(tweak, d, d)
}

// whole does n blocks from src to dst, advances both, and leaves the group's
// first n tweaks xored with the last round key.
func (k *narrow) whole(dec bool, n int, after func(i int)) {
	key := k.key(dec, 0)
	for i := range n {
		k.input(i, at(src, i*slotBytes), k.tweak(i), key)
	}
	k.ADDQ(operand.U8(n*slotBytes), src)
	k.tailRounds(dec, func(key reg.VecPhysical) {
		for i := range n {
			k.aesRound(dec, key, k.data(i))
		}
	})
	key = k.key(dec, slots-1)
	for i := range n {
		k.xor(key, k.tweak(i), k.tweak(i))
		k.aesLast(dec, k.tweak(i), k.data(i))
		k.store(k.data(i), at(dst, i*slotBytes))
		after(i)
	}
	k.ADDQ(operand.U8(n*slotBytes), dst)
}

// tailRounds emits the rounds between the first key and the last.
func (k *narrow) tailRounds(dec bool, round func(key reg.VecPhysical)) {
	if !k.compact {
		k.eachRound(func(slot int) { round(k.key(dec, slot)) })
		return
	}
	next := k.label("round")
	k.MOVQ(operand.U32(1), tmp2)
	k.SUBQ(rounds, tmp2)
	k.SHLQ(operand.U8(4), tmp2)
	k.place(next)
	k.load(operand.Mem{Base: sched, Index: tmp2, Scale: 1, Disp: keyOffset(dec, slots-1)}, k.keyTemp())
	round(k.keyTemp())
	k.ADDQ(operand.U8(slotBytes), tmp2)
	k.JNZ(next)
}

func (k *narrow) wipe() {
	for i := range 16 {
		k.xor(xmm[i], xmm[i], xmm[i])
	}
}
