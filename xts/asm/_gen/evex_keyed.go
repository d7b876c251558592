package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// keyed is evex with another form of the tweaks, for processors whose AES
// units leave the other instructions one port only: Intel's at 256 bits, with
// AES on ports 0 and 1 and port 5 for the rest. What counts there is the
// number of all vector instructions, and of those that port 5 can't take.
//
// A tweak T is kept as T ^ KL, KL the last round key: that is what the last
// round takes. The input is xored with it and with KF ^ KL, KF the first round
// key, in one VPTERNLOG; and stepping by x^n adds (x^n + 1) KL, again in the
// VPTERNLOG that adds what the shift lost. So a tweak of the next group takes
// 4 instructions and its use one, 40 a group instead of 48.
//
// A sector's first tweaks are T times x^0 to x^7 by carryless products with
// powers of x, from one register and without a chain; shifts of bits would be
// on the ports of AES. The other 8 are a byte further.
//
// Budget of a sector of 512 bytes, two groups, AES-256, at 256 bits: 224 AES
// and 7 for tweaks, 16 xors of the input, 32 for the second group's tweaks and
// 42 for the next sector's first, 5 for a batch's share; of these 90 port 5
// must take 30 (products and what crosses lanes), and can take all. Ports 0 and
// 1: 231/2 = 115.5 cycles; all three: 326/3 = 108.7. AES-128: 165/2 = 82.5 and
// 260/3 = 86.7.
//
// Measured on Intel (Emerald Rapids), cycles for 512 bytes in runs of 128 KiB,
// AES-256 in sectors of 4096 and 512 bytes, then AES-128. What this is: 114.5,
// 118.9; 82.8, 88.3. On the way: as evex, 115.9, 125.9; 88.4, 94.7; tweaks
// with the key in them, spread by shifts of bits: 115.2, 124.4; 83.5, 93.2;
// spread by VPSHLDVQ (VBMI2), which takes 34 instead of 42 instructions but 8
// of them on the ports of AES: 114.8, 122.7; 83.2, 90.9; steps by VPERMW, on
// port 5 alone: 129.0, 126.5; 97.9, 97.0; round keys as memory operands of AES:
// 160.7, 172.0; 122.6, 130.7.
//
// What is for the next sector is left out in the last one, by a jump at each
// share, which a single data unit of 512 bytes gains 3 % from.
type keyed struct{ *evex }

func newKeyed(e *emitter) *keyed {
	return &keyed{&evex{emitter: e, lanes: 2, keyed: true}}
}

// In place of evex's first key and second scratch register.
func (k *keyed) bothKeys() reg.VecPhysical { return k.vec(27) }
func (k *keyed) stepKey() reg.VecPhysical  { return k.vec(30) }

func (k *keyed) registerMap() []string {
	return []string{
		"V0-V7: data; V4-V7 in the tail: scratch", "V8-V15: tweaks of the group, xored with the last round key",
		"V16-V23: those of the next one", "V24: batch, the encrypted tweaks of the next sectors, the first in lane 0",
		"V25: the batch after it", "V26: 0x87 in every quadword", "V27: the first round key xored with the last",
		"V28: the last round key", "V29: scratch", "V30: the last round key times x^n + 1, n the blocks of a group", "V31: a round key; scratch",
		"K2, K3: bytes of the tail",
	}
}

// setup begins with what takes longest, the encryption of the first tweaks.
func (k *keyed) setup(dec bool) {
	k.turn(dec)
	k.firstBatch()
	k.section("constants")
	k.VPBROADCASTQ(k.constant("poly", 0x87), k.poly())
	k.VMOVDQU64(k.key(slots-1), k.lastKey())
	k.VPXORQ(k.key(0), k.lastKey(), k.bothKeys())
	emitAll(k.times(k.lanes*perGroup, k.lastKey(), k.stepKey(), k.lastKey()))
}

func (k *keyed) firstBatch() {
	resume, filled := k.label("resume"), k.label("filled")
	k.section("tweaks of the first sectors")
	k.TESTQ(operand.U32(modeResume), k.argAddr("mode"))
	k.JNZ(resume)
	k.MOVQ(sectors, tmp)
	k.encryptTweaks(k.batch())
	k.MOVQ(operand.U32(uint32(k.lanes)), batch)
	k.JMP(filled)
	k.place(resume)
	k.VMOVDQU64(at(iv, 0), k.batch().AsX())
	k.MOVQ(operand.U32(1), batch)
	k.place(filled)
}

func (k *keyed) first() { k.take() }

// nextBatch encrypts the next batch once all but the last tweak of this one are
// in use, if sectors need it, and goes on to it when the last one is.
func (k *keyed) nextBatch() {
	usedUp, have := k.label("usedUp"), k.label("have")
	k.DECQ(batch)
	k.JZ(usedUp)
	k.CMPQ(batch, operand.U8(1))
	k.JNE(have)
	k.LEAQ(at(sectors, -2), tmp)
	k.TESTQ(tmp, tmp)
	k.JLE(have)
	k.section("tweaks of the next batch")
	k.encryptTweaks(k.ahead())
	k.JMP(have)
	k.place(usedUp)
	k.VMOVDQA64(k.ahead(), k.batch())
	k.MOVQ(operand.U32(uint32(k.lanes)), batch)
	k.place(have)
}

func (k *keyed) take() { emitAll(k.takeTweaks(k.tweak)) }

// takeTweaks spreads the batch's first tweak over a group's, as evex does.
func (k *keyed) takeTweaks(to func(i int) reg.VecPhysical) (code []func()) {
	b, from := k.batch(), to(perGroup-1)
	code = append(code,
		func() { k.VSHUFI64X2(operand.U8(0), b, b, from) },
		func() { k.VALIGNQ(operand.U8(2), b, b, b) },
	)
	bitwise := 8 / k.lanes // vectors up to x^7
	for i := range bitwise {
		// In one piece: a round's key takes the place of the scratch.
		code = append(code, func() { emitAll(k.multiply(from, k.powers(i), to(i), k.scratch(0), k.keyTemp())) })
	}
	for below := bitwise; below < perGroup; below *= 2 {
		for i := range below {
			var plus reg.VecPhysical
			if 2*below == perGroup {
				plus = k.lastKey()
			}
			code = append(code, k.times(k.lanes*below, to(i), to(i+below), plus)...)
			if plus != nil {
				code = append(code, func() { k.VPXORQ(plus, to(i), to(i)) })
			}
		}
	}
	return code
}

// stepTweaks makes the next group's tweaks from the group's.
func (k *keyed) stepTweaks() (code []func()) {
	for i := range perGroup {
		code = append(code, k.times(k.lanes*perGroup, k.tweak(i), k.nextTweak(i), k.stepKey())...)
	}
	return code
}

// times sets to = from times x^n + plus, n a multiple of 8; no plus is 0.
func (k *keyed) times(n int, from, to, plus reg.VecPhysical) []func() {
	t := k.scratch(0)
	return []func(){
		func() { k.VPSRLDQ(operand.U8(16-n/8), from, t) },
		func() { k.VPCLMULQDQ(operand.U8(0x00), k.poly(), t, t) },
		func() { k.VPSLLDQ(operand.U8(n/8), from, to) },
		func() {
			if plus == nil {
				k.VPXORQ(t, to, to)
			} else {
				k.VPTERNLOGQ(operand.U8(xor3), plus, t, to)
			}
		},
	}
}

// group does a group; among its rounds the tweaks for what follows are made.
func (k *keyed) group(dec bool, last bool) {
	others := k.stepTweaks()
	if last {
		others = k.takeTweaks(k.nextTweak)
	}
	k.spareLast = last
	k.vectors(dec, perGroup, others, k.nextTweak)
	k.spareLast = false
}
