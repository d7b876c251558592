package luks

import (
	"fmt"
	"math"
	"strconv"
)

// kdfSpare is what has to be left, in bytes, beside the memory of Argon2: for
// the program itself, whose buffers are allocated after the check.
const kdfSpare = 16 << 20

// bound is one limit on memory.
type bound struct {
	bytes uint64
	why   string
}

// availableMemory is AvailableMemory; tests put other numbers in its place.
var availableMemory = AvailableMemory

// AvailableMemory returns how much memory, in bytes, the process can take
// without being killed or refused, and which limit says so: the control
// groups it is in, resource limits, or what the system has left. Where the
// system does not tell, it returns math.MaxUint64 and "".
func AvailableMemory() (bytes uint64, why string) {
	least := bound{bytes: math.MaxUint64}
	bounds := systemBounds()
	if strconv.IntSize == 32 {
		// Argon2 wants one block; more of 4 GiB than this is seldom in one piece.
		bounds = append(bounds, bound{1536 << 20, "address space of a 32-bit process"})
	}
	for _, b := range bounds {
		if b.bytes < least.bytes {
			least = b
		}
	}
	return least.bytes, least.why
}

// affordable returns ErrNoMemory if the KDF cannot have its memory.
func (k KDF) affordable() error {
	if !k.argon2() {
		return nil
	}
	have, why := availableMemory()
	if need := uint64(k.MemoryKiB)<<10 + kdfSpare; need > have {
		return fmt.Errorf("%w: %s needs %d MiB, there are %d MiB (%s)", ErrNoMemory, k.Type, need>>20, have>>20, why)
	}
	return nil
}
