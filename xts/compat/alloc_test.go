//go:build !race

// With the race detector, telling it what the assembly reads and writes makes
// the arguments escape, which allocates; without, nothing may.

package compat

import (
	"crypto/aes"
	"testing"
)

func TestNoAllocation(t *testing.T) {
	for name, block := range map[string]newBlock{"aes": aes.NewCipher, "twofish": newTwofish} {
		c, err := NewCipher(block, stream("key", 64))
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 512)
		if n := testing.AllocsPerRun(20, func() { c.Encrypt(buf, buf, 1); c.Decrypt(buf, buf, 1) }); n != 0 {
			t.Errorf("%s: %v allocations a call", name, n)
		}
	}
}
