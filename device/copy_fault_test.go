package device_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
)

// noLeaks fails the test if goroutines of the package outlive it.
func noLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		var stacks []byte
		for range 200 {
			stacks = make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			if !bytes.Contains(stacks, []byte("xtsdisk/device.(*")) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("goroutines are left behind:\n%s", stacks)
	})
}

const faultSize, faultChunk = 1 << 20, 32 << 10

// The endpoints of a copy, each made to go wrong by before.
func faultySource(stream bool, before func(devicetest.Call) (int, error)) device.Source {
	m := device.NewMemory(faultSize, 512)
	m.WriteAt(bytes.Repeat([]byte{5}, faultSize), 0)
	if stream {
		return device.StreamSource(&faultyStream{d: m, before: before, action: devicetest.Read})
	}
	return device.DeviceSource(&devicetest.Fault{Device: m, Before: before})
}

func faultySink(stream bool, before func(devicetest.Call) (int, error)) (device.Sink, *device.Memory) {
	m := device.NewMemory(faultSize, 512)
	if stream {
		return device.StreamSink(&faultyStream{d: m, before: before, action: devicetest.Write}), m
	}
	return device.DeviceSink(&devicetest.Fault{Device: m, Before: before}), m
}

// faultyStream is a reader and writer that goes over a device in order.
type faultyStream struct {
	d      device.Device
	off    int64
	action devicetest.Action
	before func(devicetest.Call) (int, error)
}

func (s *faultyStream) Read(p []byte) (int, error) {
	n, err := s.before(devicetest.Call{Action: devicetest.Read, Off: s.off, N: len(p)})
	got, readErr := s.d.ReadAt(p[:n], s.off)
	s.off += int64(got)
	if err == nil {
		err = readErr
	}
	return got, err
}

func (s *faultyStream) Write(p []byte) (int, error) {
	n, err := s.before(devicetest.Call{Action: devicetest.Write, Off: s.off, N: len(p)})
	got, writeErr := s.d.WriteAt(p[:n], s.off)
	s.off += int64(got)
	if err == nil {
		err = writeErr
	}
	return got, err
}

func healthy(c devicetest.Call) (int, error) { return c.N, nil }

// everyCopy runs test for sources and sinks that are devices and streams.
func everyCopy(t *testing.T, test func(t *testing.T, fromStream, toStream bool)) {
	for _, from := range []bool{false, true} {
		for _, to := range []bool{false, true} {
			t.Run(fmt.Sprintf("fromStream=%v toStream=%v", from, to), func(t *testing.T) {
				noLeaks(t)
				test(t, from, to)
			})
		}
	}
}

func copyOptions() device.CopyOptions {
	return device.CopyOptions{Size: -1, ChunkSize: faultChunk, Workers: 3, Unit: 512}
}

// An error at any place of either side ends the copy and is what it returns.
func TestCopyErrorAnywhere(t *testing.T) {
	everyCopy(t, func(t *testing.T, from, to bool) {
		for at := int64(0); at < faultSize; at += faultChunk * 3 / 2 {
			failAt := func(c devicetest.Call) (int, error) {
				if at >= c.Off && at < c.Off+int64(c.N) {
					return int(at - c.Off), errInjected
				}
				return c.N, nil
			}
			sink, _ := faultySink(to, healthy)
			stats, err := device.Copy(context.Background(), sink, faultySource(from, failAt), copyOptions())
			if !errors.Is(err, errInjected) || stats.Bytes >= faultSize {
				t.Errorf("read fails at %d: %+v, %v", at, stats, err)
			}
			sink, _ = faultySink(to, failAt)
			stats, err = device.Copy(context.Background(), sink, faultySource(from, healthy), copyOptions())
			if !errors.Is(err, errInjected) || stats.Bytes >= faultSize {
				t.Errorf("write fails at %d: %+v, %v", at, stats, err)
			}
		}
	})
}

func TestCopyTransformError(t *testing.T) {
	everyCopy(t, func(t *testing.T, from, to bool) {
		o := copyOptions()
		o.Transform = func(dst, src []byte, off int64) error {
			if off == 10*faultChunk {
				return errInjected
			}
			copy(dst, src)
			return nil
		}
		sink, _ := faultySink(to, healthy)
		if _, err := device.Copy(context.Background(), sink, faultySource(from, healthy), o); !errors.Is(err, errInjected) {
			t.Errorf("Copy: %v", err)
		}
	})
}

// Short and interrupted calls lose nothing.
func TestCopyShortCalls(t *testing.T) {
	everyCopy(t, func(t *testing.T, from, to bool) {
		var calls atomic.Int64
		stutter := func(c devicetest.Call) (int, error) {
			switch calls.Add(1) % 4 {
			case 0:
				return 0, syscall.EINTR
			case 1:
				return c.N / 3, syscall.EINTR
			case 2:
				return min(c.N, 1+c.N/2), nil
			}
			return c.N, nil
		}
		sink, got := faultySink(to, stutter)
		stats, err := device.Copy(context.Background(), sink, faultySource(from, stutter), copyOptions())
		if err != nil || stats.Bytes != faultSize {
			t.Fatalf("Copy: %+v, %v", stats, err)
		}
		if !bytes.Equal(readAll(t, got), bytes.Repeat([]byte{5}, faultSize)) {
			t.Error("bytes were lost")
		}
	})
}

func TestCopyNoProgress(t *testing.T) {
	everyCopy(t, func(t *testing.T, from, to bool) {
		stuck := func(c devicetest.Call) (int, error) { return 0, nil }
		sink, _ := faultySink(to, healthy)
		if _, err := device.Copy(context.Background(), sink, faultySource(from, stuck), copyOptions()); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("a source that never gives anything: %v", err)
		}
	})
}

// fullAfter is a medium with room for limit bytes.
func fullAfter(limit int64) func(c devicetest.Call) (int, error) {
	return func(c devicetest.Call) (int, error) {
		if room := limit - c.Off; room < int64(c.N) {
			return int(max(room, 0)), syscall.ENOSPC
		}
		return c.N, nil
	}
}

func TestCopyNoSpace(t *testing.T) {
	everyCopy(t, func(t *testing.T, from, to bool) {
		sink, _ := faultySink(to, fullAfter(700_000))
		stats, err := device.Copy(context.Background(), sink, faultySource(from, healthy), copyOptions())
		if !errors.Is(err, syscall.ENOSPC) || stats.Bytes > 700_000 {
			t.Errorf("Copy: %+v, %v", stats, err)
		}
	})
}

// Cancelling at any time ends the copy with the cause.
func TestCopyCancel(t *testing.T) {
	cause := errors.New("that is enough")
	rng := rand.New(rand.NewPCG(1, 2))
	everyCopy(t, func(t *testing.T, from, to bool) {
		for range 30 {
			ctx, cancel := context.WithCancelCause(context.Background())
			after := rng.Int64N(faultSize - faultChunk)
			o := copyOptions()
			o.Progress = func(done int64) {
				if done >= after {
					cancel(cause)
				}
			}
			sink, _ := faultySink(to, healthy)
			stats, err := device.Copy(ctx, sink, faultySource(from, healthy), o)
			// The last chunks may be done by the time the cause is seen.
			if err == nil && stats.Bytes < faultSize || err != nil && !errors.Is(err, cause) {
				t.Fatalf("cancelled after %d bytes: %+v, %v", after, stats, err)
			}
			if after < faultSize/2 && err == nil {
				t.Fatalf("cancelled after %d bytes, and copied to the end", after)
			}
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		sink, _ := faultySink(to, healthy)
		if stats, err := device.Copy(ctx, sink, faultySource(from, healthy), copyOptions()); !errors.Is(err, cause) || stats.Bytes != 0 {
			t.Errorf("cancelled before: %+v, %v", stats, err)
		}
	})
}

// A pipe that stays silent, or full, does not hold a copy that is cancelled.
func TestCopyCancelBlockedPipe(t *testing.T) {
	noLeaks(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for name, run := range map[string]func(ctx context.Context) error{
		"silent": func(ctx context.Context) error {
			sink, _ := faultySink(false, healthy)
			_, err := device.Copy(ctx, sink, device.StreamSource(r), copyOptions())
			return err
		},
		"full": func(ctx context.Context) error {
			_, err := device.Copy(ctx, device.StreamSink(w), faultySource(false, healthy), copyOptions())
			return err
		},
	} {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, errInjected)
		if err := run(ctx); !errors.Is(err, errInjected) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	// The pipe is as usable as before.
	go func() { w.Write([]byte("still here")) }()
	b := make([]byte, faultSize)
	if n, err := r.Read(b); err != nil || n == 0 {
		t.Errorf("the pipe after the copy: %d, %v", n, err)
	}
}

// blocked is a stream that nothing but release can move.
type blocked struct {
	entered, release chan struct{}
	once             sync.Once
}

func (b *blocked) block(p []byte) (int, error) {
	b.once.Do(func() { close(b.entered) })
	<-b.release
	copy(p, "secret")
	return len(p), nil
}

func (b *blocked) Read(p []byte) (int, error)  { return b.block(p) }
func (b *blocked) Write(p []byte) (int, error) { return b.block(p[:6]) }

// A stream that cannot be interrupted is left behind, and its goroutine ends
// and clears the buffer when the call returns.
func TestCopyCancelAbandons(t *testing.T) {
	for _, reading := range []bool{true, false} {
		noLeaks(t)
		b := &blocked{entered: make(chan struct{}), release: make(chan struct{})}
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() { <-b.entered; cancel(errInjected) }()
		sink, _ := faultySink(false, healthy)
		src := faultySource(false, healthy)
		if reading {
			src = device.StreamSource(b)
		} else {
			sink = device.StreamSink(b)
		}
		if _, err := device.Copy(ctx, sink, src, copyOptions()); !errors.Is(err, errInjected) {
			t.Errorf("reading=%v: %v", reading, err)
		}
		close(b.release)
	}
}

// A reader that says io.EOF along with its last bytes, and one of another
// length than the chunks, are read to the end.
func TestCopyStreamEnds(t *testing.T) {
	for _, size := range []int{0, 1, faultChunk - 1, faultChunk, faultChunk + 1, 3 * faultChunk} {
		for _, o := range []device.CopyOptions{{Size: -1, ChunkSize: faultChunk}, {Size: int64(size), ChunkSize: faultChunk}} {
			want := strings.Repeat("x", size)
			var out bytes.Buffer
			_, err := device.Copy(context.Background(), device.StreamSink(&out), device.StreamSource(&eager{want}), o)
			if err != nil || out.String() != want {
				t.Errorf("%d bytes, size %d: got %d, %v", size, o.Size, out.Len(), err)
			}
		}
	}
}

// eager gives its end together with its last bytes.
type eager struct{ s string }

func (e *eager) Read(p []byte) (int, error) {
	n := copy(p, e.s)
	if e.s = e.s[n:]; e.s == "" {
		return n, io.EOF
	}
	return n, nil
}

// A stream that failed or ended is not read again, by a worker that comes
// before the others know.
func TestCopyReadsNoFurther(t *testing.T) {
	for _, c := range []struct{ fail, want error }{{nil, device.ErrPartialUnit}, {errInjected, errInjected}} {
		source := &failsOnce{size: 3*4096 + 100, err: c.fail}
		first, second := device.PlanPastError(source, device.CopyOptions{Size: -1, Unit: 512, ChunkSize: 4096})
		if !errors.Is(first, c.want) || !errors.Is(second, c.want) || source.late {
			t.Errorf("%v: then %v, read again: %v; want %v both times", first, second, source.late, c.want)
		}
	}
}

// failsOnce gives size bytes, an error, and then goes on as if nothing had
// happened.
type failsOnce struct {
	size         int
	err          error // nil: io.EOF
	failed, late bool
}

func (f *failsOnce) Read(p []byte) (int, error) {
	f.late = f.late || f.failed
	n := min(len(p), f.size)
	if f.size -= n; n > 0 || f.failed {
		return n, nil
	}
	if f.failed = true; f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}
