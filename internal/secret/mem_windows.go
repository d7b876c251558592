package secret

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// allocate returns memory of its own pages, and whether they are locked.
// Where the system refuses, it takes plain memory.
func allocate(n int) ([]byte, bool) {
	addr, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_COMMIT|windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return make([]byte, n), false
	}
	p := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
	return p, windows.VirtualLock(addr, uintptr(n)) == nil
}

// release frees what allocate reserved; for plain memory VirtualFree fails,
// which is right, since the collector takes it.
func release(p []byte) {
	if len(p) > 0 {
		_ = windows.VirtualFree(uintptr(unsafe.Pointer(&p[0])), 0, windows.MEM_RELEASE)
	}
}

// disableCoreDumps does nothing: Windows writes no dump of a Go program unless
// its administrator asks for one.
func disableCoreDumps() error { return nil }
