package luks_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/xtsdisk/xtsdisk/luks"
)

// disk is Storage in memory; a file of package device is one, too.
type disk []byte

func (d disk) ReadAt(p []byte, off int64) (int, error)  { return bytes.NewReader(d).ReadAt(p, off) }
func (d disk) WriteAt(p []byte, off int64) (int, error) { return copy(d[off:], p), nil }
func (d disk) Flush() error                             { return nil }

// Make a volume, and open it again with nothing but an io.ReaderAt.
func Example() {
	ctx, passphrase := context.Background(), []byte("correct horse")
	image := make(disk, 20<<20)
	kdf, err := luks.ChooseKDF(ctx, luks.KDFTarget{Type: luks.KDFPBKDF2, ForceIterations: 1000})
	if err != nil {
		panic(err)
	}
	v, err := luks.Format(ctx, image, luks.FormatOptions{
		Label: "example", SectorSize: 4096, KDF: kdf, Passphrase: passphrase, DataSize: int64(len(image)),
	})
	if err != nil {
		panic(err)
	}
	v.Close()

	h, err := luks.ReadHeader(image, int64(len(image)))
	if err != nil {
		panic(err)
	}
	v, err = h.Unlock(ctx, image, passphrase, luks.UnlockOptions{Slot: luks.AnySlot})
	if err != nil {
		panic(err)
	}
	defer v.Close()
	segments, err := v.Segments()
	if err != nil {
		panic(err)
	}
	s := segments[0]
	fmt.Printf("%s: keyslot %d, %s from byte %d, sectors of %d bytes, key of %d bytes\n",
		h.Label, v.Slot, s.Cipher, s.Offset, s.SectorSize, len(v.Key()))
	// Output: example: keyslot 0, aes-xts-plain64 from byte 16777216, sectors of 4096 bytes, key of 64 bytes
}
