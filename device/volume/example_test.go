package volume_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

// The plaintext of a LUKS file is an io.ReaderAt, in pure Go: no root, no
// device-mapper, no cgo.
func ExampleOpen() {
	ctx, passphrase := context.Background(), []byte("correct horse")
	path, remove := exampleVolume(ctx, passphrase, "the plaintext")
	defer remove()

	v, err := volume.Open(ctx, path, volume.OpenOptions{Passphrase: passphrase, Slot: luks.AnySlot})
	if err != nil {
		panic(err)
	}
	defer v.Close()
	var r io.ReaderAt = v
	b := make([]byte, 9)
	if _, err := r.ReadAt(b, 4); err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", b)
	// Output: plaintext
}

// exampleVolume encrypts text into a LUKS2 volume.
func exampleVolume(ctx context.Context, passphrase []byte, text string) (path string, remove func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	path = filepath.Join(dir, "volume")
	_, err = volume.Encrypt(ctx, volume.EncryptOptions{
		Src: "-", Stdin: strings.NewReader(text + strings.Repeat("\x00", 512-len(text))), Dst: path,
		Luks: &luks.FormatOptions{
			KDF:        luks.KDF{Type: luks.KDFPBKDF2, Hash: "sha256", Iterations: 1000},
			Passphrase: passphrase,
		},
	})
	if err != nil {
		panic(err)
	}
	return path, func() { os.RemoveAll(dir) }
}
