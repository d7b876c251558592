package device_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
)

// Holders of a range lock never conflict: at each number there is one writer
// or any number of readers.
func TestRangeLock(t *testing.T) {
	const numbers = 12
	var l device.RangeLock
	var state [numbers]atomic.Int32 // readers, or -1
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 3))
			for range 2000 {
				from := rng.Int64N(numbers)
				to := from + 1 + rng.Int64N(numbers-from)
				exclusive := rng.IntN(3) == 0
				unlock := l.Lock(from, to, exclusive)
				for i := from; i < to; i++ {
					if exclusive && !state[i].CompareAndSwap(0, -1) || !exclusive && state[i].Add(1) <= 0 {
						t.Errorf("conflict at %d", i)
					}
				}
				for i := from; i < to; i++ {
					if exclusive {
						state[i].Store(0)
					} else {
						state[i].Add(-1)
					}
				}
				unlock()
			}
		})
	}
	wg.Wait()
	if n := l.Len(); n != 0 {
		t.Errorf("%d locks are still held", n)
	}
}

// A writer that waits is not overtaken by readers that come later, nor held
// up by locks elsewhere.
func TestRangeLockOrder(t *testing.T) {
	var l device.RangeLock
	order := make(chan string, 3)
	reader := l.Lock(0, 10, false)
	l.Lock(10, 20, true) // never released: of no concern to the others
	waiting := func(name string, exclusive bool) {
		before := l.Len()
		go func() {
			unlock := l.Lock(0, 10, exclusive)
			order <- name
			unlock()
		}()
		for l.Len() == before {
			runtime.Gosched()
		}
	}
	waiting("writer", true)
	waiting("reader", false)
	reader()
	if a, b := <-order, <-order; a != "writer" || b != "reader" {
		t.Errorf("order: %s, %s", a, b)
	}
}

// Plaintext must not stay in pooled buffers.
func TestBuffersCleared(t *testing.T) {
	secret := bytes.Repeat([]byte("SECRET.."), 64<<10)
	const chunk = 64 << 10
	src := memoryOf(secret)
	device.Copy(context.Background(), device.DeviceSink(device.NewMemory(src.Size(), 512)), device.DeviceSource(src),
		device.CopyOptions{Size: -1, ChunkSize: chunk, Workers: 2})
	if bytes.Contains(device.PooledBytes(chunk), []byte("SECRET")) {
		t.Error("Copy leaves what it copied in a pooled buffer")
	}
	view := device.NewCrypt(device.NewMemory(src.Size(), 512), newCipher(t, 4096), device.CryptOptions{})
	for _, n := range []int{100, 4096, 5000, chunk} {
		for _, off := range []int64{0, 50} {
			write(t, view, secret[:n], off)
			if _, err := view.ReadAt(make([]byte, n), off); err != nil {
				t.Fatal(err)
			}
		}
		for _, size := range []int{n, n + 4096, n + 8192} {
			if bytes.Contains(device.PooledBytes(size), []byte("SECRET")) {
				t.Errorf("the crypt view leaves plaintext of %d bytes in a pooled buffer", n)
			}
		}
	}
}

// The way around a missing system call is as careful as the call.
func TestRenameByLink(t *testing.T) {
	folder := t.TempDir()
	dir := openDir(t, folder)
	for _, name := range []string{"a", "b"} {
		os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600)
	}
	if err := device.RenameByLink(dir, "a", "b"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v, want fs.ErrExist", err)
	}
	if b, _ := os.ReadFile(filepath.Join(folder, "b")); string(b) != "b" {
		t.Errorf("the file in the way holds %q", b)
	}
	if err := device.RenameByLink(dir, "none", "c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v, want fs.ErrNotExist", err)
	}
	if err := device.RenameByLink(dir, "a", "c"); err != nil || names(t, folder) != "b c" {
		t.Errorf("%v; the folder holds %q", err, names(t, folder))
	}
}

// A flush that failed once must not succeed later, when the system has
// forgotten what it lost.
func TestFlushFailureStays(t *testing.T) {
	f := newFile(t, t.TempDir(), 4096, device.FileOptions{})
	device.BreakFlush(f)
	if err := f.Flush(); err == nil || errors.Is(err, device.ErrFlushFailed) {
		t.Errorf("first Flush: %v", err)
	}
	if err := f.Flush(); !errors.Is(err, device.ErrFlushFailed) {
		t.Errorf("second Flush: %v, want ErrFlushFailed", err)
	}
}

// A buffer that is left in a call that blocks is cleared when the call ends.
func TestAbandonedBuffer(t *testing.T) {
	b := &blocked{entered: make(chan struct{}), release: make(chan struct{})}
	held := device.AbandonRead(b, 4096, b.entered, func() { close(b.release) })
	if len(bytes.Trim(held, "\x00")) > 0 {
		t.Errorf("the buffer holds %.20q", held)
	}
}
