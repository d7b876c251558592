package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
	"github.com/xtsdisk/xtsdisk/luks"
)

// editJobs are changes of a header by whoever has its passphrase.
var editJobs = map[string]func(ctx context.Context, h *HeaderFile, v *luks.Volume) error{
	"add": func(ctx context.Context, h *HeaderFile, v *luks.Volume) error {
		_, err := h.AddKey(ctx, v, luks.NewKeyslot{Slot: luks.AnySlot, Passphrase: []byte("new"), KDF: cheap().KDF})
		return err
	},
	"change": func(ctx context.Context, h *HeaderFile, v *luks.Volume) error {
		_, err := h.ChangeKey(ctx, v, 0, luks.NewKeyslot{Passphrase: []byte("new"), KDF: cheap().KDF})
		return err
	},
	"token": func(ctx context.Context, h *HeaderFile, _ *luks.Volume) error {
		_, err := h.AddToken(ctx, luks.AnyToken, luks.KeyringToken("name", nil), false)
		return err
	},
	"config": func(ctx context.Context, h *HeaderFile, _ *luks.Volume) error { return h.SetLabel(ctx, "new") },
}

// editDisk is a disk with a volume that has room for more keyslots.
func editDisk(t *testing.T, version int) *device.Memory {
	t.Helper()
	m := device.NewMemory(4*mib, 512)
	o := *cheap()
	o.Version, o.Passphrase = version, passphrase
	o.DataOffset, o.KeyslotsSize = 0, 0
	if version == 2 {
		o.DataOffset, o.KeyslotsSize = 2*mib, mib
	}
	v, err := luks.Format(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	return m
}

// recordEdit does a change, and returns its log. Nothing is written unless the
// header is locked.
func recordEdit(t *testing.T, old *device.Memory, do func(context.Context, *HeaderFile, *luks.Volume) error) []device.Op {
	t.Helper()
	f := &fake{disk: device.NewRecord(old.Clone())}
	s := f.system()
	locked := 0
	s.checkHeld = func(string) error {
		if locked == 0 {
			t.Error("looked at who uses it without the lock")
		}
		return nil
	}
	s.lockHeader = func(context.Context, string) (func(), error) {
		locked++
		before := len(f.disk.Log().Ops())
		return func() {
			if locked--; len(f.disk.Log().Ops()) == before {
				t.Error("locked, and nothing was written")
			}
		}, nil
	}
	s.open = func(_ string, o device.FileOptions) (device.Device, error) {
		if !o.ReadOnly && locked == 0 {
			t.Error("open for writing without the lock")
		}
		return noClose{f.disk}, nil
	}
	r := &run{system: s}
	h, err := r.editHeader(t.Context(), "disk", Inside{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	v, err := h.Header().Unlock(t.Context(), old, passphrase, luks.UnlockOptions{Slot: luks.AnySlot})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := do(t.Context(), h, v); err != nil {
		t.Fatal(err)
	}
	f.disk.Log().Mark("done")
	return f.disk.Log().Ops()
}

// A crash at any point of a change leaves a volume that opens as before or as
// it is to be, and the data untouched.
func TestCrashEdit(t *testing.T) {
	for _, version := range []int{1, 2} {
		for name, do := range editJobs {
			if version == 1 && (name == "token" || name == "config") {
				continue
			}
			t.Run(fmt.Sprintf("LUKS%d %s", version, name), func(t *testing.T) {
				old := editDisk(t, version)
				data := contentBytes(old)[2*mib:]
				check := func(image *device.Memory, s devicetest.State) error {
					h, err := luks.ReadHeader(image, image.Size())
					if err != nil {
						return err
					}
					if s.Reached("done") && len(h.Warnings) > 0 {
						return errors.New(h.Warnings[0])
					}
					if !bytes.Equal(contentBytes(image)[2*mib:], data) {
						return errors.New("the data has changed")
					}
					passphrases := [][]byte{passphrase, []byte("new")}
					if s.Reached("done") && name == "change" {
						passphrases = passphrases[1:]
					}
					for _, p := range passphrases {
						v, err := h.Unlock(t.Context(), image, p, luks.UnlockOptions{Slot: luks.AnySlot})
						if err == nil {
							v.Close()
							return nil
						}
					}
					return errors.New("neither the old nor the new passphrase opens")
				}
				if err := devicetest.Replay(old, recordEdit(t, old, do), check, devicetest.ReplayOptions{Seed: 7}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// What cannot be locked, is in use or cannot be opened for writing is not
// changed.
func TestEditRefused(t *testing.T) {
	wanted := errors.New("wanted")
	for name, breakIt := range map[string]func(*system){
		"locked": func(s *system) {
			s.lockHeader = func(context.Context, string) (func(), error) { return nil, wanted }
		},
		"in use": func(s *system) { s.checkHeld = func(string) error { return wanted } },
		"read-only": func(s *system) {
			open := s.open
			s.open = func(path string, o device.FileOptions) (device.Device, error) {
				if o.ReadOnly {
					return open(path, o)
				}
				return nil, wanted
			}
		},
	} {
		f := &fake{disk: device.NewRecord(editDisk(t, 2))}
		s := f.system()
		released := 0
		s.lockHeader = func(context.Context, string) (func(), error) { return func() { released++ }, nil }
		s.checkHeld = func(string) error { return nil }
		breakIt(&s)
		h, err := (&run{system: s}).editHeader(t.Context(), "disk", Inside{})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.SetLabel(t.Context(), "x"); !errors.Is(err, wanted) {
			t.Errorf("%s: %v", name, err)
		}
		if len(f.disk.Log().Ops()) != 0 || name != "locked" && released != 1 {
			t.Errorf("%s: written, or still locked", name)
		}
	}
}
