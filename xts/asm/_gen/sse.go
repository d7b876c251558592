package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sse is the kernel for AES-NI alone: SSE encodings, no carryless product. Its
// memory operands are all in moves: in any other instruction they would have
// to be 16-byte aligned, which neither data nor Go's structs are.
//
// A group is 4 blocks. A doubling of a tweak takes its carries from sign bits
// made into masks: no branch, no lookup. The masks of a group's doublings come
// from the upper half of its first tweak, since the fold of 0x87 only changes
// the lower bits; so each doubling adds but two instructions to the chain.
//
// Budget of a group of 64 bytes, AES-256: 56 AES, 12 input and output xors, 21
// instructions of the doublings, 17 loads, 4 stores: 28 cycles for AES on the
// two pipes that both Intel and Zen have. Measured on Zen 5 in runs of 4096-byte
// sectors: 33.3; with the doublings in one piece before the group: 34.3.
type sse struct{ *emitter }

func newSSE(e *emitter) *sse { return &sse{e} }

const blocks = 4 // of a group

func (k *sse) name() string    { return "AESNI4" }
func (k *sse) groupBytes() int { return blocks * slotBytes }

// tweak(4) is the tweak that follows the group's four.
func (k *sse) data(i int) reg.VecPhysical  { return xmm[i] }
func (k *sse) tweak(i int) reg.VecPhysical { return xmm[4+i] }
func (k *sse) ahead() reg.VecPhysical      { return xmm[9] }
func (k *sse) fold() reg.VecPhysical       { return xmm[10] }
func (k *sse) keyTemp() reg.VecPhysical    { return xmm[11] }
func (k *sse) signs() reg.VecPhysical      { return xmm[12] }
func (k *sse) carries() reg.VecPhysical    { return xmm[13] }

func (k *sse) registerMap() []string {
	return []string{
		"X0-X3: data", "X4-X7: tweaks of the group", "X8: the tweak after them", "X9: the next sector's encrypted tweak",
		"X10: 0x87 in the low quadword, 1 in the high one", "X11: a round key", "X12: tweak bits to come out by doubling",
		"X13-X15: scratch",
	}
}

func (k *sse) setup(dec bool) {
	k.section("constants")
	k.MOVOU(k.constant("foldCarries", 0x87, 0x01), k.fold())
}

// first encrypts the first sector's tweak. A batch is one tweak: the next
// sector's, encrypted during the current sector.
func (k *sse) first() {
	resume, ready := k.label("resume"), k.label("ready")
	k.section("tweak of the first sector")
	k.TESTQ(operand.U32(modeResume), k.argAddr("mode"))
	k.JNZ(resume)
	k.encryptTweak()
	k.take()
	k.JMP(ready)
	k.place(resume)
	k.MOVOU(at(iv, 0), k.ahead())
	k.take()
	k.place(ready)
}

func (k *sse) nextBatch() {
	none := k.label("none")
	k.CMPQ(sectors, operand.U8(1))
	k.JEQ(none)
	k.section("tweak of the next sector")
	k.encryptTweak()
	k.place(none)
}

func (k *sse) encryptTweak() {
	explicit, ready := k.label("explicit"), k.label("ready")
	t := k.ahead()
	k.TESTQ(operand.U32(modeExplicit), k.argAddr("mode"))
	k.JNZ(explicit)
	k.MOVQ(iv, t)
	k.ADDQ(k.argAddr("step"), iv)
	k.JMP(ready)
	k.place(explicit)
	k.MOVOU(at(iv, 0), t)
	k.ADDQ(operand.U8(slotBytes), iv)
	k.place(ready)
	key := func(slot int) reg.VecPhysical {
		k.MOVOU(at(sched, tweakKeys+slotBytes*slot), k.keyTemp())
		return k.keyTemp()
	}
	k.PXOR(key(0), t)
	k.eachRound(func(slot int) { k.AESENC(key(slot), t) })
	k.AESENCLAST(key(slots-1), t)
}

func (k *sse) take() {
	for i := range blocks {
		k.nextTweak(k.ahead(), i)
	}
}
func (k *sse) save() {
	k.arg("tweaks", tmp)
	k.MOVOU(k.tweak(0), at(tmp, 0))
}

func (k *sse) nextTweak(from reg.VecPhysical, i int) {
	if i == 0 {
		k.MOVO(from, k.tweak(0))
		k.PSHUFD(operand.U8(0x13), k.tweak(0), k.signs())
	} else {
		k.double(i)
	}
	if i == blocks-1 {
		k.double(blocks)
	}
}

// key loads a round key.
func (k *sse) key(dec bool, slot int) reg.VecPhysical {
	k.MOVOU(at(sched, keyOffset(dec, slot)), k.keyTemp())
	return k.keyTemp()
}

func (k *sse) round(dec bool, key, v reg.VecPhysical) {
	if dec {
		k.AESDEC(key, v)
	} else {
		k.AESENC(key, v)
	}
}

func (k *sse) lastRound(dec bool, key, v reg.VecPhysical) {
	if dec {
		k.AESDECLAST(key, v)
	} else {
		k.AESENCLAST(key, v)
	}
}

// double makes tweak i from the one before it.
func (k *sse) double(i int) {
	carries, v := k.carries(), k.tweak(i)
	k.MOVO(k.signs(), carries)
	if i < blocks {
		k.PADDL(k.signs(), k.signs())
	}
	k.PSRAL(operand.U8(31), carries)
	k.PAND(k.fold(), carries)
	k.MOVO(k.tweak(i-1), v)
	k.PADDQ(v, v)
	k.PXOR(carries, v)
}

func (k *sse) group(dec bool, last bool) {
	from := k.tweak(blocks)
	if last {
		from = k.ahead()
	}
	k.whole(dec, blocks, func(i int) { k.nextTweak(from, i) })
}

// whole does n blocks from src to dst, advances both, and leaves the group's
// first n tweaks xored with the last round key.
func (k *sse) whole(dec bool, n int, after func(i int)) {
	key := k.key(dec, 0)
	for i := range n {
		k.MOVOU(at(src, i*slotBytes), k.data(i))
		k.PXOR(key, k.data(i))
		k.PXOR(k.tweak(i), k.data(i))
	}
	k.ADDQ(operand.U8(n*slotBytes), src)
	k.eachRound(func(slot int) {
		key := k.key(dec, slot)
		for i := range n {
			k.round(dec, key, k.data(i))
		}
	})
	key = k.key(dec, slots-1)
	for i := range n {
		k.PXOR(key, k.tweak(i))
		k.lastRound(dec, k.tweak(i), k.data(i))
		k.MOVOU(k.data(i), at(dst, i*slotBytes))
		after(i)
	}
	k.ADDQ(operand.U8(n*slotBytes), dst)
}

// tail does rest bytes, 16 to 79: the whole blocks in one pass, up to 4, then
// the partial block if there is one (evex.tail explains).
func (k *sse) tail(dec bool) {
	steal, done := k.label("steal"), k.label("done")
	k.section("the tail")
	k.MOVQ(rest, loop)
	k.ANDQ(operand.U8(15), loop)
	passes := make([]operand.LabelRef, blocks)
	for n := 1; n < blocks; n++ {
		passes[n] = k.label(fmt.Sprintf("pass%db", n))
		k.CMPQ(rest, operand.U8((n+1)*slotBytes))
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

// Scratch of the tail, and how pass hands over to steal.
func (k *sse) partial() reg.VecPhysical     { return xmm[14] } // the partial block, zeros after it
func (k *sse) made() reg.VecPhysical        { return k.data(0) }
func (k *sse) joinTweak() reg.VecPhysical   { return k.signs() }
func (k *sse) tailScratch() reg.VecPhysical { return xmm[15] }

// pass does n blocks. If a partial one follows it is loaded first: where dst
// is src, the load reaches back into what the pass overwrites.
func (k *sse) pass(dec bool, n int) {
	whole := k.label("nosteal")
	k.TESTQ(loop, loop)
	k.JZ(whole)
	k.Comment("The partial block: the last 16 bytes shifted down")
	k.LEAQ(operand.Mem{Base: src, Index: loop, Scale: 1, Disp: (n - 1) * slotBytes}, tmp)
	k.MOVOU(at(tmp, 0), k.partial())
	k.byteShifts(tmp)
	k.SUBQ(loop, tmp)
	k.MOVOU(at(tmp, 2*slotBytes), k.tailScratch())
	k.PSHUFB(k.tailScratch(), k.partial())
	k.MOVO(k.tweak(n), k.joinTweak())
	if dec {
		k.MOVO(k.tweak(n-1), k.joinTweak())
		k.MOVO(k.tweak(n), k.tweak(n-1))
	}
	k.place(whole)
	k.whole(dec, n, func(int) {})
	if n > 1 {
		k.MOVO(k.data(n-1), k.made())
	}
}

// byteShifts points r at a table for PSHUFB: read at 16+n it shifts down by n
// bytes, at 16-n up by n. The place read depends on lengths only.
func (k *sse) byteShifts(r reg.GPPhysical) {
	const none = 0x8080808080808080
	k.LEAQ(k.constant("byteShifts", none, none, 0x0706050403020100, 0x0f0e0d0c0b0a0908, none, none), r)
}

// steal does the partial block and the one before it, after pass.
func (k *sse) steal(dec bool) {
	made, joined, shift, mask := k.made(), k.partial(), k.tailScratch(), k.carries()
	k.section("ciphertext stealing: the joined block")
	k.byteShifts(tmp)
	k.Comment("The made block's first bytes go to the end of dst, by a store of 16 bytes",
		"that reaches back into the block that is stored next.")
	k.ADDQ(loop, tmp)
	k.MOVOU(at(tmp, 0), shift)
	k.MOVO(made, mask)
	k.PSHUFB(shift, mask)
	k.MOVOU(mask, operand.Mem{Base: dst, Index: loop, Scale: 1, Disp: -slotBytes})
	k.Comment("Its other bytes follow the partial block's in the joined block.")
	k.SUBQ(loop, tmp)
	k.SUBQ(loop, tmp)
	k.MOVOU(at(tmp, 2*slotBytes), shift)
	k.PXOR(mask, mask)
	k.PCMPGTB(shift, mask)
	k.PAND(mask, made)
	k.POR(made, joined)

	k.PXOR(k.key(dec, 0), joined)
	k.PXOR(k.joinTweak(), joined)
	k.eachRound(func(slot int) { k.round(dec, k.key(dec, slot), joined) })
	k.PXOR(k.key(dec, slots-1), k.joinTweak())
	k.lastRound(dec, k.joinTweak(), joined)
	k.MOVOU(joined, at(dst, -slotBytes))
}

func (k *sse) wipe() {
	for i := range 16 {
		k.PXOR(xmm[i], xmm[i])
	}
}
