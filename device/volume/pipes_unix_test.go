//go:build unix

package volume

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestNamedPipes(t *testing.T) {
	data := noise(1, mib)
	dir := t.TempDir()
	in, out := dir+"/in", dir+"/out"
	try(t, errors.Join(syscall.Mkfifo(in, 0o600), syscall.Mkfifo(out, 0o600)))
	go func() { try(t, os.WriteFile(in, data, 0)) }()
	result := make(chan []byte)
	go func() {
		b, err := os.ReadFile(out)
		try(t, err)
		result <- b
	}()
	p := plainOf(512)
	if _, err := Encrypt(t.Context(), EncryptOptions{Src: in, Dst: out, Plain: p}); err != nil {
		t.Fatal(err)
	}
	equal(t, "through named pipes", <-result, encrypted(t, p, data))
	only(t, dir, "in", "out")
}
