package luks_test

import (
	"context"
	"fmt"
	"os"

	"github.com/xtsdisk/xtsdisk/luks"
)

// Test a passphrase, and see where the data lies, without touching it.
func ExampleOpen() {
	ctx, passphrase := context.Background(), []byte("correct horse")
	path := exampleVolume(ctx, passphrase)
	defer os.Remove(path)

	f, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	v, err := luks.Open(ctx, f, -1, passphrase, luks.UnlockOptions{Slot: luks.AnySlot})
	if err != nil {
		panic(err)
	}
	defer v.Close()
	fmt.Println("keyslot", v.Slot, "opens", v.Header.Segments[0].Cipher)
	// Output: keyslot 0 opens aes-xts-plain64
}

// exampleVolume makes a volume in a file.
func exampleVolume(ctx context.Context, passphrase []byte) string {
	image := make(disk, 17<<20)
	v, err := luks.Format(ctx, image, luks.FormatOptions{
		KDF:        luks.KDF{Type: luks.KDFPBKDF2, Hash: "sha256", Iterations: 1000},
		Passphrase: passphrase, DataSize: int64(len(image)),
	})
	if err != nil {
		panic(err)
	}
	v.Close()
	f, err := os.CreateTemp("", "volume")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.Write(image); err != nil {
		panic(err)
	}
	return f.Name()
}
