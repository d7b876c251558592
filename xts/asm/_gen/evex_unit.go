package main

import (
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
)

// evexUnit is evex with that entry.
type evexUnit struct{ *evex }

// unit is the entry for one data unit. Its tweak is encrypted in every lane at
// once, and no more tweaks are made of it than the unit needs; a short unit
// then goes straight to the pass of the tail that does it.
//
// Intel (Emerald Rapids), AES-256, cycles of a call of Cipher.Encrypt beyond the
// AES of its data: 66 up to 64 bytes, 67 for 256, 81 for 512 to 4096. 42 of them
// are the latency of the tweak's encryption, which no other work fills: the AES
// of the call before is older and has the port until it ends.
func (k evexUnit) unit(dec bool, entry, more, tail operand.LabelRef) {
	k.place(entry)
	k.section("one data unit: arguments and constants")
	k.arg("tweaks", iv)
	k.arg("sched", sched)
	k.VBROADCASTI64X2(at(iv, 0), k.batch())
	k.MOVQ(at(sched, roundCount), rounds)
	k.keys(dec)
	k.arg("size", rest)
	k.arg("src", src)
	k.arg("dst", dst)

	k.section("its tweak")
	t := k.batch()
	k.encryptTweak(t)
	k.MOVQ(rest, loop)
	k.ANDQ(operand.U8(15), loop)
	k.MOVQ(rest, tmp)
	k.SUBQ(loop, tmp)
	k.MOVL(operand.U32(1), sectors.As32())
	for i := range perGroup {
		emitAll(k.spread(t, i, k.tweak, k.scratch(i%2)))
		if n := i + 1; n <= perPass {
			k.CMPQ(tmp, operand.I32(n*k.bytes()))
			k.JLS(k.passes[n])
		}
	}
	k.section("more than a pass: groups, and 1 to groupBytes left for the tail")
	shift := operand.U8(bits.TrailingZeros(uint(k.groupBytes())))
	k.shuffleMasks()
	k.LEAQ(at(tmp, -1), loop)
	k.SHRQ(shift, loop)
	k.MOVQ(loop, groups)
	k.SHLQ(shift, groups)
	k.SUBQ(groups, rest)
	k.TESTQ(loop, loop)
	k.JZ(tail)
	k.JMP(more)
}
