package luks

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// memoryStatus is MEMORYSTATUSEX of sysinfoapi.h.
type memoryStatus struct {
	length, load                                         uint32
	totalPhys, availPhys, totalPageFile, availPageFile   uint64
	totalVirtual, availVirtual, availExtendedVirtualZero uint64
}

// systemBounds is the physical memory that is available, and what may still
// be committed (a job's limit included).
func systemBounds() []bound {
	s := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	call := windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")
	if ok, _, _ := call.Call(uintptr(unsafe.Pointer(&s))); ok == 0 {
		return nil
	}
	return []bound{{s.availPhys, "available physical memory"}, {s.availPageFile, "memory that may be committed"}}
}
