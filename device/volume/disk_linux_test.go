package volume

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/lock"
	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/luks"
)

// attach makes a block device of a file, detached at the end of the test.
func attach(t *testing.T, path string, args ...string) string {
	t.Helper()
	testenv.Feature(t, os.Geteuid() == 0, "root")
	losetup := testenv.Tool(t, "losetup")
	out, err := exec.Command(losetup, append(args, "--show", "-f", path)...).Output()
	testenv.Feature(t, err == nil, "loop")
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() { exec.Command(losetup, "-d", dev).Run() })
	return dev
}

// found names what is recognised on a file or device.
func found(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		t.Fatal(err)
	}
	return names(probe.Identify(f, size))
}

func TestBlockDevice(t *testing.T) {
	data := filesystem(1, 4*mib)
	src := write(t, "src", data)
	backing := write(t, "backing", filesystem(2, 8*mib))
	dev := attach(t, backing)

	e := EncryptOptions{Src: src, Dst: dev, Luks: cheap()}
	_, err := Encrypt(t.Context(), e)
	refused(t, "without force", err, ErrExists, dev, "ext4")
	e.Force = true
	report, err := Encrypt(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "spans all of "+dev) {
		t.Errorf("warnings %q", report.Warnings)
	}
	if got := found(t, dev); got != "luks2" {
		t.Errorf("found %s", got)
	}
	out := src + ".plain"
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: dev, Dst: out, Open: unlockIt()}); err != nil {
		t.Fatal(err)
	}
	equal(t, "decrypted", read(t, out)[:len(data)], data)

	// A device and its backing file are the same bytes.
	_, err = Decrypt(t.Context(), DecryptOptions{Src: dev, Dst: backing, Force: true, Open: unlockIt()})
	refused(t, "to the backing file", err, ErrSame)
	_, err = Encrypt(t.Context(), EncryptOptions{Src: src, Dst: backing, Force: true, Luks: cheap()})
	refused(t, "a loop device's file", err, lock.ErrInUse, dev)

	// A plain volume at an offset, and back onto another device.
	p := plainOf(4096)
	p.Offset = mib
	if _, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: dev, Force: true, Plain: p}); err != nil {
		t.Fatal(err)
	}
	if got := found(t, dev); got != "luks2" {
		t.Errorf("what lies in front of a plain volume was touched: found %q", got)
	}
	p.Size = int64(len(data))
	dev2 := attach(t, write(t, "second", filesystem(3, 6*mib)))
	o := OpenOptions{Plain: p}
	_, err = Decrypt(t.Context(), DecryptOptions{Src: dev, Dst: dev2, Force: true, Open: o})
	refused(t, "plain where a header is", err, ErrIsLUKS)
	o.Force = true
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: dev, Dst: dev2, Force: true, Open: o}); err != nil {
		t.Fatal(err)
	}
	equal(t, "device to device", read(t, dev2)[:len(data)], data)

	if _, err := Encrypt(t.Context(), EncryptOptions{Src: dev, Dst: dev2, Force: true, Luks: cheap()}); err == nil {
		t.Error("8 MiB and a header fit into 6 MiB")
	} else {
		refused(t, "too large", err, ErrSize, dev2)
	}
	equal(t, "refused before writing", read(t, dev2)[:len(data)], data)
}

// From a pipe it shows on the way that the device is too small.
func TestBlockDeviceTooSmallForPipe(t *testing.T) {
	dev := attach(t, write(t, "backing", filesystem(1, mib)))
	_, err := Encrypt(t.Context(), EncryptOptions{Src: "-", Stdin: strings.NewReader(string(noise(1, 2*mib))), Dst: dev, Force: true, Luks: cheap()})
	refused(t, "encrypt", err, ErrSize, dev)
	if got := found(t, dev); got != "" {
		t.Errorf("found %s", got)
	}
}

// The end of the data is known only when a pipe has ended.
func TestBlockDeviceLargerThanPipe(t *testing.T) {
	dev := attach(t, write(t, "backing", make([]byte, 4*mib)))
	report, err := Encrypt(t.Context(), EncryptOptions{Src: "-", Stdin: strings.NewReader(string(noise(1, mib))), Dst: dev, Force: true, Luks: cheap()})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "the first 1048576 bytes") {
		t.Errorf("warnings %q", report.Warnings)
	}
}

// What the device would refuse only on the way is said before.
func TestBlockDeviceReadOnly(t *testing.T) {
	data := filesystem(1, 4*mib)
	dev := attach(t, write(t, "backing", data), "--read-only")
	src := write(t, "src", noise(1, mib))
	asked := func(context.Context, *luks.FormatOptions, *PlainOptions) error {
		t.Error("asked for a passphrase")
		return errors.New("no")
	}
	_, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: dev, Force: true, Luks: cheap(), Prepare: asked})
	refused(t, "encrypt", err, syscall.EROFS, dev)
	_, _, err = Format(t.Context(), FormatOptions{Path: dev, Force: true, Luks: *cheap()})
	refused(t, "format", err, syscall.EROFS, dev)
	if _, err := Encrypt(t.Context(), EncryptOptions{Src: dev, Dst: src + ".volume", Luks: cheap()}); err != nil {
		t.Errorf("as a source: %v", err)
	}
}

// Two names of a disk, one of them standard input.
func TestBlockDeviceIsStdin(t *testing.T) {
	data := filesystem(1, 4*mib)
	backing := write(t, "backing", data)
	dev := attach(t, backing)
	for _, path := range []string{dev, backing} {
		stdin, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Encrypt(t.Context(), EncryptOptions{Src: "-", Stdin: stdin, Dst: dev, Force: true, Luks: cheap()})
		stdin.Close()
		refused(t, path, err, ErrSame, "standard input", dev)
	}
	equal(t, "the device", read(t, dev), data)
}

func TestBlockDeviceCancel(t *testing.T) {
	src := write(t, "src", noise(1, big))
	dev := attach(t, write(t, "backing", filesystem(1, big+mib)))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Encrypt(ctx, EncryptOptions{Src: src, Dst: dev, Force: true, Luks: cheap(), Workers: 1, Progress: atData(cancel)})
	refused(t, "encrypt", err, context.Canceled)
	if got := found(t, dev); got != "" {
		t.Errorf("encrypt: found %s", got)
	}
	if _, err := luks.ReadHeader(strings.NewReader(string(read(t, dev)[:mib])), -1); !errors.Is(err, luks.ErrNotLUKS) {
		t.Errorf("a header: %v", err)
	}
	dev = attach(t, write(t, "backing", filesystem(1, big+mib)))
	volume := write(t, "volume", encrypted(t, plainOf(512), filesystem(2, big)))
	ctx, cancel = context.WithCancel(t.Context())
	_, err = Decrypt(ctx, DecryptOptions{Src: volume, Dst: dev, Force: true, Open: OpenOptions{Plain: plainOf(512)}, Workers: 1, Progress: atData(cancel)})
	refused(t, "decrypt", err, context.Canceled)
	if got := found(t, dev); got != "" {
		t.Errorf("decrypt: found %s", got)
	}
}

// A device with sectors of 4096 bytes gets a volume of such sectors.
func TestFormatLargeSectors(t *testing.T) {
	dev := attach(t, write(t, "backing", make([]byte, 4*mib)), "--sector-size", "4096")
	report, header, err := Format(t.Context(), FormatOptions{Path: dev, Luks: *cheap()})
	if err != nil {
		t.Fatal(err)
	}
	if report.SectorSize != 4096 || header.Segments[0].SectorSize != 4096 {
		t.Errorf("%+v, %+v", report, header.Segments)
	}
	if _, err := Unlock(t.Context(), dev, unlockIt()); err != nil {
		t.Error(err)
	}
}
