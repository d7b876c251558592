package volume

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/luks"
)

// cheapLUKS1 are cheap's options for LUKS1.
func cheapLUKS1() *luks.FormatOptions {
	o := cheap()
	o.Version, o.KeyslotsSize, o.DataOffset = 1, 0, 0
	return o
}

// openLUKS1 opens what old volumes have.
func openLUKS1(passphrase []byte) OpenOptions {
	return OpenOptions{Passphrase: passphrase, Slot: luks.AnySlot, Version: 1, Policy: luks.Policy{AllowWeak: true}}
}

// Every LUKS1 volume of the fixtures gives the recorded plaintext, whichever
// keyslot opens it; without a passphrase that fits there is no output.
func TestFixturesLuks1(t *testing.T) {
	tried := 0
	for _, f := range fixtures(t) {
		if f.Type != "luks1" {
			continue
		}
		tried++
		path := write(t, "volume", testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.File.File)))
		header := ""
		if f.Header != nil {
			header = write(t, "header", testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.Header.File)))
		}
		before := sum(read(t, path))
		for i, u := range f.Unlock {
			o := openLUKS1(f.secret(t, i))
			o.Header = header
			_, err := Decrypt(t.Context(), DecryptOptions{Src: path, Dst: path + ".plain", Open: o})
			if !u.Opens {
				if !errors.Is(err, luks.ErrWrongPassphrase) {
					t.Errorf("%s, slot %d: %v", f.Name, u.Slot, err)
				}
				only(t, filepath.Dir(path), "volume")
				continue
			}
			if err != nil {
				t.Errorf("%s, slot %d: %v", f.Name, u.Slot, err)
				continue
			}
			if got := read(t, path+".plain"); sum(got) != f.PayloadSha256 || int64(len(got)) != f.PayloadLen {
				t.Errorf("%s, slot %d: another plaintext of %d bytes", f.Name, u.Slot, len(got))
			}
			os.Remove(path + ".plain")
		}
		if sum(read(t, path)) != before {
			t.Errorf("%s: reading changed the volume", f.Name)
		}
		t.Logf("%-32s %d of %d passphrases open, plaintext as recorded", f.Name, opening(f), len(f.Unlock))
	}
	if tried != 10 {
		t.Errorf("%d LUKS1 images in the manifest, want 10", tried)
	}
}

func opening(f fixture) (n int) {
	for _, u := range f.Unlock {
		if u.Opens {
			n++
		}
	}
	return n
}

// The LUKS1 images of cryptsetup's own tests hold a VFAT filesystem, most of
// them with the serial number DEAD-BABE.
func TestPeersLuks1(t *testing.T) {
	images := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(testenv.Unxz(t, testenv.Data(t, "peer-images/luks1-images.tar.xz")))); ; {
		f, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if images[filepath.Base(f.Name)], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	keyfile := images["keyfile1"]
	tried := 0
	for name, image := range images {
		if !strings.HasSuffix(name, ".img") {
			continue
		}
		tried++
		plain := decryptLUKS1(t, image, keyfile)
		const serialFAT16, bootSignature = 39, 510
		if len(plain) < 512 || binary.LittleEndian.Uint32(plain[serialFAT16:]) != 0xdeadbabe || plain[bootSignature] != 0x55 {
			t.Errorf("%s: the plaintext begins with % x", name, plain[:min(len(plain), 64)])
			continue
		}
		t.Logf("%-44s VFAT DEAD-BABE", name)
	}
	if tried != 12 {
		t.Errorf("%d images, want 12", tried)
	}
	for _, name := range []string{"compatimage.img.xz", "compatv10image.img.xz"} {
		image := testenv.Unxz(t, testenv.Data(t, "peer-images/"+name))
		plain := decryptLUKS1(t, image, []byte("compatkey"))
		t.Logf("%-44s %d bytes", name, len(plain))
	}
}

func decryptLUKS1(t *testing.T, image, passphrase []byte) []byte {
	t.Helper()
	path := write(t, "volume", image)
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: path, Dst: path + ".plain", Open: openLUKS1(passphrase)}); err != nil {
		t.Error(err)
		return nil
	}
	return read(t, path+".plain")
}

// A type that is asked for and another that is there: the volume is named.
func TestOtherVersion(t *testing.T) {
	src := write(t, "src", noise(1, mib))
	for version, other := range map[int]string{1: "LUKS2", 2: "LUKS1"} {
		o := cheap()
		if version == 2 {
			o = cheapLUKS1()
		}
		volume := src + other
		if _, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: volume, Luks: o}); err != nil {
			t.Fatal(err)
		}
		open := unlockIt()
		open.Version = version
		if _, err := Open(t.Context(), volume, open); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "it is a "+other+" volume") {
			t.Errorf("open: %v", err)
		}
		if _, err := Unlock(t.Context(), volume, open); !errors.Is(err, ErrOptions) {
			t.Errorf("unlock: %v", err)
		}
	}
}

// What Encrypt and Format make of LUKS1 opens again, from files and pipes.
func TestRoundTripLuks1(t *testing.T) {
	data := noise(1, mib+512)
	src := write(t, "src", data)
	o := cheapLUKS1()
	volume, _ := roundTrip(t, src, EncryptOptions{Luks: o}, unlockIt())
	v, err := Open(t.Context(), volume, unlockIt())
	if err != nil {
		t.Fatal(err)
	}
	if v.Header.Version != 1 || v.SectorSize() != 512 || v.Size() != int64(len(data)) {
		t.Errorf("LUKS%d with %d bytes in sectors of %d", v.Header.Version, v.Size(), v.SectorSize())
	}
	v.Close()

	var pipe bytes.Buffer
	if _, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: "-", Stdout: &pipe, Luks: o}); err != nil {
		t.Fatal(err)
	}
	equal(t, "through a pipe", decryptLUKS1(t, pipe.Bytes(), o.Passphrase), data)

	made := src + ".made"
	f := FormatOptions{Path: made, Create: 4 * mib, Luks: *o}
	r, h, err := Format(t.Context(), f)
	if err != nil || h.Version != 1 || r.SectorSize != 512 || r.Bytes != 2*mib {
		t.Fatalf("%+v: %v", r, err)
	}
	f.Create = 0
	if _, _, err := Format(t.Context(), f); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "luks1") {
		t.Errorf("over a LUKS1 volume: %v", err)
	}
	f.Force = true
	if _, _, err := Format(t.Context(), f); err != nil {
		t.Error(err)
	}
}

// A crash while a disk becomes a LUKS1 volume leaves what one that becomes a
// LUKS2 volume does.
func TestCrashLuks1Disk(t *testing.T) {
	source := noise(47, 640<<10)
	o := cheapLUKS1()
	o.DataOffset = 4096 + 8*(128<<10) // right behind the keyslots
	for _, old := range oldContents(t, 2*mib) {
		for _, job := range []struct {
			want []byte
			do   func(r *run) error
		}{
			{source, func(r *run) error {
				return r.encrypt(t.Context(), EncryptOptions{Src: "source", Dst: "disk", Force: true, Luks: o})
			}},
			{nil, func(r *run) error {
				_, err := r.format(t.Context(), FormatOptions{Path: "disk", Force: true, Luks: *o})
				return err
			}},
		} {
			ops := recordDisk(t, old, source, job.do)
			everySync(t, ops, old, func(image *device.Memory, s devicetest.State) error {
				return checkVolume(t.Context(), image, s, old, job.want)
			})
		}
	}
}
