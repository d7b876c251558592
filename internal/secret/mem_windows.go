package secret

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// allocate returns memory of its own pages, and whether they are locked; ok is
// false where the system refuses.
func allocate(n int) (p []byte, locked, ok bool) {
	addr, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_COMMIT|windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return nil, false, false
	}
	p = unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
	return p, windows.VirtualLock(addr, uintptr(n)) == nil, true
}

// release frees what allocate reserved.
func release(p []byte) {
	_ = windows.VirtualFree(uintptr(unsafe.Pointer(&p[0])), 0, windows.MEM_RELEASE)
}

// disableCoreDumps does nothing: Windows writes no dump of a Go program unless
// its administrator asks for one.
func disableCoreDumps() error { return nil }
