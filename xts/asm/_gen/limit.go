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

// prefetchAhead is how far before its use a kernel prefetches, in bytes. Nothing
// comes of a prefetch beyond the end of a buffer or of what is mapped.
//
// Measured on Intel (Emerald Rapids), vaes512, AES-256, sectors of 512 bytes, 1
// GiB in place in pages of 4 KiB, MB/s: none, 6803; 2 KiB ahead, 9536; 4, 10427;
// 6 to 16, 10438 to 10493; 4 for ownership (PREFETCHW), 9901; 16 into the second
// cache and 2 into the first, 10603; 32 and 2, 10570. But with calls of 16 KiB
// each at random the last is 6107 and this 7448 (none: 5812), and of 4 KiB, 3808
// and 4303 (none: 4552): fetching beyond the end has a price.
const prefetchAhead = 4096

// prefetch prefetches the cache line that is prefetchAhead after base+offset.
func (e *emitter) prefetch(base reg.Register, offset int) {
	e.PREFETCHT0(at(base, prefetchAhead+offset))
}

// prefetchLast prefetches for the n bytes before base, which is advanced already.
func (e *emitter) prefetchLast(base reg.Register, n int) {
	for line := -n; line < 0; line += cacheLine {
		e.prefetch(base, line)
	}
}

const cacheLine = 64

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

	xorLimits(e)
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

const xorBytes = 512 // of a turn of the loop

// xorLimits writes the least that work in place on memory can be: each vector
// loaded, xored and stored, with the prefetching of the kernels.
func xorLimits(e *emitter) {
	ones := e.constant("ones", ^uint64(0), ^uint64(0))
	for _, w := range []struct {
		bits      int
		regs      []reg.VecPhysical
		broadcast func(from, to operand.Op)
		move      func(from, to operand.Op)
		xor       func(key, v reg.VecPhysical)
	}{
		{128, xmm, e.MOVOU, e.MOVOU, func(key, v reg.VecPhysical) { e.PXOR(key, v) }},
		{256, ymm, e.VBROADCASTI128, e.VMOVDQU, func(key, v reg.VecPhysical) { e.VPXOR(key, v, v) }},
		{
			512, zmm, func(from, to operand.Op) { e.VBROADCASTI64X2(from, to) }, func(from, to operand.Op) { e.VMOVDQU64(from, to) },
			func(key, v reg.VecPhysical) { e.VPXORQ(key, v, v) },
		},
	} {
		e.text(fmt.Sprintf("xorLimit%d", w.bits), "func(p *byte, n uint64)",
			fmt.Sprintf("xorLimit%d inverts %d*n bytes at p, in vectors of %d bits.", w.bits, xorBytes, w.bits))
		e.registers("DI: p", "CX: n", "V0-V7: data", "V8: ones")
		loop, bytes := e.label("loop"), w.bits/8
		e.arg("p", reg.RDI)
		e.arg("n", reg.RCX)
		w.broadcast(ones, w.regs[8])
		e.align(codeAlign)
		e.place(loop)
		for from := 0; from < xorBytes; from += 8 * bytes {
			e.section(fmt.Sprintf("bytes %d to %d", from, from+8*bytes-1))
			for line := 0; line < 8*bytes; line += cacheLine {
				e.prefetch(reg.RDI, line)
			}
			for i := range 8 {
				w.move(at(reg.RDI, i*bytes), w.regs[i])
				w.xor(w.regs[8], w.regs[i])
			}
			for i := range 8 {
				w.move(w.regs[i], at(reg.RDI, i*bytes))
			}
			e.ADDQ(operand.I32(8*bytes), reg.RDI)
		}
		e.DECQ(reg.RCX)
		e.JNZ(loop)
		if w.bits > 128 {
			e.VZEROUPPER()
		}
		e.RET()
	}
}
