package device

import (
	"math/bits"
	"sync"
	"unsafe"
)

// bufferAlign is the alignment, in bytes, of the buffers of this package:
// enough for direct I/O on any device with pages or sectors up to this size.
const bufferAlign = 4096

// Buffers are kept in pools by power of two, from 4 KiB to 4 MiB. A buffer
// that held plaintext is cleared when it goes back, so that the pools hold
// ciphertext at most.
const minBufferBits, maxBufferBits = 12, 22

var buffers [maxBufferBits - minBufferBits + 1]sync.Pool // of *buffer

// buffer is a slice aligned to bufferAlign. The struct travels with it, so
// that a round trip through the pool allocates nothing.
type buffer struct {
	b     []byte
	class int // index in buffers; -1: not pooled
}

// getBuffer returns n bytes of undefined contents.
func getBuffer(n int) *buffer {
	class := max(0, bits.Len(uint(max(n, 1)-1))-minBufferBits)
	if class >= len(buffers) {
		return &buffer{b: alignedBytes(n), class: -1}
	}
	if v := buffers[class].Get(); v != nil {
		buf := v.(*buffer)
		buf.b = buf.b[:n]
		return buf
	}
	return &buffer{b: alignedBytes(1 << (class + minBufferBits))[:n], class: class}
}

// put gives the buffer back as it is.
func (buf *buffer) put() {
	if buf.class >= 0 {
		buffers[buf.class].Put(buf)
	}
}

// wipe clears the buffer and gives it back.
func (buf *buffer) wipe() {
	clear(buf.b)
	buf.put()
}

// alignedBytes allocates n bytes at an address that is a multiple of
// bufferAlign. The heap does not move, so it stays one.
func alignedBytes(n int) []byte {
	b := make([]byte, n+bufferAlign-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (bufferAlign - 1))
	return b[skip : skip+n : skip+n]
}
