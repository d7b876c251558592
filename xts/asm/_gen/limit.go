package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	limitVectors = 12 // in flight: above latency times throughput of any processor known
	chainUnroll  = 64
)

// portLimits writes the loops that measurements are compared with: AES rounds
// that wait for nothing but the AES units, and a chain of additions that takes
// a cycle each.
func portLimits(e *emitter) {
	for _, w := range []struct {
		bits int
		regs []reg.VecPhysical
		op   func(key, v reg.VecPhysical)
	}{
		{128, xmm, func(key, v reg.VecPhysical) { e.AESENC(key, v) }},
		{256, ymm, func(key, v reg.VecPhysical) { e.VAESENC(key, v, v) }},
		{512, zmm, func(key, v reg.VecPhysical) { e.VAESENC(key, v, v) }},
	} {
		e.text(fmt.Sprintf("aesLimit%d", w.bits), "func(n uint64)",
			fmt.Sprintf("aesLimit%d does 2n AES rounds on each of %d vectors of %d bits.", w.bits, limitVectors, w.bits))
		e.registers("CX: n", "V0-V11: data", "V12: key")
		loop := e.label("loop")
		e.arg("n", reg.RCX)
		e.place(loop)
		for range 2 {
			for i := range limitVectors {
				w.op(w.regs[limitVectors], w.regs[i])
			}
		}
		e.DECQ(reg.RCX)
		e.JNZ(loop)
		if w.bits > 128 {
			e.VZEROUPPER()
		}
		e.RET()
	}

	e.text("addChain", "func(n uint64)", fmt.Sprintf("addChain does %d*n additions, each of which needs the one before.", chainUnroll))
	e.registers("CX: n", "AX: sum", "DX: summand; an immediate one may be added without using a cycle")
	loop := e.label("loop")
	e.arg("n", reg.RCX)
	e.MOVQ(operand.U32(1), reg.RDX)
	e.place(loop)
	for range chainUnroll {
		e.ADDQ(reg.RDX, reg.RAX)
	}
	e.DECQ(reg.RCX)
	e.JNZ(loop)
	e.RET()
}
