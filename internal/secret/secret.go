// Package secret keeps passphrases and volume keys in memory that is locked
// against swapping and left out of core dumps where the system offers that,
// and that is cleared when it is no longer needed. It also keeps them out of
// formatted output.
//
// What it does not do: Go's own copies (stack growth, strings, a cipher's key
// schedule) are out of its reach, so secrets stay in byte slices, go into
// these buffers early, ciphers are wiped apart, and EraseStack overwrites what
// functions leave behind. Nor can it clear the place where the system stores
// the registers when a signal arrives while they hold a secret.
package secret

import (
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
)

// Buffer is a fixed-length secret. Its memory does not come from Go's heap
// where the system has mmap, so Destroy must be called: the garbage collector
// will not. Destroy must not run while other goroutines use Bytes.
type Buffer struct {
	data      []byte // the secret, a part of region
	region    []byte // pages of its own or, where those are refused, plain memory
	own       bool   // region is not plain memory
	locked    bool
	destroyed atomic.Bool
}

// unlocked remembers that a buffer could not be locked; see Unlocked.
var unlocked atomic.Bool

// New returns a zeroed buffer of n bytes. It panics if n is negative. A system
// that refuses to lock memory (a limit, a container) still gives a buffer:
// see Locked.
func New(n int) *Buffer {
	if n < 0 {
		panic(fmt.Sprintf("secret: negative length %d", n))
	}
	b := &Buffer{locked: true}
	if n > 0 {
		b.region, b.locked, b.own = allocate(n)
		if !b.own {
			b.region = make([]byte, n)
		}
		b.data = b.region[:n:n]
	}
	if !b.locked {
		unlocked.Store(true)
	}
	return b
}

// From returns a buffer that holds a copy of p, and clears p.
func From(p []byte) *Buffer {
	b := New(len(p))
	copy(b.data, p)
	Wipe(p)
	return b
}

// Bytes returns the secret itself, not a copy: it is valid until Destroy. It
// panics after Destroy, since an empty slice could pass for an empty
// passphrase.
func (b *Buffer) Bytes() []byte {
	if b.destroyed.Load() {
		panic("secret: use after Destroy")
	}
	return b.data
}

// Len returns the length in bytes; 0 after Destroy.
func (b *Buffer) Len() int { return len(b.data) }

// Locked reports whether the memory is locked against swapping.
func (b *Buffer) Locked() bool { return b.locked }

// Destroy clears and gives back the memory. Further calls do nothing, and a
// nil buffer is allowed, so that it can be deferred.
func (b *Buffer) Destroy() {
	if b == nil || b.destroyed.Swap(true) {
		return
	}
	Wipe(b.region)
	if b.own {
		release(b.region)
	}
	b.data, b.region = nil, nil
}

// String returns a placeholder, never the secret.
func (b *Buffer) String() string { return "[secret]" }

// GoString returns a placeholder, never the secret.
func (b *Buffer) GoString() string { return "[secret]" }

// Format writes a placeholder for every verb and flag.
func (b *Buffer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret]") }

// MarshalText writes a placeholder, so that JSON output cannot hold the secret.
func (b *Buffer) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// Wipe clears p.
func Wipe(p []byte) {
	clear(p)
	// Keeps the stores: without a later use the compiler may drop them.
	runtime.KeepAlive(p)
}

// Unlocked reports whether any buffer so far could not be locked against
// swapping, so that a program can say so.
func Unlocked() bool { return unlocked.Load() }

// DisableCoreDumps keeps the process from leaving core dumps, which would
// hold what Go's heap holds. It returns an error where the system refuses.
func DisableCoreDumps() error { return disableCoreDumps() }
