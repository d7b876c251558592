package main

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// evex is the family of kernels with EVEX encoding: VAES, VPCLMULQDQ and
// AVX-512 F, BW, DQ, VL on vectors of 2 or 4 lanes, a lane being a block.
//
// A group is 8 vectors. The last round key is xored with the tweak instead of
// the data, which saves an xor a vector. The round keys between come from
// memory, stored for all lanes, which leaves registers for the tweaks of what
// follows a group; those are made among the rounds.
//
// Budget of a group of 512 bytes at 512 bits, AES-256: 112 AES, 8 carryless
// products, 16 shuffles, 24 xors, 21 loads, 8 stores, 8 prefetches, 8 moves that
// renaming takes; a sector's last group has 12 products and 16 shuffles. Beside
// it a sector takes 3.5 AES of its tweak.
//
// Intel (Emerald Rapids): 112 cycles of port 0 for AES, which is the limit; port
// 5 has 24 (28) products and shuffles and, since port 0 is never free, nearly
// all of the xors: 48 (52). At best 115.5 cycles for sectors of 512 bytes, 112.4
// of 4096. Measured, undisturbed: 115.7 and 112.6 (.968 and .995 of the limit);
// beside a busy neighbour, in the median, 119 and 114. What it takes: no shift
// of bits, which is for port 0; with them it was 120.2 and 113.7 (.932, .985).
//
// Zen 5: 56 cycles of two pipes for AES; the other two have 28 left over, but
// byte shuffles partly share a pipe with AES.
//
// Measured on Zen 5, cycles for 512 bytes, AES-256, in runs of 128 KiB, sectors
// of 4096 and 512 bytes. What this is: 60.7, 63.2. On the way: 4 vectors a
// group, next tweaks after it: 66.1, 73.1; 8 vectors: 65.7, 76; each tweak's
// successor made after its last use: 64.3, 75; dword shuffles for byte shifts
// and no keys broadcast from memory: 61.6, 73.0 (a broadcast load takes an AES
// slot); tweaks among the rounds: 60.7, 71; batches encrypted one batch
// earlier: 60.7, 63.2. The other instructions spread evenly over the rounds,
// between each two or four AES, were slower than a share after each round.
type evex struct {
	*emitter
	lanes  int
	dec    bool
	passes [perPass + 1]operand.LabelRef // of the tail, by vectors

	keyed     bool // tweaks are kept xored with the last round key (see keyed)
	spareLast bool // what is among the rounds is not for the last sector
}

func newEVEX(e *emitter, lanes int) *evex { return &evex{emitter: e, lanes: lanes} }

const (
	perGroup = 8 // vectors
	perPass  = 4 // of the tail, at most
)

func (k *evex) name() string    { return fmt.Sprintf("VAES%d", 128*k.lanes) }
func (k *evex) bytes() int      { return 16 * k.lanes }
func (k *evex) groupBytes() int { return perGroup * k.bytes() }

// vec is vector register i at the family's width.
func (k *evex) vec(i int) reg.VecPhysical {
	if k.lanes == 2 {
		return ymm[i]
	}
	return zmm[i]
}

func (k *evex) data(i int) reg.VecPhysical      { return k.vec(i) }
func (k *evex) tweak(i int) reg.VecPhysical     { return k.vec(8 + i) }
func (k *evex) nextTweak(i int) reg.VecPhysical { return k.vec(16 + i) }
func (k *evex) batch() reg.VecPhysical          { return k.vec(24) }
func (k *evex) ahead() reg.VecPhysical          { return k.vec(25) }
func (k *evex) poly() reg.VecPhysical           { return k.vec(26) }
func (k *evex) firstKey() reg.VecPhysical       { return k.vec(27) }
func (k *evex) lastKey() reg.VecPhysical        { return k.vec(28) }
func (k *evex) scratch(i int) reg.VecPhysical   { return k.vec(29 + i) } // 0, 1
func (k *evex) keyTemp() reg.VecPhysical        { return k.vec(31) }

// Masks of quadwords and dwords, a pattern per lane.
var (
	lowQuads     = reg.K1 // quadword 0
	tailBytes    = reg.K2
	partialBytes = reg.K3
	upperLanes   = reg.K4 // of quadwords: lanes 2 and 3
	lowDwords    = reg.K5 // dword 0
	notLowDwords = reg.K6 // dwords 1 to 3
	highHalves   = reg.K7 // of quadwords: lanes 1 and 3
)

func (k *evex) registerMap() []string {
	return []string{
		"V0-V7: data; V4-V7 in the tail: scratch", "V8-V15: tweaks of the group", "V16-V23: tweaks of the next one",
		"V24: batch, the encrypted tweaks of the next sectors, the first in lane 0", "V25: the batch after it",
		"V26: 0x87 in every quadword", "V27, V28: first and last round key", "V29-V30: scratch", "V31: a round key",
		"K1: quadword 0 of a lane; K2, K3: bytes of the tail", "K4: quadwords of lanes 2 and 3",
		"K5, K6: dword 0 of a lane, the other three", "K7: quadwords of lanes 1 and 3",
	}
}

func (k *evex) setup(dec bool) {
	k.section("constants")
	k.keys(dec)
	for _, m := range []struct {
		bits uint32
		mask reg.OpmaskPhysical
	}{{0x55, lowQuads}, {0xf0, upperLanes}, {0xcc, highHalves}} {
		k.MOVL(operand.U32(m.bits), tmp.As32())
		k.KMOVW(tmp.As32(), m.mask)
	}
}

// turn sets sched to the wide keys of the direction, from where all wide keys
// have short offsets.
func (k *evex) turn(dec bool) {
	k.dec = dec
	k.ADDQ(operand.I32(k.keyBase()), sched)
}

// keys loads what is kept of the keys.
func (k *evex) keys(dec bool) {
	k.turn(dec)
	k.VMOVDQU64(k.key(0), k.firstKey())
	k.VMOVDQU64(k.key(slots-1), k.lastKey())
	k.VPBROADCASTQ(k.constant("poly", 0x87), k.poly())
}

// shuffleMasks sets the masks of times(32).
func (k *evex) shuffleMasks() {
	k.MOVL(operand.U32(0x1111), tmp2.As32())
	k.KMOVW(tmp2.As32(), lowDwords)
	k.KNOTW(lowDwords, notLowDwords)
}

func (k *evex) keyBase() int {
	if k.dec {
		return wideDecKeys
	}
	return wideEncKeys
}

func (k *evex) key(slot int) operand.Mem { return at(sched, wideSlotBytes*slot) }

func (k *evex) tweakKey(slot int) operand.Mem {
	return at(sched, wideTweakKeys-k.keyBase()+wideSlotBytes*slot)
}

// first fills the batch and the one after it, and takes the first tweak.
func (k *evex) first() {
	again, resume, filled := k.label("again"), k.label("resume"), k.label("filled")
	k.section("tweaks of the first sectors")
	k.XORQ(batch, batch)
	k.TESTQ(operand.U32(modeResume), k.argAddr("mode"))
	k.JNZ(resume)
	k.MOVQ(sectors, tmp)
	k.place(again)
	k.encryptTweaks(k.ahead())
	k.TESTQ(batch, batch)
	k.JNZ(filled)
	k.VMOVDQA64(k.ahead(), k.batch())
	k.MOVQ(operand.U32(uint32(k.lanes)), batch)
	k.LEAQ(at(sectors, -k.lanes), tmp)
	k.TESTQ(tmp, tmp)
	k.JGT(again)
	k.JMP(filled)
	k.place(resume)
	k.VMOVDQU64(at(iv, 0), k.batch().AsX())
	k.MOVQ(operand.U32(1), batch)
	k.place(filled)
	k.shuffleMasks()
	k.take()
}

// nextBatch goes on to the next batch when the current one is used up, and
// encrypts the one after that if sectors need it.
func (k *evex) nextBatch() {
	have := k.label("have")
	k.DECQ(batch)
	k.JNZ(have)
	k.VMOVDQA64(k.ahead(), k.batch())
	k.MOVQ(operand.U32(uint32(k.lanes)), batch)
	k.LEAQ(at(sectors, -1-k.lanes), tmp)
	k.TESTQ(tmp, tmp)
	k.JLE(have)
	k.section("tweaks of the batch after the next")
	k.encryptTweaks(k.ahead())
	k.place(have)
}

// encryptTweaks encrypts the next tweaks, one a lane, into b. It wants the
// number of sectors that they may be for in tmp: no more are read from memory.
func (k *evex) encryptTweaks(b reg.VecPhysical) {
	explicit, full, ready := k.label("explicit"), k.label("full"), k.label("ready")
	steps := k.keyTemp()
	k.TESTQ(operand.U32(modeExplicit), k.argAddr("mode"))
	k.JNZ(explicit)
	k.arg("step", tmp2)
	if k.lanes == 2 {
		low, high := k.data(0), k.data(1)
		k.VMOVQ(iv, low.AsX())
		k.LEAQ(operand.Mem{Base: iv, Index: tmp2, Scale: 1}, loop)
		k.VMOVQ(loop, high.AsX())
		k.VINSERTI64X2(operand.U8(1), high.AsX(), low, b)
	} else {
		k.Comment("Lane i counts i steps: one in odd lanes, two more in the upper half.")
		k.VPBROADCASTQ_Z(iv, lowQuads, b)
		k.VPBROADCASTQ_Z(tmp2, lowQuads, steps)
		k.VPADDQ(steps, b, highHalves, b)
		k.VPADDQ(steps, steps, steps)
		k.VPADDQ(steps, b, upperLanes, b)
	}
	k.LEAQ(operand.Mem{Base: iv, Index: tmp2, Scale: uint8(k.lanes)}, iv)
	k.JMP(ready)
	k.place(explicit)
	k.CMPQ(tmp, operand.U8(k.lanes))
	k.JCC(full)
	if k.lanes == 2 {
		k.VMOVDQU64(at(iv, 0), b.AsX())
	} else {
		k.ADDQ(tmp, tmp)
		k.firstOnes(tmp, tailBytes)
		k.VMOVDQU64_Z(at(iv, 0), tailBytes, b)
	}
	k.JMP(ready)
	k.place(full)
	k.VMOVDQU64(at(iv, 0), b)
	k.ADDQ(operand.U8(k.bytes()), iv)
	k.place(ready)

	k.encryptTweak(b)
}

func (k *evex) encryptTweak(t reg.Register) {
	k.VPXORQ(k.tweakKey(0), t, t)
	k.eachRound(func(slot int) { k.VAESENC(k.tweakKey(slot), t, t) })
	k.VAESENCLAST(k.tweakKey(slots-1), t, t)
}

func (k *evex) save() {
	k.arg("tweaks", tmp)
	k.toggleKey(k.tweak(0).AsX())
	k.VMOVDQU64(k.tweak(0).AsX(), at(tmp, 0))
}

// toggleKey takes the last round key out of a tweak that is kept with it, or
// puts it in.
func (k *evex) toggleKey(t reg.Register) {
	if k.keyed {
		k.VPXORQ(k.lastKey().AsX(), t, t)
	}
}

func (k *evex) take() { emitAll(k.takeTweaks(k.tweak)) }

// takeTweaks spreads the batch's first tweak over a group's: lane l of vector i
// is the tweak times x^(lanes*i+l). It returns the instructions one by one, to
// be put among others.
func (k *evex) takeTweaks(to func(i int) reg.VecPhysical) (code []func()) {
	b, t := k.batch(), k.scratch(0)
	code = append(code,
		func() { k.VSHUFI64X2(operand.U8(0), b, b, t) },
		func() { k.VALIGNQ(operand.U8(2), b, b, b) },
	)
	for i := range perGroup {
		code = append(code, k.spread(t, i, to, k.scratch(1))...)
	}
	return code
}

// spread makes vector i of a group's tweaks, of the tweak that is in every lane
// of t: those of the first 8 blocks by products with the lanes' powers of x,
// the others of earlier ones by shifts, which take an instruction less.
func (k *evex) spread(t reg.Register, i int, to func(i int) reg.VecPhysical, u reg.VecPhysical) []func() {
	if direct := 8 / k.lanes; i < direct {
		return k.multiply(t, k.powers(i), to(i), u, to(direct))
	}
	below := 1 << (bits.Len(uint(i)) - 1) // the largest power of 2 that i holds
	return k.times(k.lanes*below, to(i-below), to(i), u)
}

// powers are x^(lanes*i+l) in the low quadwords of lanes l, and 0x87 in the
// high ones.
func (k *evex) powers(i int) operand.Mem {
	var words []uint64
	for j := range 8 {
		words = append(words, 1<<j, 0x87)
	}
	return k.constant("powers", words...).Offset(k.bytes() * i)
}

// multiply sets to = from times p, lane by lane, where p has the multiplier
// (up to x^57) and then 0x87: the product of the low half, that of the high
// half a quadword higher, and what that leaves above 128 bits times 0x87.
// All but one of the instructions are for Intel's port 5.
func (k *evex) multiply(from reg.Register, p operand.Mem, to, t, u reg.Register) []func() {
	return []func(){
		func() { k.VPCLMULQDQ(operand.U8(0x01), p, from, t) },
		func() { k.VPCLMULQDQ(operand.U8(0x00), p, from, to) },
		func() { k.VPCLMULQDQ(operand.U8(0x11), p, t, u) },
		func() { k.VPSLLDQ(operand.U8(8), t, t) },
		func() { k.VPTERNLOGQ(operand.U8(xor3), t, u, to) },
	}
}

// stepTweaks makes the next group's tweaks from the group's.
func (k *evex) stepTweaks() (code []func()) {
	for i := range perGroup {
		code = append(code, k.times(k.lanes*perGroup, k.tweak(i), k.nextTweak(i), k.scratch(i%2))...)
	}
	return code
}

// times sets to = from times x^n, n a multiple of 8 up to 32. It is made of
// shifts within a block and a carryless product of what falls out with 0x87,
// since x^128 = x^7 + x^2 + x + 1: constant time.
//
// Shuffles of dwords are the cheapest shifts, then those of bytes; on Intel
// both are on port 5, where the AES rounds are not. Shifts of bits, on port 0,
// are avoided.
func (k *evex) times(n int, from, to, t reg.VecPhysical) []func() {
	fold := func() { k.VPCLMULQDQ(operand.U8(0x00), k.poly(), t, t) }
	add := func() { k.VPXORQ(t, to, to) }
	if n == 32 {
		return []func(){
			func() { k.VPSHUFD_Z(operand.U8(0x03), from, lowDwords, t) }, fold,
			func() { k.VPSHUFD_Z(operand.U8(0x90), from, notLowDwords, to) }, add,
		}
	}
	return []func(){
		func() { k.VPSRLDQ(operand.U8(16-n/8), from, t) }, fold,
		func() { k.VPSLLDQ(operand.U8(n/8), from, to) }, add,
	}
}

const xor3 = 0x96 // truth table of a^b^c

func emitAll(code []func()) {
	for _, instruction := range code {
		instruction()
	}
}

// share emits instructions among the rounds.
func (k *evex) share(code []func()) {
	if !k.spareLast {
		emitAll(code)
		return
	}
	spared := k.label("spared")
	k.CMPQ(sectors, operand.U8(1))
	k.JEQ(spared)
	emitAll(code)
	k.place(spared)
}

func (k *evex) round(dec bool, key operand.Op, v reg.Register) {
	if dec {
		k.VAESDEC(key, v, v)
	} else {
		k.VAESENC(key, v, v)
	}
}

func (k *evex) lastRound(dec bool, key, v reg.Register) {
	if dec {
		k.VAESDECLAST(key, v, v)
	} else {
		k.VAESENCLAST(key, v, v)
	}
}

// group does a group; among its rounds the tweaks for what follows are made.
func (k *evex) group(dec bool, last bool) {
	others := k.stepTweaks()
	if last {
		others = k.takeTweaks(k.nextTweak)
	}
	k.vectors(dec, perGroup, others, k.nextTweak)
}

// The rounds among which other instructions go, a share after each: those of
// all key sizes, but not the last three, so that their results are there when
// the next group begins.
const firstShare, lastShare = firstOfAll, 10

// vectors does n vectors from src to dst, with others among the rounds, and
// then renames the tweaks.
func (k *evex) vectors(dec bool, n int, others []func(), next func(i int) reg.VecPhysical) {
	for i := range n {
		k.VMOVDQU64(at(src, i*k.bytes()), k.data(i))
		k.VPTERNLOGQ(operand.U8(xor3), k.firstKey(), k.tweak(i), k.data(i))
	}
	k.ADDQ(operand.I32(n*k.bytes()), src)
	done := 0
	k.eachRound(func(slot int) {
		k.VMOVDQU64(k.key(slot), k.keyTemp())
		for i := range n {
			k.round(dec, k.keyTemp(), k.data(i))
		}
		if line := cacheLine * (slot - firstOfAll); n == perGroup && line >= 0 && line < n*k.bytes() {
			k.prefetch(src, line-n*k.bytes()) // one a round: src is advanced already
		}
		if slot >= firstShare && slot <= lastShare {
			upTo := (slot - firstShare + 1) * len(others) / (lastShare - firstShare + 1)
			k.share(others[done:upTo])
			done = upTo
		}
	})
	for i := range n {
		key := k.tweak(i)
		if !k.keyed {
			key = k.keyTemp()
			k.VPXORQ(k.lastKey(), k.tweak(i), key)
		}
		k.lastRound(dec, key, k.data(i))
		k.VMOVDQU64(k.data(i), at(dst, i*k.bytes()))
		k.VMOVDQA64(next(i), k.tweak(i))
	}
	k.ADDQ(operand.I32(n*k.bytes()), dst)
}
