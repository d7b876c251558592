package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// passes does the blocks of a tail, at most 4 whole ones: those in one pass,
// then the partial block if there is one (evex.tail explains). whole has the
// bytes of the whole blocks and perhaps some above, and loop is set to those of
// the partial block.
func (k *narrow) passes(dec bool, whole reg.GPPhysical) {
	steal, done := k.label("steal"), k.label("done")
	passes := make([]operand.LabelRef, blocks)
	for n := 1; n < blocks; n++ {
		passes[n] = k.label(fmt.Sprintf("pass%db", n))
		k.CMPQ(whole, operand.U8((n+1)*slotBytes))
		k.JCS(passes[n])
	}
	for n := blocks; n >= 1; n-- {
		if n < blocks {
			k.place(passes[n])
		}
		k.pass(dec, n)
		k.TESTQ(loop, loop)
		k.JNZ(steal)
		k.JMP(done)
	}
	k.place(steal)
	k.steal(dec)
	k.place(done)
}

func (k *narrow) partialBytes() {
	k.section("the tail")
	k.MOVQ(rest, loop)
	k.ANDQ(operand.U8(15), loop)
}

// made is where pass leaves the last whole block for steal.
func (k *narrow) made() reg.VecPhysical { return k.data(0) }

// pass does n blocks. If a partial one follows it is loaded first: where dst
// is src, the load reaches back into what the pass overwrites.
func (k *narrow) pass(dec bool, n int) {
	whole := k.label("nosteal")
	partial, join, shift := k.regs.partial, k.regs.join, k.regs.scratch
	k.TESTQ(loop, loop)
	k.JZ(whole)
	k.Comment("The partial block: the last 16 bytes shifted down")
	k.LEAQ(operand.Mem{Base: src, Index: loop, Scale: 1, Disp: (n - 1) * slotBytes}, tmp)
	k.load(at(tmp, 0), partial)
	k.byteShifts(tmp)
	k.SUBQ(loop, tmp)
	k.load(at(tmp, 2*slotBytes), shift)
	k.shuffle(shift, partial, partial)
	if dec {
		k.move(k.tweak(n-1), join)
		k.move(k.tweak(n), k.tweak(n-1))
	} else {
		k.move(k.tweak(n), join)
	}
	k.place(whole)
	k.whole(dec, n, func(int) {})
	if n > 1 {
		k.move(k.data(n-1), k.made())
	}
}

// byteShifts points r at a table for PSHUFB: read at 16+n it shifts down by n
// bytes, at 16-n up by n. The place read depends on lengths only.
func (k *narrow) byteShifts(r reg.GPPhysical) {
	const none = 0x8080808080808080
	k.LEAQ(k.constant("byteShifts", none, none, 0x0706050403020100, 0x0f0e0d0c0b0a0908, none, none), r)
}

// steal does the partial block and the one before it, after pass.
func (k *narrow) steal(dec bool) {
	made, joined, join, shift, end := k.made(), k.regs.partial, k.regs.join, k.regs.scratch, k.regs.end
	k.section("ciphertext stealing: the joined block")
	k.byteShifts(tmp)
	k.Comment("The made block's first bytes go to the end of dst, by a store of 16 bytes",
		"that reaches back into the block that is stored next.")
	k.ADDQ(loop, tmp)
	k.load(at(tmp, 0), shift)
	k.shuffle(shift, made, end)
	k.store(end, operand.Mem{Base: dst, Index: loop, Scale: 1, Disp: -slotBytes})
	k.Comment("Its other bytes, by a shift down and one up, follow the partial block's in", "the joined block.")
	k.load(at(tmp, slotBytes), shift)
	k.shuffle(shift, made, made)
	k.SUBQ(loop, tmp)
	k.SUBQ(loop, tmp)
	k.load(at(tmp, slotBytes), shift)
	k.shuffle(shift, made, made)
	k.do(k.POR, k.VPOR, made, joined, joined)

	k.xor(k.key(dec, 0), joined, joined)
	k.xor(join, joined, joined)
	k.tailRounds(dec, func(key reg.VecPhysical) { k.aesRound(dec, key, joined) })
	k.xor(k.key(dec, slots-1), join, join)
	k.aesLast(dec, join, joined)
	k.store(joined, at(dst, -slotBytes))
}
