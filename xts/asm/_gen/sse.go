package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sse is the kernel for AES-NI alone: SSE encodings, no carryless product.
//
// A group is 4 blocks. A doubling of a tweak takes its carries from sign bits
// made into masks: no branch, no lookup. The masks of a group's doublings come
// from the upper half of its first tweak, since the fold of 0x87 only changes
// the lower bits; so each doubling adds but two instructions to the chain.
//
// Budget of a group of 64 bytes, AES-256: 56 AES, 12 input and output xors, 21
// instructions of the doublings, 17 loads, 4 stores: 28 cycles for AES on the
// two pipes that both Intel and Zen have. Measured on Zen 5 in runs of 4096-byte
// sectors: 33.3; with the doublings in one piece before the group: 34.3. Intel
// (Emerald Rapids): 32.7.
type sse struct{ narrow }

func newSSE(e *emitter) *sse {
	return &sse{narrow{emitter: e, regs: narrowRegisters{
		ahead: xmm[9], key: xmm[11], partial: xmm[14], join: xmm[12], end: xmm[13], scratch: xmm[15],
	}}}
}

func (k *sse) name() string    { return "AESNI4" }
func (k *sse) groupBytes() int { return blocks * slotBytes }

// tweak(4) is the tweak that follows the group's four.
func (k *sse) fold() reg.VecPhysical    { return xmm[10] }
func (k *sse) signs() reg.VecPhysical   { return xmm[12] }
func (k *sse) carries() reg.VecPhysical { return xmm[13] }

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

func (k *sse) first() { k.firstTweak(k.take) }

func (k *sse) take() {
	for i := range blocks {
		k.nextTweak(k.ahead(), i)
	}
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
	k.prefetch(src, 0)
	k.whole(dec, blocks, func(i int) { k.nextTweak(from, i) })
}

// tail does rest bytes, 16 to 79.
func (k *sse) tail(dec bool) {
	k.partialBytes()
	k.passes(dec, rest)
}
