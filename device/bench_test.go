package device_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
)

// The size of what benchmarks copy: beyond any cache.
const benchSize = 256 << 20

// BenchmarkCopy encrypts a file into a new file of the same folder (TMPDIR
// chooses it), a pipe into a file, and a file into nothing.
func BenchmarkCopy(b *testing.B) {
	folder := b.TempDir()
	src := benchFile(b, folder)
	c := newCipher(b, 4096)
	o := device.CopyOptions{Size: -1, Unit: 4096, Transform: func(dst, src []byte, off int64) error {
		c.Encrypt(dst, src, uint64(off)/512)
		return nil
	}}
	dir, err := device.OSDir(folder, device.FileOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	newOutput := func() *device.Output {
		out, err := device.NewOutput(dir, "out", device.OutputOptions{CreateOptions: device.CreateOptions{Size: benchSize}})
		if err != nil {
			b.Fatal(err)
		}
		return out
	}
	run := func(name string, source func() device.Source, toFile bool) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(benchSize)
			for b.Loop() {
				sink := device.StreamSink(io.Discard)
				if toFile {
					out := newOutput()
					defer out.Abort()
					sink = device.DeviceSink(out.Device())
				}
				if _, err := device.Copy(context.Background(), sink, source(), o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	fromFile := func() device.Source { return device.DeviceSource(src) }
	run("file to file", fromFile, true)
	run("file to stream", fromFile, false)
	run("pipe to file", func() device.Source { return device.StreamSource(benchPipe(b, src)) }, true)
}

// benchFile makes a file of random bytes.
func benchFile(b *testing.B, folder string) *device.File {
	path := folder + "/source"
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.CopyN(f, rand.Reader, benchSize); err != nil {
		b.Fatal(err)
	}
	f.Close()
	d, err := device.OpenFile(path, device.FileOptions{ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	return d
}

// benchPipe returns a pipe into which src is written.
func benchPipe(b *testing.B, src *device.File) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		io.Copy(w, io.NewSectionReader(src, 0, benchSize))
		w.Close()
	}()
	b.Cleanup(func() { r.Close() })
	return r
}

// BenchmarkCrypt reads and writes the crypt view of memory, by several
// goroutines, aligned and not.
func BenchmarkCrypt(b *testing.B) {
	view := device.NewCrypt(device.NewMemory(64<<20, 512), newCipher(b, 4096), device.CryptOptions{})
	if _, err := view.WriteAt(make([]byte, 64<<20), 0); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{512, 4096, 64 << 10, 1 << 20} {
		for name, access := range map[string]func([]byte, int64) (int, error){"read": view.ReadAt, "write": view.WriteAt} {
			b.Run(fmt.Sprint(name, " ", n), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					p := make([]byte, n)
					for off := int64(0); pb.Next(); off = (off + int64(n)) % (63 << 20) {
						if _, err := access(p, off); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}
