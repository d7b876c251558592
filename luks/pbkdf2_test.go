package luks

import (
	"bytes"
	"crypto/hmac"
	"hash"
	"reflect"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/xtsdisk/xtsdisk/internal/hashes"
)

// prf is HMAC, message after message, whatever the hash and the key's length.
func TestPRF(t *testing.T) {
	for _, name := range hashes.Names() {
		newHash := hashes.ByName(name)
		rapid.Check(t, func(t *rapid.T) {
			key := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "key")
			p, want := newPRF(newHash, key), hmac.New(newHash, key)
			for _, message := range rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 1, 4).Draw(t, "messages") {
				p.begin()
				p.inner.Write(message)
				got := make([]byte, want.Size())
				p.finish(got)
				want.Reset()
				want.Write(message)
				if !bytes.Equal(got, want.Sum(nil)) {
					t.Fatalf("%s of %x under %x is %x, want %x", name, message, key, got, want.Sum(nil))
				}
			}
		})
	}
}

// memoryOf is the memory of a hash function itself.
func memoryOf(t *testing.T, h hash.Hash) []byte {
	t.Helper()
	v := reflect.ValueOf(h)
	if v.Kind() != reflect.Pointer {
		t.Fatalf("%T is no pointer", h)
	}
	return unsafe.Slice((*byte)(v.UnsafePointer()), v.Elem().Type().Size())
}

// Wiped, a prf has no more of its key or last message than a new one: seen in
// the memory of its hash functions.
func TestPRFWipe(t *testing.T) {
	for _, name := range hashes.Names() {
		newHash := hashes.ByName(name)
		p := newPRF(newHash, bytes.Repeat([]byte("key"), 20))
		innerStart, outerStart := p.innerStart, p.outerStart
		p.begin()
		p.inner.Write(bytes.Repeat([]byte("message"), 5))
		p.finish(make([]byte, p.inner.Size()))
		p.inner.Write([]byte("the rest"))
		p.outer.Write([]byte("the rest"))
		p.wipe()
		fresh := newHash()
		hashes.Forget(fresh)
		for _, h := range []hash.Hash{p.inner, p.outer} {
			if !bytes.Equal(memoryOf(t, h), memoryOf(t, fresh)) {
				t.Errorf("%s: the memory is not that of a new one", name)
			}
		}
		for _, b := range [][]byte{innerStart, outerStart} {
			if len(b) == 0 || !bytes.Equal(b, make([]byte, len(b))) {
				t.Errorf("%s: the start is still %x", name, b)
			}
		}
		for _, piece := range []string{"keykeykey", "messagemessage", "the rest"} {
			if bytes.Contains(memoryOf(t, p.inner), []byte(piece)) {
				t.Errorf("%s: the memory has %q", name, piece)
			}
		}
	}
}
