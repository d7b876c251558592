package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// folding is the family of kernels for AES-NI with PCLMULQDQ, by SSE or by VEX
// encodings, on 128-bit registers.
//
// A group is 8 blocks with a tweak register each, done by halves of 4. A tweak
// is used twice in its half, and then becomes the next group's by one
// multiplication with x^8: shifts by a byte and a carryless product that folds
// the byte that falls out. The tweaks of the first half take that step among
// the rounds of the second, those of the second at the end; out-of-order
// execution does it during the next group.
//
// Budget of a group of 128 bytes, AES-256 (AES-128): 112 (80) AES on ports 0
// and 1; 8 carryless products on port 5, 16 byte shifts on 1 or 5, 32 xors on
// any of the three (key and tweak into the data, last key into the tweak, the
// step): 168 (136) on 3 ports, 56.0 (45.3) cycles, of which AES alone takes 56
// (40). Measured in runs of 4096-byte sectors, cycles a group, Intel (Emerald
// Rapids): 61.1 (49.7) by VEX, 61.4 (50.0) by SSE. The rest is the scheduler:
// with 4 chains a half takes some 50 (40) cycles from start to end but only 28
// (23) of the ports, so two have to be in it at once, with all that waits. What
// also was tried, AES-128, loop alone, where this is 49.4 (Zen 5: not measured):
// steps in one piece after each half: 50.6; the second half's steps among the
// rounds of the next group's first: 51.1; 6 and 2 blocks: 48.5; 5 and 3: 49.1;
// round keys as memory operands: 52, and 100 instead of 60 with AES-256 when
// something else uses the core's load ports; 8 blocks in flight: 46.0, which is
// foldingWide.
type folding struct {
	narrow
	constants reg.VecPhysical // what poly is
}

func newFolding(e *emitter, vex bool) *folding {
	k := &folding{narrow{emitter: e, vex: vex, compact: true}, xmm[12]}
	k.regs = narrowRegisters{
		ahead: xmm[15], key: xmm[13], partial: k.tweak(5), join: k.tweak(6), end: k.tweak(7), scratch: k.scratch(),
	}
	return k
}

// foldingKernels writes a level's four functions.
func foldingKernels(e *emitter, vex bool) {
	xtsKernels(e, newFolding(e, vex))
	xtsKernels(e, newFoldingWide(e, vex))
}

const perFoldGroup = 8 // blocks

func (k *folding) name() string {
	if k.vex {
		return "AVX"
	}
	return "AESNI"
}
func (k *folding) groupBytes() int { return perFoldGroup * slotBytes }

func (k *folding) scratch() reg.VecPhysical { return xmm[14] }

func (k *folding) registerMap() []string {
	return []string{
		"X0-X3: data", "X4-X11: tweaks of the group; in the tail, X9-X11: the partial block, its tweak, scratch",
		"X12: 0x87 in the low quadword, 0x86 in the high one", "X13: a round key", "X14: scratch",
		"X15: the next sector's encrypted tweak",
	}
}

func (k *folding) setup(dec bool) {
	k.section("constants")
	k.load(k.constant("foldBytes", 0x87, 0x86), k.constants)
}

func (k *folding) first() {
	k.firstTweak(func() {
		for i := range perFoldGroup {
			emitAll(k.takeTweak(i))
		}
	})
}

// take goes back to where the first sector's tweaks are taken: the sector
// follows there too.
func (k *folding) take() { k.JMP(k.encrypted) }

// takeTweak makes tweak i of a sector's first group: the encrypted tweak times
// x^i. Tweak 0 is made first and then leaves in ahead the encrypted tweak with
// its halves swapped, of which a shift down has the bits that cross from the
// low half to the high one where they belong, and those that fall out in the
// low one; they have to be multiplied with 0x87, which is 1 and 0x86.
func (k *folding) takeTweak(i int) []func() {
	if i == 0 {
		return []func(){
			func() { k.move(k.ahead(), k.tweak(0)) },
			func() { k.swapHalves(k.ahead()) },
		}
	}
	return k.spread(i, k.tweak(0), k.scratch(), k.tweak(i))
}

func (k *folding) swapHalves(v reg.VecPhysical) {
	if k.vex {
		k.VPSHUFD(operand.U8(0x4e), v, v)
	} else {
		k.PSHUFD(operand.U8(0x4e), v, v)
	}
}

// spread sets v to x^i times t, which ahead has with its halves swapped.
func (k *folding) spread(i int, t, out, v reg.VecPhysical) []func() {
	return []func(){
		func() { k.bitsDown(64-i, k.ahead(), out) },
		func() { k.bitsUp(i, t, v) },
		func() { k.xor(out, v, v) },
		func() { k.product(0x10, out) },
		func() { k.xor(out, v, v) },
	}
}

// stepTweak makes tweak i of the next group.
func (k *folding) stepTweak(i int) []func() { return k.step(k.scratch(), k.tweak(i)) }

// step multiplies v with x^8.
func (k *folding) step(out, v reg.VecPhysical) []func() {
	return []func(){
		func() { k.bytesDown(15, v, out) },
		func() { k.product(0x00, out) },
		func() { k.bytesUp(1, v, v) },
		func() { k.xor(out, v, v) },
	}
}

// product multiplies v with the quadword of constants that the upper digit of
// halves names: 0x87 or 0x86.
func (k *folding) product(halves uint8, v reg.Register) {
	if k.vex {
		k.VPCLMULQDQ(operand.U8(halves), k.constants, v, v)
	} else {
		k.PCLMULQDQ(operand.U8(halves), k.constants, v)
	}
}

// group does a group and makes the next tweaks.
func (k *folding) group(dec bool, last bool) {
	var others []func()
	for i := range blocks {
		others = append(others, k.stepTweak(i)...)
	}
	k.section("blocks 0 to 3")
	k.half(dec, 0, nil, func(int) {})
	k.section("blocks 4 to 7, and the next tweaks")
	k.half(dec, blocks, others, func(i int) { emitAll(k.stepTweak(i)) })
	k.ADDQ(operand.I32(k.groupBytes()), src)
	k.ADDQ(operand.I32(k.groupBytes()), dst)
}

// alike says that there is no other group for the end of a sector: what has
// many sectors takes the wide kernel.
func (k *folding) alike() bool { return true }

// half does 4 blocks from the given one on, with others among the rounds, and
// after each block's last use of its tweak what after emits for it.
func (k *folding) half(dec bool, from int, others []func(), after func(i int)) {
	key := k.key(dec, 0)
	for i := range blocks {
		k.input(i, at(src, (from+i)*slotBytes), k.tweak(from+i), key)
	}
	done := 0
	k.eachRound(func(slot int) {
		key := k.key(dec, slot)
		for i := range blocks {
			k.aesRound(dec, key, k.data(i))
		}
		if slot >= firstShare && slot < slots-1 {
			upTo := (slot - firstShare + 1) * len(others) / (slots - 1 - firstShare)
			emitAll(others[done:upTo])
			done = upTo
		}
	})
	key = k.key(dec, slots-1)
	for i := range blocks {
		k.xor(key, k.tweak(from+i), k.scratch())
		k.aesLast(dec, k.scratch(), k.data(i))
		k.store(k.data(i), at(dst, (from+i)*slotBytes))
		after(from + i)
	}
}

// tail does rest bytes, 16 to 143: half a group if there is as much and
// something after it, then at most 4 whole blocks.
func (k *folding) tail(dec bool) {
	fits := k.label("fits")
	k.partialBytes()
	k.MOVQ(rest, tmp)
	k.CMPQ(rest, operand.U8((blocks+1)*slotBytes))
	k.JCS(fits)
	k.section("half a group")
	k.move(k.tweak(0), k.scratch())
	k.whole(dec, blocks, func(int) {})
	k.SUBQ(operand.U8(blocks*slotBytes), tmp)
	k.Comment("The tweak after the group's comes from the first.")
	for i := range blocks {
		k.move(k.tweak(blocks+i), k.tweak(i))
	}
	k.move(k.scratch(), k.tweak(blocks))
	emitAll(k.stepTweak(blocks))
	k.place(fits)
	k.section("at most 4 whole blocks")
	k.passes(dec, tmp)
}
