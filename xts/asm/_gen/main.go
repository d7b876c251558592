// The generator of the assembly in xts/asm. Run it there by
//
//	go generate .
//
// or here by `go run . -dir ..`. It writes every file of the table below, byte
// for byte the same on every run; ci.sh regenerates and compares.
//
// How it is divided: walk.go has the way through a run of sectors, which all
// levels share. The vector work: narrow*.go has what kernels on 128-bit registers
// share, sse.go, fold.go and fold_wide.go have those kernels; avx2*.go has 256 bits
// with VEX encoding, evex*.go 256 and 512 bits with EVEX. keys.go has the key
// expansion, limit.go the loops to measure against. A further level is another
// value of a family, or another family, and a line in the table below.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// outputs lists the files: name.s and its declarations name.go.
var outputs = []struct {
	name  string
	build func(*emitter)
}{
	{"keys_amd64", keyExpansion},
	{"limit_amd64", portLimits},
	{"xts_aesni4_amd64", func(e *emitter) { xtsKernels(e, newSSE(e)) }},
	{"xts_aesni_amd64", func(e *emitter) { foldingKernels(e, false) }},
	{"xts_avx_amd64", func(e *emitter) { foldingKernels(e, true) }},
	{"xts_vaesavx2_amd64", func(e *emitter) { xtsKernels(e, newAVX2(e)) }},
	{"xts_vaes512_amd64", func(e *emitter) { xtsKernels(e, evexUnit{newEVEX(e, 4)}) }},
	{"xts_vaes256_amd64", func(e *emitter) { xtsKernels(e, newKeyed(e)) }},
}

func main() {
	dir := flag.String("dir", "..", "folder of package asm")
	flag.Parse()
	for _, o := range outputs {
		if err := write(*dir, o.name, o.build); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", o.name, err)
			os.Exit(1)
		}
	}
}

func write(dir, name string, build func(*emitter)) error {
	e := newEmitter()
	build(e)
	file, err := e.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	cfg := printer.Config{Name: "xts/asm/_gen", Pkg: "asm"}
	text, err := printer.NewGoAsm(cfg).Print(file)
	if err != nil {
		return err
	}
	stubs, err := printer.NewStubs(cfg).Print(file)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".s"), text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+"_stub.go"), stubs, 0o644)
}
