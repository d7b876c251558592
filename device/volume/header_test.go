package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
	"github.com/xtsdisk/xtsdisk/luks"
)

// headerBench is a disk with a volume, a folder for what is kept, and in it a
// backup from before the last change of the volume.
type headerBench struct {
	old          *device.Memory
	kept, backup string
}

func newHeaderBench(t *testing.T, version int) *headerBench {
	t.Helper()
	dir := t.TempDir()
	b := &headerBench{old: editDisk(t, version), kept: filepath.Join(dir, "kept"), backup: filepath.Join(dir, "backup")}
	r := &run{system: b.system(t, b.old)}
	if _, _, err := r.backupHeader(t.Context(), "disk", b.backup, OpenOptions{}); err != nil {
		t.Fatal(err)
	}
	h, err := r.editHeader(t.Context(), "disk", Inside{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	v, err := h.Header().Unlock(t.Context(), b.old, passphrase, luks.UnlockOptions{Slot: luks.AnySlot})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := editJobs["add"](t.Context(), h, v); err != nil {
		t.Fatal(err)
	}
	return b
}

// system has disk at "disk", and beside that the real files.
func (b *headerBench) system(t *testing.T, disk device.Device) system {
	t.Helper()
	s := host
	s.state = func(path string) (fileState, error) {
		if path == "disk" {
			return fileState{kind: block}, nil
		}
		return host.state(path)
	}
	locked := false
	s.open = func(path string, o device.FileOptions) (device.Device, error) {
		if path != "disk" {
			return host.open(path, o)
		}
		if !o.ReadOnly && !locked {
			t.Error("open for writing without the lock")
		}
		return noClose{disk}, nil
	}
	s.same = func(string, string) (bool, error) { return false, nil }
	s.checkHeld = func(string) error { return nil }
	s.holdHeader = func(context.Context, string) (func(), error) { return func() {}, nil }
	s.lockHeader = func(context.Context, string) (func(), error) {
		locked = true
		return func() { locked = false }, nil
	}
	return s
}

// keptFirst is a disk that is not written before the file with what was there
// is whole.
type keptFirst struct {
	device.Device
	t    *testing.T
	file string
}

func (k keptFirst) WriteAt(p []byte, off int64) (int, error) {
	if _, err := os.Stat(k.file); err != nil {
		k.t.Errorf("written at %d before what was there was kept", off)
	}
	return k.Device.WriteAt(p, off)
}

// A crash at any point of a restore or conversion leaves a volume that opens as
// before or as it is to be, or one that a repair from the file that was kept
// makes so; the data stays untouched.
func TestCrashReplaceHeader(t *testing.T) {
	for _, version := range []int{1, 2} {
		for name, do := range map[string]func(r *run, b *headerBench) error{
			"restore": func(r *run, b *headerBench) error {
				_, err := r.restoreHeader(t.Context(), "disk", b.backup, HeaderOptions{Keep: b.kept})
				return err
			},
			"convert": func(r *run, b *headerBench) error {
				_, err := r.convertHeader(t.Context(), "disk", 3-version, HeaderOptions{Keep: b.kept})
				return err
			},
		} {
			t.Run(fmt.Sprintf("LUKS%d %s", version, name), func(t *testing.T) {
				b := newHeaderBench(t, version)
				disk := device.NewRecord(b.old.Clone())
				if err := do(&run{system: b.system(t, keptFirst{disk, t, b.kept})}, b); err != nil {
					t.Fatal(err)
				}
				disk.Log().Mark("done")
				if err := devicetest.Replay(b.old, disk.Log().Ops(), b.check(t), devicetest.ReplayOptions{Seed: 8}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// check looks at what a crash left.
func (b *headerBench) check(t *testing.T) func(*device.Memory, devicetest.State) error {
	data := contentBytes(b.old)[2*mib:]
	opens := func(image *device.Memory) error {
		h, err := luks.ReadHeader(image, image.Size())
		if err != nil {
			return err
		}
		v, err := h.Unlock(t.Context(), image, passphrase, luks.UnlockOptions{Slot: luks.AnySlot})
		if err == nil {
			v.Close()
		}
		return err
	}
	return func(image *device.Memory, s devicetest.State) error {
		if !bytes.Equal(contentBytes(image)[2*mib:], data) {
			return errors.New("the data has changed")
		}
		err := opens(image)
		if err == nil || s.Reached("done") {
			return err
		}
		if !errors.Is(err, luks.ErrNotLUKS) {
			return err
		}
		again := image.Clone()
		r := &run{system: b.system(t, again)}
		if _, err := r.repairHeader(t.Context(), "disk", b.kept, HeaderOptions{Keep: filepath.Join(t.TempDir(), "again")}); err != nil {
			return err
		}
		return opens(again)
	}
}

// A repair or wipe that a crash hits leaves a volume that opens, or one that is
// repaired or wiped when it is done again.
func TestCrashRepairHeader(t *testing.T) {
	b := newHeaderBench(t, 2)
	damaged := b.old.Clone()
	if _, err := damaged.WriteAt([]byte("damage"), 5000); err != nil {
		t.Fatal(err)
	}
	disk := device.NewRecord(damaged.Clone())
	c, err := (&run{system: b.system(t, disk)}).repairHeader(t.Context(), "disk", "", HeaderOptions{})
	if err != nil || c.Copy == nil || *c.Copy != luks.Primary || c.Kept != "" {
		t.Fatal(err, c)
	}
	disk.Log().Mark("done")
	if err := devicetest.Replay(damaged, disk.Log().Ops(), b.check(t), devicetest.ReplayOptions{Seed: 9}); err != nil {
		t.Error(err)
	}
}

// What does not fit is refused before anything is written or kept.
func TestReplaceHeaderRefused(t *testing.T) {
	b := newHeaderBench(t, 2)
	other := newHeaderBench(t, 2)
	blank := device.NewMemory(4*mib, 512)
	busy := errors.New("busy")
	lvm := device.NewMemory(4*mib, 512)
	for off, text := range map[int64]string{512: "LABELONE", 512 + 24: "LVM2 001"} {
		if _, err := lvm.WriteAt([]byte(text), off); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		disk  *device.Memory
		do    func(r *run) error
		wants error
	}{
		"another volume's": {b.old, func(r *run) error {
			_, err := r.restoreHeader(t.Context(), "disk", other.backup, HeaderOptions{Keep: b.kept})
			return err
		}, ErrPolicy},
		"over nothing": {blank, func(r *run) error {
			_, err := r.restoreHeader(t.Context(), "disk", b.backup, HeaderOptions{Keep: b.kept})
			return err
		}, ErrPolicy},
		"repair from another volume's": {b.old, func(r *run) error {
			_, err := r.repairHeader(t.Context(), "disk", other.backup, HeaderOptions{Keep: b.kept})
			return err
		}, ErrPolicy},
		"repair of something else": {lvm, func(r *run) error {
			_, err := r.repairHeader(t.Context(), "disk", b.backup, HeaderOptions{Keep: b.kept})
			return err
		}, ErrPolicy},
		"kept file exists": {b.old, func(r *run) error {
			_, err := r.restoreHeader(t.Context(), "disk", b.backup, HeaderOptions{Keep: b.backup})
			return err
		}, ErrExists},
		"small": {device.NewMemory(mib, 512), func(r *run) error {
			_, err := r.restoreHeader(t.Context(), "disk", b.backup, HeaderOptions{Keep: b.kept, Force: true})
			return err
		}, ErrSize},
		"in use": {b.old, func(r *run) error {
			r.checkHeld = func(string) error { return busy }
			_, err := r.convertHeader(t.Context(), "disk", 1, HeaderOptions{Keep: b.kept})
			return err
		}, busy},
		"its own version": {b.old, func(r *run) error {
			_, err := r.convertHeader(t.Context(), "disk", 2, HeaderOptions{Keep: b.kept})
			return err
		}, ErrOptions},
	} {
		disk := device.NewRecord(c.disk.Clone())
		if err := c.do(&run{system: b.system(t, disk)}); !errors.Is(err, c.wants) {
			t.Errorf("%s: %v", name, err)
		}
		if len(disk.Log().Ops()) > 0 {
			t.Errorf("%s: it was written to", name)
		}
		if _, err := os.Stat(b.kept); err == nil {
			t.Errorf("%s: a file was made", name)
		}
	}
}

// A detached header's file grows for a conversion that needs more room.
func TestConvertDetachedGrows(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "header")
	o := *cheap()
	o.Version, o.DataOffset, o.KeyslotsSize, o.Passphrase = 1, 0, 0, passphrase
	m := device.NewMemory(4*mib, 512)
	v, err := luks.Format(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	image := contentBytes(m)
	clear(image[104:108]) // payload-offset 0: the data is elsewhere
	n := 4096 + 8*((v.Header.Keyslots[0].Area.Size+4095)/4096*4096)
	if err := os.WriteFile(name, image[:n], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range []int{2, 1} {
		if _, err := ConvertHeader(t.Context(), name, version, HeaderOptions{}); err != nil {
			t.Fatal(err)
		}
		u, err := Unlock(t.Context(), name, OpenOptions{Passphrase: passphrase, Slot: luks.AnySlot})
		if err != nil {
			t.Fatal(err)
		}
		if u.Header.Version != version || !u.Header.Detached() {
			t.Errorf("%+v", u.Header)
		}
		u.Close()
	}
	if kept, _ := filepath.Glob(name + ".header-*.backup"); len(kept) != 2 {
		t.Errorf("kept: %q", kept)
	}
}

// Where the data cannot be published its detached header is not there either.
func TestEncryptHeaderUndone(t *testing.T) {
	src := write(t, "src", noise(1, 4*mib))
	dir := t.TempDir()
	o := EncryptOptions{Src: src, Dst: filepath.Join(dir, "dst"), Header: filepath.Join(dir, "header"), Luks: cheap()}
	o.Luks.DataOffset, o.Luks.Passphrase = 0, passphrase
	o.Progress = func(p Progress) {
		if p.Phase == PhaseData && p.Done > 0 {
			_ = os.WriteFile(o.Dst, []byte("somebody else's"), 0o600)
		}
	}
	if _, err := Encrypt(t.Context(), o); !errors.Is(err, ErrExists) {
		t.Fatal(err)
	}
	only(t, dir, "dst")
	o.Progress, o.Dst = nil, filepath.Join(dir, "good")
	if _, err := Encrypt(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	v, err := Open(t.Context(), o.Dst, OpenOptions{Header: o.Header, Passphrase: passphrase, Slot: luks.AnySlot})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	got := make([]byte, 4*mib)
	if _, err := v.ReadAt(got, 0); err != nil && !atEnd(err) {
		t.Fatal(err)
	}
	equal(t, "data", got, noise(1, 4*mib))
}
