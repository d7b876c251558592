package device_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
	"github.com/xtsdisk/xtsdisk/internal/sector"
	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// newFile makes a file of size bytes in folder and opens it.
func newFile(t *testing.T, folder string, size int64, o device.FileOptions) *device.File {
	t.Helper()
	f, err := os.CreateTemp(folder, "image")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	f.Close()
	d, err := device.OpenFile(f.Name(), o)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newCipher(t testing.TB, sectorSize int) sector.Cipher {
	t.Helper()
	spec, err := sector.Parse("aes-xts-plain64")
	if err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 64)
	for i := range key {
		key[i] = byte(i * 5)
	}
	c, err := spec.New(key, sector.Options{SectorSize: sectorSize})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	const size = 256<<10 + 777
	mem := func() *device.Memory { return device.NewMemory(size, 512) }
	for name, open := range map[string]func(t *testing.T) device.Device{
		"memory":       func(t *testing.T) device.Device { return mem() },
		"memory byte":  func(t *testing.T) device.Device { return device.NewMemory(70000, 1) },
		"memory 4096":  func(t *testing.T) device.Device { return device.NewMemory(size, 4096) },
		"section":      func(t *testing.T) device.Device { return device.NewSection(mem(), 4096, 100_000) },
		"section odd":  func(t *testing.T) device.Device { return device.NewSection(mem(), 1001, 100_003) },
		"section open": func(t *testing.T) device.Device { return device.NewSection(mem(), 512, -1) },
		"section nested": func(t *testing.T) device.Device {
			return device.NewSection(device.NewSection(mem(), 512, -1), 3, 200_000)
		},
		"record": func(t *testing.T) device.Device { return device.NewRecord(mem()) },
		"concat": func(t *testing.T) device.Device {
			return device.NewConcat(device.NewSection(mem(), 512, 4096), device.NewMemory(70000, 1), mem())
		},
		"concat crypt": func(t *testing.T) device.Device {
			d := mem()
			return device.NewConcat(
				device.NewCrypt(device.NewSection(d, 0, 64<<10), newCipher(t, 4096), device.CryptOptions{}),
				device.NewSection(d, 100<<10, 100<<10),
				device.NewCrypt(device.NewSection(d, 64<<10, 32<<10), newCipher(t, 4096), device.CryptOptions{}))
		},
		"file": func(t *testing.T) device.Device { return newFile(t, t.TempDir(), size, device.FileOptions{}) },
		"crypt 512": func(t *testing.T) device.Device {
			return device.NewCrypt(mem(), newCipher(t, 512), device.CryptOptions{})
		},
		"crypt slow": func(t *testing.T) device.Device { // others run between reading and writing a sector
			slow := &devicetest.Fault{Device: mem(), Before: func(c devicetest.Call) (int, error) { runtime.Gosched(); return c.N, nil }}
			return device.NewCrypt(slow, newCipher(t, 4096), device.CryptOptions{})
		},
		"crypt wide": func(t *testing.T) device.Device { // a cipher of wide blocks, and writes that come in pieces
			return device.NewCrypt(&pieces{mem()}, wideCipher{}, device.CryptOptions{AllowDiscards: true})
		},
		"crypt 4096": func(t *testing.T) device.Device {
			return device.NewCrypt(mem(), newCipher(t, 4096), device.CryptOptions{IVOffset: 8 << 40, AllowDiscards: true})
		},
		"crypt file section": func(t *testing.T) device.Device {
			f := newFile(t, t.TempDir(), size, device.FileOptions{})
			return device.NewCrypt(device.NewSection(f, 3584, -1), newCipher(t, 4096), device.CryptOptions{AllowDiscards: true})
		},
		"file zero range": func(t *testing.T) device.Device {
			return device.WithoutZeroing(newFile(t, t.TempDir(), size, device.FileOptions{}), false)
		},
		"file no zeroing": func(t *testing.T) device.Device {
			return device.WithoutZeroing(newFile(t, t.TempDir(), size, device.FileOptions{}), true)
		},
		"aligned": func(t *testing.T) device.Device {
			return device.OpenAligned(t, newFile(t, t.TempDir(), 256<<10, device.FileOptions{}), 1024)
		},
		"fault": func(t *testing.T) device.Device {
			return &devicetest.Fault{Device: mem(), Before: func(c devicetest.Call) (int, error) { return c.N, nil }}
		},
		"large crypt": func(t *testing.T) device.Device { // longer than the chunks of the view
			return device.NewCrypt(device.NewMemory(1<<20, 512), newCipher(t, 1024), device.CryptOptions{IVOffset: 2})
		},
	} {
		t.Run(name, func(t *testing.T) { devicetest.Run(t, open) })
	}
}

// directFolders are where direct I/O is tried: disks and tmpfs differ.
func directFolders(t *testing.T) []string {
	folders := []string{t.TempDir()}
	if _, err := os.Stat("/dev/shm"); err == nil {
		shm, err := os.MkdirTemp("/dev/shm", "xtsdisk-test")
		if err == nil {
			t.Cleanup(func() { os.RemoveAll(shm) })
			folders = append(folders, shm)
		}
	}
	return folders
}

func TestConformanceDirect(t *testing.T) {
	const size = 256<<10 + 777
	for _, folder := range directFolders(t) {
		t.Run(filepath.Dir(folder), func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Device {
				return newFile(t, folder, size, device.FileOptions{Direct: true})
			})
		})
	}
}

// loopDevice returns a block device of size bytes.
func loopDevice(t *testing.T, size int64, sectorSize string) string {
	t.Helper()
	losetup := testenv.Tool(t, "losetup")
	testenv.Feature(t, os.Getuid() == 0, "root")
	backing := newFile(t, t.TempDir(), size, device.FileOptions{})
	backing.Close()
	out, err := exec.Command(losetup, "--find", "--show", "--sector-size", sectorSize, backing.Name()).CombinedOutput()
	testenv.Feature(t, err == nil, "loop")
	path := strings.TrimSpace(string(out))
	t.Cleanup(func() { exec.Command(losetup, "--detach", path).Run() })
	return path
}

func TestConformanceBlock(t *testing.T) {
	for _, sectorSize := range []string{"512", "4096"} {
		size := int64(256 << 10)
		if sectorSize == "512" {
			size += 512 // ends inside a page
		}
		path := loopDevice(t, size, sectorSize)
		for name, o := range map[string]device.FileOptions{"cached": {}, "direct": {Direct: true}} {
			t.Run(sectorSize+" "+name, func(t *testing.T) {
				devicetest.Run(t, func(t *testing.T) device.Device {
					d, err := device.OpenFile(path, o)
					if err != nil {
						t.Fatal(err)
					}
					return d
				})
			})
		}
	}
}

// wideCipher changes all of a sector with any byte of it, as Adiantum does: a
// sector half rewritten decrypts to noise everywhere.
type wideCipher struct{}

func (wideCipher) SectorSize() int { return 512 }
func (wideCipher) Wipe()           {}

func (wideCipher) Encrypt(dst, src []byte, iv uint64) {
	copy(dst, src)
	for s := dst[:len(src)]; len(s) > 0; s, iv = s[512:], iv+1 {
		for i := range 512 {
			s[i] += s[(i+511)%512] + byte(iv) | byte(i)
		}
		for i := 511; i >= 0; i-- {
			s[i] += s[(i+1)%512]
		}
	}
}

func (wideCipher) Decrypt(dst, src []byte, iv uint64) {
	copy(dst, src)
	for s := dst[:len(src)]; len(s) > 0; s, iv = s[512:], iv+1 {
		for i := range 512 {
			s[i] -= s[(i+1)%512]
		}
		for i := 511; i >= 0; i-- {
			s[i] -= s[(i+511)%512] + byte(iv) | byte(i)
		}
	}
}

// pieces writes in pieces, between which others run.
type pieces struct{ *device.Memory }

func (p *pieces) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off > p.Size()-int64(len(b)) {
		return p.Memory.WriteAt(b, off)
	}
	for done := 0; done < len(b); done += 256 {
		runtime.Gosched()
		if n, err := p.Memory.WriteAt(b[done:min(done+256, len(b))], off+int64(done)); err != nil {
			return done + n, err
		}
	}
	return len(b), nil
}
