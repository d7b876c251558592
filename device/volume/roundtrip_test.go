package volume

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/luks"
)

// roundTrip encrypts src and decrypts the volume again.
func roundTrip(t *testing.T, src string, e EncryptOptions, o OpenOptions) (volume, plain string) {
	t.Helper()
	dir := t.TempDir()
	volume, plain = filepath.Join(dir, "volume"), filepath.Join(dir, "plain")
	e.Src, e.Dst = src, volume
	if _, err := Encrypt(t.Context(), e); err != nil {
		t.Fatalf("encrypt: %v", err)
	}
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: volume, Dst: plain, Open: o}); err != nil {
		t.Fatalf("decrypt: %v", err)
	}
	only(t, dir, "volume", "plain")
	return volume, plain
}

func TestRoundTripLuks(t *testing.T) {
	for _, keySize := range []int{32, 64} {
		for _, sectorSize := range []int{0, 512, 1024, 2048, 4096} {
			data := noise(1, 3*mib+4096)
			src := write(t, "src", data)
			l := cheap()
			l.KeySize, l.SectorSize = keySize, sectorSize
			if keySize == 64 {
				l.KeyslotsSize, l.DataOffset = 0, 1*mib
			}
			volume, plain := roundTrip(t, src, EncryptOptions{Luks: l}, unlockIt())
			equal(t, fmt.Sprintf("key %d, sector %d", keySize, sectorSize), read(t, plain), data)
			equal(t, "the source", read(t, src), data)
			for _, path := range []string{volume, plain} {
				if st, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", path, st.Mode(), err)
				}
			}
		}
	}
}

// Filesystems that mkfs made, for the developers of cryptsetup.
func TestRoundTripFilesystems(t *testing.T) {
	for _, c := range []struct {
		file   string
		sector int // what is safe for it
	}{
		{"img_fs_ext4.img.xz", 4096},
		{"img_fs_vfat.img.xz", 4096},
		{"img_fs_xfs.img.xz", 4096},
		{"xfs_512_block_size.img.xz", 512},
	} {
		data := testenv.Unxz(t, testenv.Data(t, "peer-images/"+c.file))
		src := write(t, "src", data)
		dir := t.TempDir()
		report, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: dir + "/volume", Luks: cheap()})
		if err != nil {
			t.Fatal(err)
		}
		if report.SectorSize != c.sector || report.Bytes != int64(len(data)) || len(report.Warnings) > 0 {
			t.Errorf("%s: report %+v", c.file, report)
		}
		if _, err := Decrypt(t.Context(), DecryptOptions{Src: dir + "/volume", Dst: dir + "/plain", Open: unlockIt()}); err != nil {
			t.Fatal(err)
		}
		equal(t, c.file, read(t, dir+"/plain"), data)
	}
}

func TestRoundTripPlain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := plainOf(rapid.SampledFrom([]int{512, 1024, 2048, 4096}).Draw(rt, "sector size"))
		p.Key = noise(rapid.Uint64().Draw(rt, "key"), rapid.SampledFrom([]int{32, 48, 64}).Draw(rt, "key size"))
		p.Cipher = rapid.SampledFrom([]string{"aes-xts-plain", "aes-xts-plain64", "aes-xts-plain64be"}).Draw(rt, "cipher")
		p.IVLargeSectors = rapid.Bool().Draw(rt, "iv_large_sectors")
		p.Offset = int64(rapid.IntRange(0, 100).Draw(rt, "offset")) * 512
		p.Skip = int64(rapid.IntRange(0, 100).Draw(rt, "skip")) * int64(p.SectorSize)
		data := noise(2, rapid.IntRange(1, 300).Draw(rt, "sectors")*p.SectorSize)
		var volume, plain bytes.Buffer
		if _, err := Encrypt(t.Context(), EncryptOptions{Src: "-", Stdin: bytes.NewReader(data), Dst: "-", Stdout: &volume, Plain: p}); err != nil {
			rt.Fatal(err)
		}
		if volume.Len() != int(p.Offset)+len(data) {
			rt.Fatalf("a volume of %d bytes", volume.Len())
		}
		if _, err := Decrypt(t.Context(), DecryptOptions{Src: "-", Stdin: &volume, Dst: "-", Stdout: &plain, Open: OpenOptions{Plain: p}}); err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(plain.Bytes(), data) {
			rt.Fatal("not what was encrypted")
		}
	})
}

// Every way in and out gives the same bytes.
func TestStreams(t *testing.T) {
	data := noise(3, 2*mib+512)
	src := write(t, "src", data)
	for name, e := range map[string]EncryptOptions{
		"luks":  {Luks: cheap()},
		"plain": {Plain: func() *PlainOptions { p := plainOf(512); p.Offset = 1536; return p }()},
	} {
		o := unlockIt()
		o.Plain = e.Plain
		var volume, out bytes.Buffer
		e.Src, e.Dst, e.Stdin, e.Stdout = "-", "-", bytes.NewReader(data), &volume
		report, err := Encrypt(t.Context(), e)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if report.Bytes != int64(len(data)) || report.SectorSize != 512 {
			t.Errorf("%s: report %+v", name, report)
		}
		fromPipe := bytes.Clone(volume.Bytes())
		if _, err := Decrypt(t.Context(), DecryptOptions{Src: "-", Dst: "-", Stdin: &volume, Stdout: &out, Open: o}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		equal(t, name+", pipe to pipe", out.Bytes(), data)

		// The volume from the pipe opens as a file, and one made from the
		// pipe with a file as target does.
		file := write(t, "volume", fromPipe)
		if _, err := Decrypt(t.Context(), DecryptOptions{Src: file, Dst: file + ".plain", Open: o}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		equal(t, name+", pipe to file", read(t, file+".plain"), data)
		e.Stdin, e.Dst = io.MultiReader(bytes.NewReader(data[:1000]), bytes.NewReader(data[1000:])), file+".2"
		if _, err := Encrypt(t.Context(), e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out.Reset()
		if _, err := Decrypt(t.Context(), DecryptOptions{Src: file + ".2", Dst: "-", Stdout: &out, Open: o}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		equal(t, name+", file to pipe", out.Bytes(), data)
		only(t, filepath.Dir(file), "volume", "volume.plain", "volume.2")
		_ = src
	}
}

// A detached header: the volume's file has only data.
func TestDetachedHeader(t *testing.T) {
	data := noise(4, mib)
	src := write(t, "src", data)
	volume, _ := roundTrip(t, src, EncryptOptions{Luks: cheap()}, unlockIt())
	b := read(t, volume)
	header := write(t, "header", b[:160<<10])
	clear(b[:160<<10])
	body := write(t, "body", b)
	o := unlockIt()
	o.Header = header
	var out bytes.Buffer
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: body, Dst: "-", Stdout: &out, Open: o}); err != nil {
		t.Fatal(err)
	}
	equal(t, "file", out.Bytes(), data)
	out.Reset()
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: "-", Stdin: bytes.NewReader(b), Dst: "-", Stdout: &out, Open: o}); err != nil {
		t.Fatal(err)
	}
	equal(t, "pipe", out.Bytes(), data)
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: body, Dst: header, Force: true, Open: o}); err == nil || !strings.Contains(err.Error(), ErrSame.Error()) {
		t.Errorf("the header as target: %v", err)
	}
}

func TestVolumeKey(t *testing.T) {
	data := noise(5, mib)
	l := cheap()
	l.VolumeKey = noise(6, 32)
	volume, _ := roundTrip(t, write(t, "src", data), EncryptOptions{Luks: l}, OpenOptions{VolumeKey: noise(6, 32)})
	v, err := Unlock(t.Context(), volume, unlockIt())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	equal(t, "volume key", v.Key(), noise(6, 32))
	if _, err := Unlock(t.Context(), volume, OpenOptions{VolumeKey: noise(7, 32)}); err == nil {
		t.Error("another key opens")
	}
}

func TestPad(t *testing.T) {
	data := noise(8, 4096+100)
	for _, sectorSize := range []int{512, 4096} {
		l := cheap()
		l.SectorSize = sectorSize
		src := write(t, "src", data)
		for _, stdin := range []bool{false, true} {
			e := EncryptOptions{Src: src, Dst: src + ".volume", Luks: l, Pad: true, Force: true}
			if stdin {
				e.Src, e.Stdin = "-", bytes.NewReader(data)
			}
			report, err := Encrypt(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			want := make([]byte, (len(data)+sectorSize-1)/sectorSize*sectorSize)
			copy(want, data)
			if report.Padding != int64(len(want)-len(data)) || report.Bytes != int64(len(want)) {
				t.Errorf("report %+v", report)
			}
			var out bytes.Buffer
			if _, err := Decrypt(t.Context(), DecryptOptions{Src: src + ".volume", Dst: "-", Stdout: &out, Open: unlockIt()}); err != nil {
				t.Fatal(err)
			}
			equal(t, fmt.Sprintf("sector %d, stdin %v", sectorSize, stdin), out.Bytes(), want)
		}
	}
}

func TestProgressAndReport(t *testing.T) {
	data := noise(9, 4*mib)
	src := write(t, "src", data)
	var phases []string
	var last Progress
	note := func(p Progress) {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
		if p.Phase == PhaseData {
			if p.Total != int64(len(data)) || p.Done < last.Done && last.Phase == PhaseData {
				t.Errorf("%+v after %+v", p, last)
			}
			last = p
		}
	}
	l := cheap()
	report, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: src + ".volume", Luks: l, Progress: note})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(phases, " "); got != "kdf data sync" {
		t.Errorf("phases: %s", got)
	}
	if last.Done != int64(len(data)) {
		t.Errorf("last: %+v", last)
	}
	if report.KDFTime <= 0 || report.DataTime <= 0 || report.SyncTime <= 0 || report.DataOffset != 160<<10 {
		t.Errorf("report %+v", report)
	}
	if l.SectorSize != 0 {
		t.Error("the caller's options were changed")
	}
}

func TestOpen(t *testing.T) {
	data := noise(10, mib)
	volume, _ := roundTrip(t, write(t, "src", data), EncryptOptions{Luks: cheap()}, unlockIt())
	v, err := Open(t.Context(), volume, unlockIt())
	if err != nil {
		t.Fatal(err)
	}
	if v.Size() != mib || v.Header == nil || v.Slot != 0 || v.KDFTime <= 0 || len(v.Warnings) > 0 {
		t.Errorf("%+v", v)
	}
	b := make([]byte, 1000)
	if _, err := v.ReadAt(b, 12345); err != nil {
		t.Fatal(err)
	}
	equal(t, "a range", b, data[12345:13345])
	if _, err := v.WriteAt(b, 0); err == nil {
		t.Error("a volume opened for reading was written")
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if err := v.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}

	o := unlockIt()
	o.Writable = true
	if v, err = Open(t.Context(), volume, o); err != nil {
		t.Fatal(err)
	}
	if _, err := v.WriteAt([]byte("in the middle of a sector"), 777); err != nil {
		t.Fatal(err)
	}
	if err := v.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	copy(data[777:], "in the middle of a sector")
	var out bytes.Buffer
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: volume, Dst: "-", Stdout: &out, Open: unlockIt()}); err != nil {
		t.Fatal(err)
	}
	equal(t, "after writing", out.Bytes(), data)
}

func TestFormatAndUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	l := *cheap()
	l.Label = "a label"
	report, header, err := Format(t.Context(), FormatOptions{Path: path, Create: 4 * mib, Luks: l})
	if err != nil {
		t.Fatal(err)
	}
	if header.Label != "a label" || report.SectorSize != 512 || report.Bytes != 4*mib-160<<10 || report.DataOffset != 160<<10 {
		t.Errorf("%+v, %+v", report, header)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != 4*mib {
		t.Errorf("%v, %v", st, err)
	}
	o := unlockIt()
	o.Writable = true
	v, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if v.Size() != report.Bytes {
		t.Errorf("%d bytes", v.Size())
	}
	if _, err := v.WriteAt(noise(1, 100), v.Size()-100); err != nil {
		t.Error(err)
	}
}

func TestFormatInPlace(t *testing.T) {
	blankFile := write(t, "blank", make([]byte, 4*mib))
	if _, _, err := Format(t.Context(), FormatOptions{Path: blankFile, Luks: *cheap()}); err != nil {
		t.Fatalf("a file of zeros: %v", err)
	}
	if _, err := Unlock(t.Context(), blankFile, unlockIt()); err != nil {
		t.Fatal(err)
	}
	// What lies there is kept unless told otherwise: noise without a signature,
	// a signature far behind the header, and the volume just made.
	some := make([]byte, 4*mib)
	some[100<<10] = 1
	_, _, err := Format(t.Context(), FormatOptions{Path: write(t, "some", some), Luks: *cheap()})
	refused(t, "noise", err, ErrExists, "data at byte 102400")
	raid := make([]byte, 4*mib)
	copy(raid[4*mib-8192:], "\xfc\x4e\x2b\xa9")
	_, _, err = Format(t.Context(), FormatOptions{Path: write(t, "raid", raid), Luks: *cheap()})
	refused(t, "a signature at the end", err, ErrExists, "linux_raid")
	if _, _, err := Format(t.Context(), FormatOptions{Path: blankFile, Luks: *cheap()}); err == nil {
		t.Fatal("a volume was overwritten")
	}
	l := *cheap()
	l.Passphrase = []byte("another")
	if _, _, err := Format(t.Context(), FormatOptions{Path: blankFile, Luks: l, Force: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := Unlock(t.Context(), blankFile, unlockIt()); err == nil {
		t.Error("the old passphrase opens the new volume")
	}
	if _, err := Unlock(t.Context(), blankFile, OpenOptions{Passphrase: l.Passphrase, Slot: luks.AnySlot}); err != nil {
		t.Error(err)
	}
}
