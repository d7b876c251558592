package volume

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/xtsdisk/xtsdisk/luks"
)

// Standard input and output can be files: a job must not write to what it
// reads, nor replace it, because it has it by another name.
func TestStandardStreamIsTarget(t *testing.T) {
	data := filesystem(1, 4*mib)
	src := write(t, "src", data)
	volume := src + ".volume"
	if _, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: volume, Luks: cheap()}); err != nil {
		t.Fatal(err)
	}
	ciphertext := read(t, volume)
	open := func(path string, flags int) *os.File {
		f, err := os.OpenFile(path, flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	encrypt := func(o EncryptOptions) func() error {
		return func() error {
			o.Force, o.Luks = true, cheap()
			_, err := Encrypt(t.Context(), o)
			return err
		}
	}
	decrypt := func(o DecryptOptions) func() error {
		return func() error {
			o.Force, o.Open = true, unlockIt()
			_, err := Decrypt(t.Context(), o)
			return err
		}
	}
	for name, job := range map[string]func() error{
		"encrypt stdin to itself":          encrypt(EncryptOptions{Src: "-", Stdin: open(src, os.O_RDONLY), Dst: src}),
		"encrypt, appending to the source": encrypt(EncryptOptions{Src: src, Dst: "-", Stdout: open(src, os.O_WRONLY|os.O_APPEND)}),
		"encrypt, both standard streams":   encrypt(EncryptOptions{Src: "-", Stdin: open(src, os.O_RDONLY), Dst: "-", Stdout: open(src, os.O_WRONLY)}),
		"decrypt stdin to itself":          decrypt(DecryptOptions{Src: "-", Stdin: open(volume, os.O_RDONLY), Dst: volume}),
		"decrypt over the source":          decrypt(DecryptOptions{Src: volume, Dst: "-", Stdout: open(volume, os.O_WRONLY)}),
		"decrypt, both standard streams":   decrypt(DecryptOptions{Src: "-", Stdin: open(volume, os.O_RDONLY), Dst: "-", Stdout: open(volume, os.O_WRONLY)}),
	} {
		refused(t, name, job(), ErrSame, "standard")
		equal(t, name+": the image", read(t, src), data)
		equal(t, name+": the volume", read(t, volume), ciphertext)
	}

	// Other files, and what is no file, pass.
	out := open(write(t, "out", nil), os.O_RDWR)
	if err := encrypt(EncryptOptions{Src: "-", Stdin: open(src, os.O_RDONLY), Dst: "-", Stdout: out})(); err != nil {
		t.Error(err)
	}
	null := open(os.DevNull, os.O_RDWR)
	refused(t, "nothing to nothing", encrypt(EncryptOptions{Src: "-", Stdin: null, Dst: "-", Stdout: null})(), ErrSize)
}

// Who names a disk that is not there gets no file in its place.
func TestNoFileAmongDevices(t *testing.T) {
	if filepath.Separator != '/' {
		t.Skip("there is no /dev here")
	}
	src := write(t, "src", noise(1, mib))
	for _, dst := range []string{"/dev/no-such-disk", "/dev/../dev/no-such-disk"} {
		_, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: dst, Luks: cheap()})
		refused(t, dst, err, os.ErrNotExist, "no such device")
		if _, err := os.Lstat(dst); err == nil {
			t.Errorf("%s was made", dst)
		}
	}
	for path, want := range map[string]bool{"/dev/x": false, "/dev/disk/x": false, "/dev/shm/x": true, "/dev/shm/a/x": true, "/devel/x": true, "x": true} {
		if err := noDevice(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// An error about something that is no volume says what it is.
func TestNoVolumeNamesWhatItIs(t *testing.T) {
	src := write(t, "src", filesystem(1, mib))
	_, err := Open(t.Context(), src, unlockIt())
	refused(t, "open", err, luks.ErrNotLUKS, "it holds ext4")
	var out bytes.Buffer
	_, err = Decrypt(t.Context(), DecryptOptions{Src: src, Dst: "-", Stdout: &out, Open: unlockIt()})
	refused(t, "decrypt", err, luks.ErrNotLUKS, "it holds ext4")
}
