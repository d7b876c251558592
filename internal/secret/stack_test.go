package secret

import (
	"testing"
	"unsafe"
)

const (
	painted = 8 << 10
	paint   = 0xa7
)

// What functions left on the stack is gone after EraseStack.
func TestEraseStack(t *testing.T) {
	left := countPaint(false)
	for range 9 { // the runtime may have moved the stack
		if left >= painted/2 {
			break
		}
		left = countPaint(false)
	}
	if left < painted/2 {
		t.Fatalf("%d of %d bytes are found without EraseStack: the test looks in the wrong place", left, painted)
	}
	if left := countPaint(true); left > 64 {
		t.Errorf("%d of %d bytes are left", left, painted)
	}
}

//go:noinline
func countPaint(erase bool) (n int) {
	var here byte
	EraseStack() // makes room
	paintStack(0)
	if erase {
		EraseStack()
	}
	for i := range erasedStack - 512 {
		if *(*byte)(unsafe.Add(unsafe.Pointer(&here), -i)) == paint {
			n++
		}
	}
	return n
}

//go:noinline
func paintStack(i int) byte {
	var local [painted]byte
	for j := range local {
		local[j] = paint
	}
	return local[i]
}
