package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tail does rest bytes, 16 to groupBytes+15: half a group if there is as much
// and something after it, then one pass of as few vectors as hold the whole
// blocks; the last vector is masked and always in data(3).
//
// A partial block (IEEE 1619-2018, 5.3.2 and 5.4.2) takes one more block after
// the pass: it is joined with the end of what the pass made of the last whole
// block. Encrypting, the pass gives that block its own tweak and the joined
// block gets the tweak after it; decrypting, the other way round.
func (k *evex) tail(dec bool) {
	fits, steal, done := k.label("fits"), k.label("steal"), k.label("done")
	k.section("the tail")
	k.MOVQ(rest, loop)
	k.ANDQ(operand.U8(15), loop)
	k.MOVQ(rest, tmp)
	k.SUBQ(loop, tmp)
	k.CMPQ(tmp, operand.I32(perPass*k.bytes()))
	k.JLS(fits)
	k.section("half a group")
	k.vectors(dec, perPass, nil, func(i int) reg.VecPhysical { return k.tweak(perPass + i) })
	k.SUBQ(operand.I32(perPass*k.bytes()), tmp)

	k.place(fits)
	k.section("one masked pass")
	for n := 1; n <= perPass; n++ {
		k.passes[n] = k.label(fmt.Sprintf("pass%dv", n))
		if n < perPass {
			k.CMPQ(tmp, operand.I32(n*k.bytes()))
			k.JLS(k.passes[n])
		}
	}
	for n := perPass; n >= 1; n-- {
		k.place(k.passes[n])
		k.pass(dec, n)
		k.TESTQ(loop, loop)
		k.JNZ(steal)
		k.JMP(done)
	}
	k.place(steal)
	k.steal(dec)
	k.place(done)
}

// Scratch of the tail: data registers that no pass uses.
func (k *evex) joinTweak() reg.VecPhysical { return k.vec(4) } // of the joined block
func (k *evex) lastLane() reg.VecPhysical  { return k.vec(5) } // as a permutation: the last whole block to lane 0
func (k *evex) tailScratch(i int) reg.VecPhysical {
	return k.vec(6 + i) // 0, 1
}

// pass does the whole blocks of the tail, which fill n vectors; tmp has their
// bytes and loop those of the partial block. It leaves the last vector in
// data(3), and src and dst after the whole blocks.
func (k *evex) pass(dec bool, n int) {
	end := (n - 1) * k.bytes() // offset of the last vector
	first, last := perPass-n, k.tweak(perPass-1)
	k.SUBQ(operand.U8(end), tmp)
	k.firstOnes(tmp, tailBytes)
	tweaks := make([]reg.VecPhysical, n)
	for i := range n - 1 {
		k.VMOVDQU64(at(src, i*k.bytes()), k.data(first+i))
		tweaks[i] = k.tweak(i)
	}
	k.VMOVDQU8_Z(at(src, end), tailBytes, k.data(perPass-1))
	tweaks[n-1] = last
	if n < perPass {
		k.VMOVDQA64(k.tweak(n-1), last)
	}
	whole := k.label("nosteal")
	k.TESTQ(loop, loop)
	k.JZ(whole)
	k.stealTweaks(dec, last)
	k.place(whole)
	for i := range n {
		k.VPTERNLOGQ(operand.U8(xor3), k.firstKey(), tweaks[i], k.data(first+i))
		if !k.keyed {
			k.VPXORQ(k.lastKey(), tweaks[i], tweaks[i])
		}
	}
	k.eachRound(func(slot int) {
		if n == 1 {
			k.round(dec, k.key(slot), k.data(first))
			return
		}
		k.VMOVDQU64(k.key(slot), k.keyTemp())
		for i := range n {
			k.round(dec, k.keyTemp(), k.data(first+i))
		}
	})
	for i := range n {
		k.lastRound(dec, tweaks[i], k.data(first+i))
	}
	for i := range n - 1 {
		k.VMOVDQU64(k.data(first+i), at(dst, i*k.bytes()))
	}
	k.VMOVDQU8(k.data(perPass-1), tailBytes, at(dst, end))
	k.LEAQ(operand.Mem{Base: src, Index: tmp, Scale: 1, Disp: end}, src)
	k.LEAQ(operand.Mem{Base: dst, Index: tmp, Scale: 1, Disp: end}, dst)
}

// stealTweaks prepares the tweaks around a partial block: t is the last
// vector's tweaks, and tmp the bytes of its whole blocks, masked by tailBytes.
func (k *evex) stealTweaks(dec bool, t reg.VecPhysical) {
	own, index, after, out := k.joinTweak(), k.lastLane(), k.tailScratch(0), k.tailScratch(1)
	k.LEAQ(at(tmp, -slotBytes), tmp2)
	k.SHRQ(operand.U8(2), tmp2)
	k.VPBROADCASTD(tmp2.As32(), index.AsX())
	k.VPADDD(k.constant("firstLane", 0x00000001_00000000, 0x00000003_00000002), index.AsX(), index.AsX())
	k.VPERMD(t, index, own)

	x := k.powers(0).Offset(slotBytes) // of lane 1: x^1
	k.VMOVDQA64(own.AsX(), after.AsX())
	k.toggleKey(after.AsX())
	emitAll(k.multiply(after.AsX(), x, after.AsX(), out.AsX(), k.scratch(0).AsX()))
	k.toggleKey(after.AsX())
	if !dec {
		k.VMOVDQA64(after.AsX(), own.AsX())
		return
	}
	k.KSHIFTRQ(operand.U8(slotBytes), tailBytes, partialBytes)
	k.KANDNQ(tailBytes, partialBytes, partialBytes)
	k.VSHUFI64X2(operand.U8(0), after, after, after)
	k.VMOVDQU8(after, partialBytes, t)
}

// steal does the partial block and the one before it, after pass.
func (k *evex) steal(dec bool) {
	k.section("ciphertext stealing: the joined block")
	made, joined, tweak := k.tailScratch(0), k.tailScratch(1).AsX(), k.joinTweak().AsX()
	k.VPERMD(k.data(perPass-1), k.lastLane(), made)
	k.firstOnes(loop, partialBytes)
	k.VMOVDQA64(made.AsX(), joined)
	k.Comment("Load the partial block before its place is written: src may be dst.")
	k.VMOVDQU8(at(src, 0), partialBytes, joined)
	k.VMOVDQU8(made.AsX(), partialBytes, at(dst, 0))
	k.VPTERNLOGQ(operand.U8(xor3), k.firstKey().AsX(), tweak, joined)
	if !k.keyed {
		k.VPXORQ(k.lastKey().AsX(), tweak, tweak)
	}
	k.eachRound(func(slot int) {
		k.round(dec, k.key(slot), joined)
	})
	k.lastRound(dec, tweak, joined)
	k.VMOVDQU64(joined, at(dst, -slotBytes))
}

// firstOnes sets the first n bits of a mask, n at most 64.
func (k *evex) firstOnes(n reg.GPPhysical, mask reg.OpmaskPhysical) {
	k.MOVQ(operand.I32(-1), tmp2)
	k.BZHIQ(n, tmp2, tmp2)
	k.KMOVQ(tmp2, mask)
}

// wipe clears all 32 registers: a VEX instruction clears the upper parts of
// the first 16, the others take EVEX. VZEROUPPER ends the use of wide ones.
func (k *evex) wipe() {
	for i := range 16 {
		k.VPXOR(xmm[i], xmm[i], xmm[i])
	}
	for i := 16; i < 32; i++ {
		k.VPXORD(xmm[i], xmm[i], xmm[i])
	}
	k.VZEROUPPER()
}
