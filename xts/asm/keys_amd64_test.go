//go:build !purego

package asm

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// FIPS 197, appendix A: cipher keys, and the last words of their expansion.
var expansions = []struct{ key, last string }{
	{"2b7e151628aed2a6abf7158809cf4f3c", "d014f9a8c9ee2589e13f0cc8b6630ca6"},
	{"8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b", "e98ba06f448c773c8ecc720401002202"},
	{"603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4", "fe4890d1e6188d0b046df344706c631e"},
}

func TestExpandKey(t *testing.T) {
	testenv.Feature(t, supported(AESNI4) == nil, "aesni4")
	for _, c := range expansions {
		key, last := unhex(t, c.key), unhex(t, c.last)
		rounds := len(key)/4 + 6
		var enc, dec [slots * 16]byte
		expandKey(&key[0], uint64(rounds), &enc[0], &dec[0])
		if !bytes.Equal(enc[:16], key[:16]) || !bytes.Equal(enc[14*16:], last) {
			t.Errorf("AES-%d: first key %x, last %x", 8*len(key), enc[:16], enc[14*16:])
		}
		if !bytes.Equal(dec[:16], last) || !bytes.Equal(dec[14*16:], key[:16]) {
			t.Errorf("AES-%d, inverse cipher: first key %x, last %x", 8*len(key), dec[:16], dec[14*16:])
		}
		var other [slots * 16]byte
		expandKey(&key[0], uint64(rounds), &other[0], nil)
		if other != enc {
			t.Errorf("AES-%d: another schedule without the inverse cipher's", 8*len(key))
		}
	}
}

// The generator has these numbers in _gen/layout.go.
func TestScheduleLayout(t *testing.T) {
	var s schedule
	for name, c := range map[string]struct{ got, want uintptr }{
		"enc":       {unsafe.Offsetof(s.enc), 0},
		"dec":       {unsafe.Offsetof(s.dec), 240},
		"tweak":     {unsafe.Offsetof(s.tweak), 480},
		"rounds":    {unsafe.Offsetof(s.rounds), 720},
		"wideEnc":   {unsafe.Offsetof(s.wideEnc), 768},
		"wideDec":   {unsafe.Offsetof(s.wideDec), 1728},
		"wideTweak": {unsafe.Offsetof(s.wideTweak), 2688},
	} {
		if c.got != c.want {
			t.Errorf("%s at %d, the assembly takes it to be at %d", name, c.got, c.want)
		}
	}
}

func TestWipe(t *testing.T) {
	for _, l := range Levels() {
		var k XTSKey
		k.Init(l, unhex(t, strings.Repeat("00112233445566778899aabbccddeeff", 3)+"0123456789abcdef0123456789abcdef"))
		keys := k.sched
		if l != Generic {
			bytesOf := unsafe.Slice((*byte)(unsafe.Pointer(keys)), unsafe.Sizeof(*keys))
			if count := len(bytesOf) - bytes.Count(bytesOf, []byte{0}); count < 600 {
				t.Errorf("%v: only %d bytes are set: the test looks in the wrong place", l, count)
			}
		}
		k.Wipe()
		if l != Generic && *keys != (schedule{}) {
			t.Errorf("%v: Wipe leaves keys", l)
		}
		k.level, k.sched = 0, nil
		bytesOf := unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k))
		if !bytes.Equal(bytesOf, make([]byte, len(bytesOf))) {
			t.Errorf("%v: Wipe leaves something beside the schedule", l)
		}
	}
}

var onHeap *XTSKey // what is stored here is not on a stack

// The wide keys straddle no cache lines: this is how Go allocates, not what it
// promises, and speed alone depends on it.
func TestWideKeysAligned(t *testing.T) {
	for range 100 {
		k := &XTSKey{sched: new(schedule)} // as Init makes it, on any processor
		onHeap = k
		if at := uintptr(unsafe.Pointer(&k.sched.wideEnc)); at%64 != 0 {
			t.Fatalf("the wide keys are at %#x", at)
		}
	}
}

// A copy would outlive Wipe: go vet tells, by the first field's type.
func TestXTSKeyNoCopy(t *testing.T) {
	if _, ok := reflect.New(reflect.TypeFor[XTSKey]().Field(0).Type).Interface().(sync.Locker); !ok {
		t.Error("go vet would not notice a copy")
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
