package device

import (
	"fmt"

	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// CryptOptions says where a crypt view's sectors are counted from and what it
// lets through.
type CryptOptions struct {
	// IVOffset is added to the IV sector numbers, in 512-byte units whatever
	// the sector size (dm-crypt's iv_offset). It must be a multiple of the
	// cipher's sector size, as dm-crypt demands.
	IVOffset uint64
	// AllowDiscards passes Discard on, which shows on the device below which
	// sectors are unused. Without it Discard does nothing.
	AllowDiscards bool
}

// crypt is the plaintext view of a device of ciphertext.
type crypt struct {
	d      Device
	c      sector.Cipher
	o      CryptOptions
	blocks blockIO
}

// NewCrypt returns the plaintext view of d: reads decrypt, writes encrypt.
// Sector i of the view is sector i of d, both of the cipher's sector size, and
// its IV sector number is i*SectorSize/512 + IVOffset. Bytes of d beyond the
// last whole sector are not part of it.
//
// Ranges that are not whole sectors are read, changed and written under a lock
// of their sectors, so that concurrent writes into one sector all arrive.
// WriteZeroes writes encrypted zeros. A hole of d is no hole of the view: it
// reads as noise.
//
// Closing the view closes d but does not wipe c, which stays the caller's.
// NewCrypt panics if IVOffset or the cipher's sector size is no multiple of
// the units above.
func NewCrypt(d Device, c sector.Cipher, o CryptOptions) Device {
	size := c.SectorSize()
	if size <= 0 || size%sector.UnitSize != 0 || o.IVOffset%uint64(size/sector.UnitSize) != 0 {
		panic(fmt.Sprintf("device: NewCrypt with sectors of %d bytes and IV offset %d", size, o.IVOffset))
	}
	v := &crypt{d: d, c: c, o: o}
	v.blocks = blockIO{block: int64(size), store: v}
	return v
}

func (v *crypt) iv(off int64) uint64 { return v.o.IVOffset + uint64(off)/sector.UnitSize }

// readBlocks implements blockStore.
func (v *crypt) readBlocks(p []byte, off int64) (int, error) {
	n, err := v.d.ReadAt(p, off)
	n -= n % int(v.blocks.block) // part of a sector cannot be decrypted
	v.c.Decrypt(p[:n], p[:n], v.iv(off))
	return n, err
}

// writeBlocks implements blockStore.
func (v *crypt) writeBlocks(p []byte, off int64, owned bool) error {
	dst := p
	if !owned {
		buf := getBuffer(len(p))
		defer buf.put() // ciphertext only
		dst = buf.b
	}
	v.c.Encrypt(dst, p, v.iv(off))
	_, err := v.d.WriteAt(dst, off)
	return err
}

// ReadAt implements Device. When it returns an error, p may hold ciphertext
// behind the bytes that it counts.
func (v *crypt) ReadAt(p []byte, off int64) (int, error) {
	n, end := clampRead("read crypt view", len(p), off, v.Size())
	got, err := v.blocks.read(p[:n], off)
	if err != nil || got < n {
		return got, err
	}
	return got, end
}

// WriteAt implements Device.
func (v *crypt) WriteAt(p []byte, off int64) (int, error) {
	if err := checkRange("write crypt view", off, int64(len(p)), v.Size()); err != nil {
		return 0, err
	}
	if err := v.blocks.write(p, off, int64(len(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Size implements Device.
func (v *crypt) Size() int64 { return roundDown(v.d.Size(), v.blocks.block) }

// SectorSize implements Device.
func (v *crypt) SectorSize() int { return max(int(v.blocks.block), v.d.SectorSize()) }

// Flush implements Device.
func (v *crypt) Flush() error { return v.d.Flush() }

// Discard implements Device. Only whole sectors are passed on: the rest of a
// sector would become noise with the part that is not needed.
func (v *crypt) Discard(off, n int64) error {
	if err := checkRange("discard crypt view", off, n, v.Size()); err != nil {
		return err
	}
	start, end := roundUp(off, v.blocks.block), roundDown(off+n, v.blocks.block)
	if !v.o.AllowDiscards || start >= end {
		return nil
	}
	defer v.blocks.locks.unlock(v.blocks.lock(start, end-start, true))
	return v.d.Discard(start, end-start)
}

// WriteZeroes implements Device.
func (v *crypt) WriteZeroes(off, n int64) error {
	if err := checkRange("zero crypt view", off, n, v.Size()); err != nil {
		return err
	}
	return v.blocks.write(nil, off, n)
}

// Close implements Device.
func (v *crypt) Close() error { return v.d.Close() }
