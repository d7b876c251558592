//go:build unix

package volume

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
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

// Opening a pipe waits for somebody at its other end, and ends with ctx.
func TestNamedPipesInterrupted(t *testing.T) {
	src := write(t, "src", noise(1, mib))
	for name, job := range map[string]func(ctx context.Context, pipe string) error{
		"source": func(ctx context.Context, pipe string) error {
			_, err := Encrypt(ctx, EncryptOptions{Src: pipe, Dst: pipe + ".out", Luks: cheap()})
			return err
		},
		"target": func(ctx context.Context, pipe string) error {
			_, err := Encrypt(ctx, EncryptOptions{Src: src, Dst: pipe, Luks: cheap()})
			return err
		},
		"volume": func(ctx context.Context, pipe string) error {
			_, err := Decrypt(ctx, DecryptOptions{Src: pipe, Dst: pipe + ".out", Open: unlockIt()})
			return err
		},
	} {
		dir := t.TempDir() // a pipe for each: the open that is left behind is an end of it
		try(t, syscall.Mkfifo(dir+"/pipe", 0o600))
		why := errors.New("no more patience")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, why)
		refused(t, name, job(ctx, dir+"/pipe"), why)
		cancel()
		only(t, dir, "pipe")
		both, err := os.OpenFile(dir+"/pipe", os.O_RDWR, 0) // lets it end
		try(t, err)
		both.Close()
	}
}

// A pipe has no keyslots to look up.
func TestNamedPipeHasNoHeader(t *testing.T) {
	pipe := t.TempDir() + "/pipe"
	try(t, syscall.Mkfifo(pipe, 0o600))
	_, err := Unlock(t.Context(), pipe, unlockIt())
	refused(t, "unlock", err, ErrKind, pipe)
	o := unlockIt()
	o.Header = pipe
	_, err = Open(t.Context(), write(t, "data", noise(1, mib)), o)
	refused(t, "detached header", err, ErrKind, pipe)
}
