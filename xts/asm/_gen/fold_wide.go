package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// foldingWide is the folding kernel for long runs: 8 blocks in flight instead
// of two halves of 4. That takes all registers for data, so tweaks are in
// scratch memory of the caller's: the group's next tweaks and, apart, those
// xored with the last round key. It is heap memory, and cleared at the end.
// Sectors are whole groups: there is no tail.
//
// Budget of a group: the 168 (136) instructions on 3 ports of folding, 56.0
// (45.3) cycles, with 46 loads, 24 stores and 2 prefetches. Measured, Intel
// (Emerald Rapids): 57.4 (46.0) in a loop alone, 58.2 (46.5) in runs of
// 4096-byte sectors, 62.6 (48.4) in runs of 512-byte ones, where a group has a
// quarter of the 7 (5) cycles of a tweak's encryption. The steps in one piece
// after the rounds: 58.3 (47.3). Tweaks of 4 sectors encrypted together instead
// of one ahead: 61.9 (48.4) with 512-byte sectors, not worth another 450 bytes
// of code a function; batches of 4 KiB did not gain.
type foldingWide struct{ folding }

func newFoldingWide(e *emitter, vex bool) *foldingWide {
	regs := narrowRegisters{ahead: xmm[15], key: xmm[0]}
	return &foldingWide{folding{narrow{emitter: e, vex: vex, regs: regs}, xmm[9]}}
}

func (k *foldingWide) name() string { return k.folding.name() + "Wide" }

// scratchBytes is what the kernel has its caller provide.
const scratchBytes = 2 * perFoldGroup * slotBytes

func (k *foldingWide) parameters() string { return ", scratch *byte" }

func (k *foldingWide) doc() []string {
	return []string{"Size must be a multiple of 128, and scratch have 256 bytes, which are cleared."}
}

// The walk's register for a batch has the scratch memory's address.
var scratchMemory = batch

func (k *foldingWide) tweakAt(i int) operand.Mem { return at(scratchMemory, i*slotBytes) }
func (k *foldingWide) lastAt(i int) operand.Mem {
	return at(scratchMemory, (perFoldGroup+i)*slotBytes)
}

func (k *foldingWide) lastKey() reg.VecPhysical { return xmm[11] }

// A key in one of the first 8 registers saves a byte in every AES instruction
// but one of 8.
func (k *foldingWide) data(i int) reg.VecPhysical  { return xmm[1+i] }
func (k *foldingWide) firstTweak() reg.VecPhysical { return xmm[14] } // of the next sector, while it is spread

func (k *foldingWide) registerMap() []string {
	return []string{
		"R12 instead: scratch memory, 8 tweaks and 8 tweaks xored with the last round key",
		"X0: a round key", "X1-X8: data", "X9: 0x87 in the low quadword, 0x86 in the high one", "X11: the last round key",
		"X10, X12, X13: scratch", "X14, X15: the next sector's encrypted tweak, in X15 then with its halves swapped",
	}
}

func (k *foldingWide) setup(dec bool) {
	k.section("constants")
	k.arg("scratch", scratchMemory)
	k.load(k.constant("foldBytes", 0x87, 0x86), k.constants)
	k.load(at(sched, keyOffset(dec, slots-1)), k.lastKey())
}

func (k *foldingWide) first() {
	k.narrow.firstTweak(func() {
		for i := range perFoldGroup {
			emitAll(k.takeTweak(i))
		}
	})
}

// takeTweak and stepTweak are as those of folding, with tweaks in memory.
func (k *foldingWide) takeTweak(i int) []func() {
	v, out, t := xmm[10], xmm[12], k.firstTweak()
	if i == 0 {
		return []func(){
			func() { k.move(k.ahead(), t) },
			func() { k.store(t, k.tweakAt(0)) },
			func() { k.swapHalves(k.ahead()) },
		}
	}
	return append(k.spread(i, t, out, v), func() { k.store(v, k.tweakAt(i)) })
}

func (k *foldingWide) stepTweak(i int) []func() {
	v, out := xmm[10], xmm[12]
	return append(k.step(out, v), func() { k.store(v, k.tweakAt(i)) })
}

// useTweak loads tweak i for stepTweak and prepares its last use.
func (k *foldingWide) useTweak(i int) []func() {
	v, last := xmm[10], xmm[13]
	return []func(){
		func() { k.load(k.tweakAt(i), v) },
		func() { k.xor(k.lastKey(), v, last) },
		func() { k.store(last, k.lastAt(i)) },
	}
}

func (k *foldingWide) group(dec bool, last bool) {
	next := k.stepTweak
	if last {
		next = k.takeTweak
	}
	var others []func()
	for i := range perFoldGroup {
		others = append(append(others, k.useTweak(i)...), next(i)...)
	}
	key := k.key(dec, 0)
	for i := range perFoldGroup {
		k.inputWide(i, key)
	}
	k.ADDQ(operand.I32(k.groupBytes()), src)
	k.prefetchLast(src, k.groupBytes())
	done := 0
	k.section("rounds, with the next tweaks among them")
	k.eachRound(func(slot int) {
		key := k.key(dec, slot)
		for i := range perFoldGroup {
			k.aesRound(dec, key, k.data(i))
		}
		if slot >= firstOfAll && slot < slots-2 {
			upTo := (slot - firstOfAll + 1) * len(others) / (slots - 2 - firstOfAll)
			emitAll(others[done:upTo])
			done = upTo
		}
	})
	k.section("last round")
	for i := range perFoldGroup {
		if k.vex {
			k.aesLast(dec, k.lastAt(i), k.data(i))
		} else {
			k.load(k.lastAt(i), xmm[13])
			k.aesLast(dec, xmm[13], k.data(i))
		}
		k.store(k.data(i), at(dst, i*slotBytes))
	}
	k.ADDQ(operand.I32(k.groupBytes()), dst)
}

func (k *foldingWide) inputWide(i int, key reg.VecPhysical) {
	if k.vex {
		k.VPXOR(k.tweakAt(i), key, k.data(i))
		k.VPXOR(at(src, i*slotBytes), k.data(i), k.data(i))
		return
	}
	k.load(at(src, i*slotBytes), k.data(i))
	k.xor(key, k.data(i), k.data(i))
	k.load(k.tweakAt(i), xmm[13])
	k.xor(xmm[13], k.data(i), k.data(i))
}

func (k *foldingWide) tail(bool)   {}
func (k *foldingWide) alike() bool { return false }

func (k *foldingWide) save() {
	k.load(k.tweakAt(0), xmm[0])
	k.arg("tweaks", tmp)
	k.store(xmm[0], at(tmp, 0))
}

func (k *foldingWide) wipe() {
	k.xor(xmm[0], xmm[0], xmm[0])
	for i := range scratchBytes / slotBytes {
		k.store(xmm[0], at(scratchMemory, i*slotBytes))
	}
	k.narrow.wipe()
}
