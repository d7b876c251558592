package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tail does rest bytes, 16 to groupBytes+15, in one pass of as few vectors as
// hold the whole blocks. The last vector, always in data(3), may have but one.
//
// A partial block (IEEE 1619-2018, 5.3.2 and 5.4.2) is joined with the end of
// what the cipher made of the last whole block. So the last vector is done
// first in that case, and the joined block takes its place in the pass, which
// leaves one block's latency instead of two. Encrypting, the last whole block
// has its own tweak and the joined block the tweak after it; decrypting, the
// other way round.
func (k *avx2) tail(dec bool) {
	pass, stored := k.label("pass"), k.label("stored")
	k.section("the tail: its last vector")
	k.MOVQ(rest, loop)
	k.ANDQ(operand.U8(15), loop)
	k.MOVQ(rest, tmp)
	k.SUBQ(loop, tmp)
	k.Comment("AX: bytes of the whole blocks; DX: those before the last vector")
	k.LEAQ(at(tmp, -1), tmp2)
	k.ANDQ(operand.I8(-pairBytes), tmp2)
	half, loaded := k.label("half"), k.label("loaded")
	k.TESTQ(operand.U32(slotBytes), tmp)
	k.JNZ(half)
	k.VMOVDQU(operand.Mem{Base: src, Index: tmp2, Scale: 1}, k.data(pairs-1))
	k.JMP(loaded)
	k.place(half)
	k.VMOVDQU(operand.Mem{Base: src, Index: tmp2, Scale: 1}, k.data(pairs-1).AsX())
	k.place(loaded)
	k.lastTweak()

	k.TESTQ(loop, loop)
	k.JZ(pass)
	k.steal(dec)
	k.place(pass)
	k.section("the pass")
	passes := make([]operand.LabelRef, pairs)
	for n := 1; n < pairs; n++ {
		passes[n] = k.label(fmt.Sprintf("pass%dv", n))
		k.CMPQ(tmp2, operand.U8(n*pairBytes))
		k.JCS(passes[n])
	}
	for n := pairs; n >= 1; n-- {
		if n < pairs {
			k.place(passes[n])
		}
		k.pass(dec, n)
		if n > 1 {
			k.JMP(stored)
		}
	}

	k.place(stored)
	single, done := k.label("single"), k.label("done")
	last := operand.Mem{Base: dst, Index: tmp, Scale: 1, Disp: -slotBytes}
	k.section("the last vector, or the joined block")
	k.TESTQ(loop, loop)
	k.JNZ(single)
	k.TESTQ(operand.U32(slotBytes), tmp)
	k.JNZ(single)
	k.VMOVDQU(k.data(pairs-1), operand.Mem{Base: dst, Index: tmp2, Scale: 1})
	k.JMP(done)
	k.place(single)
	k.VMOVDQU(k.data(pairs-1).AsX(), last)
	k.place(done)
	k.ADDQ(rest, src)
	k.ADDQ(rest, dst)
}

// lastTweak moves the last vector's tweaks to tweak(3).
func (k *avx2) lastTweak() {
	there := k.label("there")
	k.CMPQ(tmp2, operand.U8((pairs-1)*pairBytes))
	k.JEQ(there)
	k.VMOVDQA(k.tweak(2), k.tweak(3))
	k.CMPQ(tmp2, operand.U8(2*pairBytes))
	k.JEQ(there)
	k.VMOVDQA(k.tweak(1), k.tweak(3))
	k.CMPQ(tmp2, operand.U8(pairBytes))
	k.JEQ(there)
	k.VMOVDQA(k.tweak(0), k.tweak(3))
	k.place(there)
}

// pass does n vectors, of which the last is loaded already and stored later.
func (k *avx2) pass(dec bool, n int) {
	var vectors []int
	for i := range n - 1 {
		vectors = append(vectors, i)
		k.VMOVDQU(at(src, i*pairBytes), k.data(i))
	}
	vectors = append(vectors, pairs-1)
	for _, i := range vectors {
		k.VPXOR(k.tweak(i), k.data(i), k.data(i))
	}
	k.VMOVDQU(k.keyAddr(dec, 0), k.keyTemp())
	for _, i := range vectors {
		k.VPXOR(k.keyTemp(), k.data(i), k.data(i))
	}
	k.VMOVDQU(k.keyAddr(dec, slots-1), k.keyTemp())
	for _, i := range vectors {
		k.VPXOR(k.keyTemp(), k.tweak(i), k.tweak(i))
	}
	k.eachRound(func(slot int) {
		k.VMOVDQU(k.keyAddr(dec, slot), k.keyTemp())
		for _, i := range vectors {
			k.round(dec, k.keyTemp(), k.data(i))
		}
	})
	for _, i := range vectors {
		k.lastRound(dec, k.tweak(i), k.data(i))
	}
	for i := range n - 1 {
		k.VMOVDQU(k.data(i), at(dst, i*pairBytes))
	}
}

// steal does the last vector and the partial block after it up to the joined
// block, which takes the vector's place in the pass.
func (k *avx2) steal(dec bool) {
	made, tweaks := k.data(pairs-1), k.tweak(pairs-1)
	partial, own, after := ymm[10].AsX(), ymm[11].AsX(), ymm[12].AsX()
	shift, t := ymm[13].AsX(), ymm[14].AsX()
	k.section("ciphertext stealing: the partial block, which is the last 16 bytes shifted down")
	k.VMOVDQU(operand.Mem{Base: src, Index: rest, Scale: 1, Disp: -slotBytes}, partial)
	k.shiftTable(tmp)
	k.SUBQ(loop, tmp)
	k.VPSHUFB(at(tmp, 2*slotBytes), partial, partial)

	low, chosen := k.label("low"), k.label("chosen")
	k.Comment("The last whole block's tweak and the one after it")
	k.VMOVDQA(tweaks.AsX(), own)
	k.TESTQ(operand.U32(slotBytes), rest)
	k.JNZ(low)
	k.VEXTRACTI128(operand.U8(1), tweaks, own)
	k.place(low)
	k.double(own, after, shift, t)
	if dec {
		k.VINSERTI128(operand.U8(1), after, tweaks, ymm[13])
		k.TESTQ(operand.U32(slotBytes), rest)
		k.VMOVDQA(ymm[13], tweaks)
		k.JZ(chosen)
		k.VMOVDQA(after, tweaks.AsX())
		k.place(chosen)
	}

	k.Comment("The last vector")
	k.VPXOR(tweaks, made, made)
	k.VPXOR(k.keyAddr(dec, 0), made, made)
	k.VPXOR(k.keyAddr(dec, slots-1), tweaks, tweaks)
	k.eachRound(func(slot int) { k.round(dec, k.keyAddr(dec, slot), made) })
	k.lastRound(dec, tweaks, made)
	if dec {
		k.VMOVDQA(own, tweaks.AsX())
	} else {
		k.VMOVDQA(after, tweaks.AsX())
	}
	k.join(partial, shift, t)
}

// double sets to to from times x.
func (k *avx2) double(from, to, t, u reg.Register) {
	k.VPSRLQ(operand.U8(63), from, t)
	k.VPADDQ(from, from, to)
	k.VPCLMULQDQ(operand.U8(0x01), k.poly(), t, u)
	k.VPSLLDQ(operand.U8(8), t, t)
	k.VPXOR(u, to, to)
	k.VPXOR(t, to, to)
}

// join takes the vector made apart: a first block is stored, the last one's
// first bytes go to the end of dst, by a store of 16 bytes that reaches back
// into the block that is stored last, and its other bytes follow the partial
// block's in the joined block.
func (k *avx2) join(partial, shift, t reg.Register) {
	only := k.label("only")
	made := k.data(pairs - 1)
	k.Comment("The joined block")
	k.TESTQ(operand.U32(slotBytes), rest)
	k.JNZ(only)
	k.VMOVDQU(made.AsX(), operand.Mem{Base: dst, Index: tmp2, Scale: 1})
	k.VEXTRACTI128(operand.U8(1), made, made.AsX())
	k.place(only)
	k.ADDQ(loop, tmp)
	k.ADDQ(loop, tmp)
	k.VPSHUFB(at(tmp, 0), made.AsX(), t)
	k.VMOVDQU(t, operand.Mem{Base: dst, Index: rest, Scale: 1, Disp: -slotBytes})
	k.SUBQ(loop, tmp)
	k.SUBQ(loop, tmp)
	k.Comment("The table says where: it has sign bits after the partial block's bytes.")
	k.VMOVDQU(at(tmp, 2*slotBytes), shift)
	k.VPBLENDVB(shift, made.AsX(), partial, made.AsX())
	k.MOVQ(rest, tmp)
	k.SUBQ(loop, tmp)
}

// shiftTable points r at a table for VPSHUFB: read at 16+n it shifts down by n
// bytes, at 16-n up by n. The place read depends on lengths only.
func (k *avx2) shiftTable(r reg.GPPhysical) {
	const none = 0x8080808080808080
	k.LEAQ(k.constant("byteShifts", none, none, 0x0706050403020100, 0x0f0e0d0c0b0a0908, none, none), r)
}
