package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx2 is the kernel for VAES and VPCLMULQDQ without AVX-512: VEX encodings on
// 16 vectors of 256 bits, two blocks each. No masks: the last bytes are moved
// by 16 and 32, in moves that overlap where they must.
//
// A group is 4 vectors, since the tweaks take as many registers. More AES chains
// are in flight nevertheless: the next group's begin during the rounds of this
// one, if nothing before them in the code waits long. Therefore all that does
// not wait for AES comes first in a group.
//
// Budget of a group of 128 bytes, AES-256 (AES-128): 56 (40) AES on ports 0
// and 1, 4 carryless products on port 5, 8 byte shifts on 1 and 5, 16 xors on
// all three: 28 (20) cycles for AES, 28 (22.7) for all by three ports; 4 stores,
// 23 (19) loads and 2 prefetches. A sector's last group has 24 others for 12: 8 shifts of
// bits, 4 products, 4 byte shifts, 8 xors, and 2 lane shuffles.
//
// Measured on Intel (Emerald Rapids), cycles for 128 bytes in runs of 128 KiB,
// encryption, AES-256 in sectors of 4096 and 512 bytes, then AES-128 likewise.
// What this is: 29.4, 32.3; 24.2, 26.8. On the way: the tweaks spread over the
// rounds, keys loaded as stored for wide vectors: 30.4, 34.3; 25.5, 27.7; all
// after the first rounds: 29.9, 33.8; 24.4, 26.6; keys as memory operands of
// the AES instructions: 45.9, 49.1; 35.6, 38.0; the byte that falls out taken
// by a shift of quadwords, on ports 0 and 1, for one vector of the four: 29.5,
// 32.1; 24.1, 27.2, for all: 31.6, 33.7; 24.7, 26.9.
type avx2 struct{ *emitter }

func newAVX2(e *emitter) *avx2 { return &avx2{e} }

const (
	pairs     = 4 // vectors of a group
	pairBytes = 2 * slotBytes
)

func (k *avx2) name() string    { return "VAESAVX2" }
func (k *avx2) groupBytes() int { return pairs * pairBytes }

func (k *avx2) data(i int) reg.VecPhysical    { return ymm[i] }
func (k *avx2) tweak(i int) reg.VecPhysical   { return ymm[4+i] }
func (k *avx2) keyTemp() reg.VecPhysical      { return ymm[8] }
func (k *avx2) batch() reg.VecPhysical        { return ymm[9] }
func (k *avx2) out(i int) reg.VecPhysical     { return ymm[10+i] }
func (k *avx2) scratch(i int) reg.VecPhysical { return ymm[14+i] } // 0, 1

func (k *avx2) registerMap() []string {
	return []string{
		"Y0-Y3: data", "Y4-Y7: tweaks", "Y8: a round key", "Y9: batch, the encrypted tweaks of the next sectors, the first in lane 0",
		"Y10-Y13: tweaks xored with the last round key; in the tail: scratch", "Y14, Y15: scratch",
	}
}

func (k *avx2) setup(bool) {}

// poly is 0x87 in the low quadword of each lane: x^128 = x^7 + x^2 + x + 1.
func (k *avx2) poly() operand.Mem { return k.constant("fold", 0x87, 0, 0x87, 0) }

func (k *avx2) keyAddr(dec bool, slot int) operand.Mem {
	if dec {
		return at(sched, wideDecKeys+wideSlotBytes*slot)
	}
	return at(sched, wideEncKeys+wideSlotBytes*slot)
}

// first fills the batch and takes the first tweak.
func (k *avx2) first() {
	resume, filled := k.label("resume"), k.label("filled")
	k.section("tweaks of the first sectors")
	k.TESTQ(operand.U32(modeResume), k.argAddr("mode"))
	k.JNZ(resume)
	k.MOVQ(sectors, tmp)
	k.encryptTweaks()
	k.MOVQ(operand.U32(2), batch)
	k.JMP(filled)
	k.place(resume)
	k.VMOVDQU(at(iv, 0), k.batch().AsX())
	k.MOVQ(operand.U32(1), batch)
	k.place(filled)
	k.take()
}

// nextBatch encrypts the next two tweaks when the batch is used up, if sectors
// need them: during a sector, for the two after it.
func (k *avx2) nextBatch() {
	have := k.label("have")
	k.DECQ(batch)
	k.JNZ(have)
	k.LEAQ(at(sectors, -1), tmp)
	k.TESTQ(tmp, tmp)
	k.JZ(have)
	k.section("tweaks of the next sectors")
	k.encryptTweaks()
	k.MOVQ(operand.U32(2), batch)
	k.place(have)
}

// encryptTweaks encrypts the next two tweaks into the batch. It wants the
// number of sectors that they may be for in tmp: no more are read from memory.
func (k *avx2) encryptTweaks() {
	explicit, single, ready := k.label("explicit"), k.label("single"), k.label("ready")
	b, second := k.batch(), k.keyTemp()
	k.TESTQ(operand.U32(modeExplicit), k.argAddr("mode"))
	k.JNZ(explicit)
	k.VMOVQ(iv, b.AsX())
	k.ADDQ(k.argAddr("step"), iv)
	k.VMOVQ(iv, second.AsX())
	k.ADDQ(k.argAddr("step"), iv)
	k.VINSERTI128(operand.U8(1), second.AsX(), b, b)
	k.JMP(ready)
	k.place(explicit)
	k.CMPQ(tmp, operand.U8(2))
	k.JCS(single)
	k.VMOVDQU(at(iv, 0), b)
	k.ADDQ(operand.U8(pairBytes), iv)
	k.JMP(ready)
	k.place(single)
	k.VMOVDQU(at(iv, 0), b.AsX())
	k.place(ready)

	key := func(slot int) operand.Mem { return at(sched, wideTweakKeys+wideSlotBytes*slot) }
	k.VPXOR(key(0), b, b)
	k.eachRound(func(slot int) { k.VAESENC(key(slot), b, b) })
	k.VAESENCLAST(key(slots-1), b, b)
}

func (k *avx2) save() {
	k.arg("tweaks", tmp)
	k.VMOVDQU(k.tweak(0).AsX(), at(tmp, 0))
}

func (k *avx2) take() { emitAll(k.takeTweaks()) }

// takeTweaks spreads the batch's first tweak over a group's: lane l of vector i
// is the tweak times x^(2i+l). It returns the instructions one by one, to be
// put among others.
func (k *avx2) takeTweaks() (code []func()) {
	b, from := k.batch(), k.tweak(pairs-1)
	code = append(code,
		func() { k.VPERMQ(operand.U8(0x44), b, from) },
		func() { k.VPERMQ(operand.U8(0xee), b, b) },
	)
	for i := range pairs {
		code = append(code, k.spread(i, from, k.tweak(i))...)
	}
	return code
}

// spread sets the lanes of to to those of from times x^(2i) and x^(2i+1): what
// a shift of the low quadword loses goes to the high one, what one of the high
// quadword loses is folded.
func (k *avx2) spread(i int, from, to reg.VecPhysical) []func() {
	l := uint64(2 * i)
	left := k.constant(fmt.Sprintf("spreadLeft%d", i), l, l, l+1, l+1)
	right := k.constant(fmt.Sprintf("spreadRight%d", i), 64-l, 64-l, 63-l, 63-l)
	lost, folded := k.scratch(0), k.scratch(1)
	return []func(){
		func() { k.VPSRLVQ(right, from, lost) },
		func() { k.VPSLLVQ(left, from, to) },
		func() { k.VPCLMULQDQ(operand.U8(0x01), k.poly(), lost, folded) },
		func() { k.VPSLLDQ(operand.U8(8), lost, lost) },
		func() { k.VPXOR(folded, to, to) },
		func() { k.VPXOR(lost, to, to) },
	}
}

// stepTweaks makes the next group's tweaks of the group's, in place: times x^8,
// a shift by a byte and a fold of the byte that falls out.
func (k *avx2) stepTweaks() (code []func()) {
	for i := range pairs {
		v, t := k.tweak(i), k.scratch(i%2)
		code = append(code,
			func() { k.VPSRLDQ(operand.U8(15), v, t) },
			func() { k.VPSLLDQ(operand.U8(1), v, v) },
			func() { k.VPCLMULQDQ(operand.U8(0x00), k.poly(), t, t) },
			func() { k.VPXOR(t, v, v) },
		)
	}
	return code
}

func (k *avx2) round(dec bool, key operand.Op, v reg.Register) {
	if dec {
		k.VAESDEC(key, v, v)
	} else {
		k.VAESENC(key, v, v)
	}
}

func (k *avx2) lastRound(dec bool, key operand.Op, v reg.Register) {
	if dec {
		k.VAESDECLAST(key, v, v)
	} else {
		k.VAESENCLAST(key, v, v)
	}
}

// group does a group. The tweaks for what follows are made before its rounds:
// they wait for nothing, so they run while the rounds of the group before do.
func (k *avx2) group(dec bool, last bool) {
	k.VBROADCASTI128(at(sched, keyOffset(dec, 0)), k.keyTemp())
	for i := range pairs {
		k.VPXOR(at(src, i*pairBytes), k.tweak(i), k.data(i))
		k.VPXOR(k.keyTemp(), k.data(i), k.data(i))
	}
	k.ADDQ(operand.U8(k.groupBytes()), src)
	k.prefetchLast(src, k.groupBytes())
	for i := range pairs {
		k.VPXOR(k.keyAddr(dec, slots-1), k.tweak(i), k.out(i))
	}
	if last {
		emitAll(k.takeTweaks())
	} else {
		emitAll(k.stepTweaks())
	}
	k.eachRound(func(slot int) {
		k.VBROADCASTI128(at(sched, keyOffset(dec, slot)), k.keyTemp())
		for i := range pairs {
			k.round(dec, k.keyTemp(), k.data(i))
		}
	})
	for i := range pairs {
		k.lastRound(dec, k.out(i), k.data(i))
		k.VMOVDQU(k.data(i), at(dst, i*pairBytes))
	}
	k.ADDQ(operand.U8(k.groupBytes()), dst)
}

// wipe clears the registers: a VEX instruction on the low half clears all.
func (k *avx2) wipe() {
	for i := range 16 {
		k.VPXOR(xmm[i], xmm[i], xmm[i])
	}
	k.VZEROUPPER()
}
