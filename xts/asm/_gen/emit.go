package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitter is an avo context of one output file, with what all generators use.
type emitter struct {
	*build.Context
	labels int
	data   map[string]operand.Mem
}

func newEmitter() *emitter {
	e := &emitter{Context: build.NewContext(), data: map[string]operand.Mem{}}
	e.ConstraintExpr("amd64,!purego")
	return e
}

// text opens a function. No frame: NOSPLIT, and secrets never reach the stack.
func (e *emitter) text(name, signature string, doc ...string) {
	e.Function(name)
	e.Attributes(attr.NOSPLIT)
	e.SignatureExpr(signature)
	e.Pragma("noescape")
	e.Doc(doc...)
}

// section heads a stretch of the code with a comment.
func (e *emitter) section(title string, lines ...string) {
	e.Comment(append([]string{"-- " + title}, lines...)...)
}

// registers prints the register map, one line an entry "X0-X3: data".
func (e *emitter) registers(lines ...string) {
	e.Comment(append([]string{"Registers:"}, prefixed("  ", lines)...)...)
}

func prefixed(prefix string, lines []string) []string {
	var out []string
	for _, l := range lines {
		out = append(out, prefix+l)
	}
	return out
}

// label returns a label name that is unique in its file.
func (e *emitter) label(name string) operand.LabelRef {
	e.labels++
	return operand.LabelRef(fmt.Sprintf("%s%d", name, e.labels))
}

// align starts the next instruction at a multiple of n bytes.
func (e *emitter) align(n int) {
	e.Instruction(&ir.Instruction{Opcode: "PCALIGN", Operands: []operand.Op{operand.Imm(uint64(n))}})
}

func (e *emitter) place(l operand.LabelRef) { e.Label(string(l)) }

// constant returns the address of 8-byte words in read-only data.
func (e *emitter) constant(name string, words ...uint64) operand.Mem {
	if m, ok := e.data[name]; ok {
		return m
	}
	m := e.StaticGlobal(name)
	e.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, w := range words {
		e.AddDatum(8*i, operand.U64(w))
	}
	e.data[name] = m
	return m
}

// arg loads a parameter of the open function.
func (e *emitter) arg(name string, r reg.GPPhysical) { e.Load(e.Param(name), r) }

// argAddr returns a parameter's place in the caller's frame, for those that
// have no register of their own.
func (e *emitter) argAddr(name string) operand.Mem {
	b, err := e.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

func at(base reg.Register, disp int) operand.Mem { return operand.Mem{Base: base, Disp: disp} }
