//go:build race && amd64 && !purego

package asm

import (
	"runtime"
	"unsafe"
)

// raceTouch tells the race detector what a kernel is about to read and write:
// it sees nothing of assembly by itself.
func raceTouch(dst, src *byte, length, mode uint64, tweaks *byte, n uint64) {
	runtime.RaceReadRange(unsafe.Pointer(src), int(length))
	runtime.RaceWriteRange(unsafe.Pointer(dst), int(length))
	if mode&modeExplicit != 0 {
		runtime.RaceReadRange(unsafe.Pointer(tweaks), int(16*n))
	}
}
