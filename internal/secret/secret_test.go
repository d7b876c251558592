package secret

import (
	"bytes"
	"encoding/json"
	"fmt"

	"strings"
	"testing"
)

func TestBuffer(t *testing.T) {
	for _, n := range []int{0, 1, 32, 4096, 4097, 1 << 20} {
		b := New(n)
		if b.Len() != n || len(b.Bytes()) != n || cap(b.Bytes()) != n {
			t.Errorf("%d: length %d, %d bytes, capacity %d", n, b.Len(), len(b.Bytes()), cap(b.Bytes()))
		}
		if !bytes.Equal(b.Bytes(), make([]byte, n)) {
			t.Errorf("%d: not zero", n)
		}
		for i := range b.Bytes() {
			b.Bytes()[i] = byte(i)
		}
		b.Destroy()
		b.Destroy()
		if b.Len() != 0 {
			t.Errorf("%d: length %d after Destroy", n, b.Len())
		}
	}
	var none *Buffer
	none.Destroy()
}

func TestFrom(t *testing.T) {
	p := []byte("hunter2")
	b := From(p)
	defer b.Destroy()
	if string(b.Bytes()) != "hunter2" {
		t.Errorf("holds %q", b.Bytes())
	}
	if !bytes.Equal(p, make([]byte, 7)) {
		t.Errorf("the source is left as %q", p)
	}
}

// Destroy clears the memory before it gives it back: seen on memory that
// stays readable.
func TestDestroyClears(t *testing.T) {
	region := bytes.Repeat([]byte{0xa5}, 4096)
	b := &Buffer{data: region[:100], region: region}
	b.Destroy()
	if !bytes.Equal(region, make([]byte, 4096)) {
		t.Error("memory is not cleared")
	}
}

func TestUseAfterDestroy(t *testing.T) {
	b := New(3)
	b.Destroy()
	defer func() {
		if recover() == nil {
			t.Error("Bytes after Destroy does not panic")
		}
	}()
	b.Bytes()
}

func TestNegative(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(-1)
}

// No verb, flag or encoding shows the secret, by value or through a struct.
func TestRedaction(t *testing.T) {
	b := From([]byte("hunter2"))
	defer b.Destroy()
	holder := struct{ Key *Buffer }{b}
	var shown []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%c", "%p", "%T", "%10v", "%U"} {
		shown = append(shown, fmt.Sprintf(verb, b), fmt.Sprintf(verb, holder), fmt.Sprintf(verb, []*Buffer{b}))
	}
	text, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	shown = append(shown, string(text), fmt.Sprint(b), fmt.Sprintln(holder), b.String(), b.GoString())
	for _, s := range shown {
		for _, bad := range []string{"hunter2", "68756e74657232", "68756E74657232", "104 117", "68 75"} {
			if strings.Contains(s, bad) {
				t.Errorf("shown in %q", s)
			}
		}
	}
	if got := fmt.Sprintf("%+v", b); got != "[secret]" {
		t.Errorf("%%+v gives %q", got)
	}
}

func TestWipe(t *testing.T) {
	p := []byte("hunter2")
	Wipe(p[:3])
	if string(p) != "\x00\x00\x00ter2" {
		t.Errorf("got %q", p)
	}
	Wipe(nil)
}

func TestDisableCoreDumps(t *testing.T) {
	if err := DisableCoreDumps(); err != nil {
		t.Fatal(err)
	}
	checkCoreDumps(t)
}
