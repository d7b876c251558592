package main

import (
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// General registers of every XTS kernel. R14, R15, BP and SP belong to Go.
var (
	dst     = reg.RDI // next byte to write
	src     = reg.RSI // next byte to read
	sched   = reg.R8  // *schedule
	sectors = reg.R9  // sectors left, the current one included
	groups  = reg.R10 // groups of a sector that a group or a tail follows
	rest    = reg.R11 // bytes of a sector after its whole groups
	batch   = reg.R12 // encrypted tweaks left in the batch
	iv      = reg.R13 // number of the next IV, or address of the next tweak
	rounds  = reg.RBX // 10, 12 or 14
	loop    = reg.RCX // groups left; in the tail, bytes of the partial block
	tmp     = reg.RAX
	tmp2    = reg.RDX
)

var walkRegisters = []string{
	"DI, SI: dst, src", "R8: schedule", "R9: sectors left", "R10: groups a sector that a group or a tail follows",
	"R11: bytes after the groups", "R12: tweaks left in the batch", "R13: next IV number or tweak's address",
	"BX: AES rounds", "CX: groups left; in the tail, bytes of the partial block", "AX, DX: scratch",
}

// kernel is what a level brings to the walk. A group is the stretch of blocks
// whose tweaks are in registers at once; a batch is the sectors whose tweaks
// are encrypted together.
type kernel interface {
	name() string
	registerMap() []string
	groupBytes() int
	setup(dec bool)            // constants and what is kept of the keys
	first()                    // the first sector's tweaks in place, and the batch
	nextBatch()                // after a sector's tweaks are in place: encrypt further ones if needed
	take()                     // the next sector's tweaks in place, from the batch
	group(dec bool, last bool) // a group from src to dst, both advanced; then the tweaks of the next group or sector
	tail(dec bool)             // rest bytes, stealing included; src and dst advanced
	save()                     // store the tweak that follows at tweaks
	wipe()                     // clear every vector register that was used
}

// scratched is a kernel with further parameters.
type scratched interface {
	parameters() string
	doc() []string
}

// alike tells whether a kernel's groups are all the same: the tweaks of the
// next sector are then taken after its last group.
func alike(k kernel) bool {
	a, ok := k.(interface{ alike() bool })
	return ok && a.alike()
}

// unitKernel is a kernel with an entry of its own for calls with modeUnit, whose
// whole time for a short unit is that of one tweak, one pass and the call.
type unitKernel interface {
	unit(dec bool, entry, more, tail operand.LabelRef) // sets up all registers, then jumps into the walk
}

// xtsKernels writes a level's two functions.
func xtsKernels(e *emitter, k kernel) {
	walk(e, k, false)
	walk(e, k, true)
}

// walk writes one function: n sectors (or data units) of size bytes each.
//
// In each group the tweaks are made for what comes after it: the next group
// or, in a sector's last group, the next sector. Tweaks are encrypted at least
// a sector before they are needed, so that their latency is hidden behind
// data, and none is encrypted that no sector uses.
func walk(e *emitter, k kernel, dec bool) {
	name := "encrypt" + k.name()
	verb := "encrypts"
	if dec {
		name, verb = "decrypt"+k.name(), "decrypts"
	}
	scratch, doc := "", []string(nil)
	if s, ok := k.(scratched); ok {
		scratch, doc = s.parameters(), s.doc()
	}
	e.text(name, "func(sched *byte, dst, src *byte, size, n, mode uint64, tweaks *byte, first, step uint64"+scratch+")", append([]string{
		name + " " + verb + " n sectors of size bytes each, size at least 16 and n at least 1.",
		"The tweaks are counted, first+i*step, or with modeExplicit read at tweaks.",
		"n is 1 if size is not a multiple of 16, and with modeResume or modeSave,",
		"where tweaks holds one encrypted tweak; with modeSave size is a multiple",
		"of 4096."}, doc...)...)
	e.registers(append(append([]string{}, walkRegisters...), k.registerMap()...)...)

	sector, more, noGroups := e.label("sector"), e.label("more"), e.label("noGroups")
	last, save, exit := e.label("last"), e.label("save"), e.label("exit")
	u, direct := k.(unitKernel)
	unit := e.label("unit")
	if direct {
		e.TESTQ(operand.U32(modeUnit), e.argAddr("mode"))
		e.JNZ(unit)
	}
	tweakArguments(e)
	if alike(k) { // it comes back to the end of first
		dataArguments(e, k)
	}
	k.setup(dec)
	k.first()
	if !alike(k) {
		dataArguments(e, k)
	}

	e.section("a sector")
	e.place(sector)
	k.nextBatch()
	e.MOVQ(groups, loop)
	e.TESTQ(loop, loop)
	e.JZ(noGroups)

	e.section("groups that a group or a tail follows")
	e.align(codeAlign)
	e.place(more)
	k.group(dec, false)
	e.DECQ(loop)
	e.JNZ(more)

	e.place(noGroups)
	e.TESTQ(rest, rest)
	e.JZ(last)
	k.tail(dec)
	var next operand.LabelRef
	if alike(k) {
		next = e.label("next")
		e.place(next)
	}
	e.DECQ(sectors)
	e.JZ(exit)
	k.take()
	e.JMP(sector)

	if direct {
		u.unit(dec, unit, more, noGroups)
	}

	e.align(codeAlign)
	e.place(last)
	e.TESTQ(operand.U32(modeSave), e.argAddr("mode"))
	e.JNZ(save)
	if alike(k) {
		e.JMP(next)
	} else {
		e.section("the last group of a sector without a tail")
		k.group(dec, true)
		e.DECQ(sectors)
		e.JNZ(sector)
		e.JMP(exit)
	}

	e.place(save)
	e.section("the tweak that follows, for the call that continues")
	k.save()

	e.section("exit: no key, tweak or data stays in a register")
	e.place(exit)
	k.wipe()
	e.RET()
}

// codeAlign is where the loops begin. Without it a change of a few bytes before
// a loop made it a third slower on Zen 5.
const codeAlign = 64

// tweakArguments loads the parameters that the first tweaks take: all else can
// wait until their encryption, which is nothing but latency, is under way.
func tweakArguments(e *emitter) {
	e.section("arguments for tweaks")
	e.arg("sched", sched)
	e.arg("tweaks", iv)
	e.TESTQ(operand.U32(modeExplicit), e.argAddr("mode"))
	e.CMOVQEQ(e.argAddr("first"), iv)
	e.arg("n", sectors)
	e.MOVQ(at(sched, roundCount), rounds)
}

// dataArguments loads the others and splits a sector into groups and rest. A
// size that steals leaves at least one whole block to the tail, which is where
// the stealing is done.
func dataArguments(e *emitter, k kernel) {
	e.section("arguments for data")
	e.arg("dst", dst)
	e.arg("src", src)
	whole, split := e.label("whole"), e.label("split")
	shift := operand.U8(bits.TrailingZeros(uint(k.groupBytes())))
	e.arg("size", rest)
	e.MOVQ(rest, groups)
	e.TESTQ(operand.U32(15), rest)
	e.JZ(whole)
	e.SUBQ(operand.U8(slotBytes), groups)
	e.place(whole)
	e.SHRQ(shift, groups)
	e.MOVQ(groups, tmp)
	e.SHLQ(shift, tmp)
	e.SUBQ(tmp, rest)
	e.JNZ(split)
	e.TESTQ(operand.U32(modeSave), e.argAddr("mode"))
	e.JNZ(split)
	e.Comment("No tail: the sector's last group prepares the next sector.")
	if !alike(k) {
		e.DECQ(groups)
	}
	e.place(split)
}

// eachRound emits the rounds between the first key and the last, jumping over
// those that the key size lacks.
func (e *emitter) eachRound(round func(slot int)) {
	r12, r10 := e.label("rounds12x"), e.label("rounds10x")
	e.CMPQ(rounds, operand.U8(12))
	e.JCS(r10)
	e.JEQ(r12)
	round(1)
	round(2)
	e.place(r12)
	round(3)
	round(4)
	e.place(r10)
	for slot := firstOfAll; slot < slots-1; slot++ {
		round(slot)
	}
}

// firstOfAll is the first slot, after slot 0, that every key size uses.
const firstOfAll = 5
