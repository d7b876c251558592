package luks

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Argon2 jumps about in its memory, a KiB at a time, and with pages of 4 KiB
// spends a third of its time on finding them (measured at 1 GiB: 5.3 s of
// processors with small pages, 3.9 s with huge ones, and as much again for the
// page faults). Go's heap has small pages unless the system gives everybody
// huge ones. x/crypto/argon2 takes its memory from there, so it is asked to
// lie in huge pages just before: taken, advised, not touched, and left to the
// one who comes next.
const (
	hugeLeastKiB = 32 << 10 // below that it makes no difference
	hugeSpareKiB = 4 << 10  // small objects may settle in what is given back
)

// hugeKiB is the most memory that was prepared; the advice stays with the
// addresses. Who holds argon2Turn may use it.
var hugeKiB int

// prepareMemory asks for huge pages for the next allocation of kib KiB. Where
// the process's address space is limited, or memory short, it does nothing:
// the allocation might come to lie beside what was prepared.
func prepareMemory(kib int) {
	if kib < hugeLeastKiB || kib <= hugeKiB {
		return
	}
	if have, _ := availableMemory(); uint64(2*kib+hugeSpareKiB)<<10+kdfSpare > have {
		return
	}
	hugeKiB = kib
	adviseHuge((kib + hugeSpareKiB) << 10)
	runtime.GC()
}

//go:noinline
func adviseHuge(n int) {
	b := make([]byte, n)
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // a kernel without them has none to give
}
