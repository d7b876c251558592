// Package sector turns a cipher string as dm-crypt and LUKS write it
// ("aes-xts-plain64") into a cipher for runs of whole sectors, with
// dm-crypt's rules for initialisation vectors (Linux, drivers/md/dm-crypt.c).
//
// Each mode lives in a file of its own and adds one row to the families
// table; AES-XTS delegates to package xts.
package sector

import "fmt"

// UnitSize is the unit, in bytes, in which IV sector numbers count whatever
// the sector size (dm-crypt's SECTOR_SIZE).
const UnitSize = 512

// Cipher encrypts and decrypts runs of whole sectors. It is safe for
// concurrent use, apart from Wipe.
//
// The length of src is a multiple of SectorSize, dst is at least as long and
// either is src or does not overlap it. ivSector is the number of the first
// sector in 512-byte units, whatever the sector size, with the IV offset
// already added (dm-crypt's cc_sector); it is a multiple of SectorSize/512.
// Other arguments are misuse and panic.
type Cipher interface {
	SectorSize() int // bytes
	Encrypt(dst, src []byte, ivSector uint64)
	Decrypt(dst, src []byte, ivSector uint64)
	Wipe() // clears the keys; the cipher cannot be used afterwards
}

// Options are the properties of a cipher that its string does not hold.
type Options struct {
	// SectorSize in bytes: 512, 1024, 2048 or 4096, dm-crypt's set.
	SectorSize int
	// IVLargeSectors counts IVs in sectors instead of 512-byte units, as
	// dm-crypt's iv_large_sectors.
	IVLargeSectors bool
	// Level forces an implementation by its name; "" takes the default.
	Level string
	// AllowEqualHalves accepts XTS keys with two equal halves, which are
	// refused otherwise (IEEE 1619 and SP 800-38E want them independent).
	AllowEqualHalves bool
}

// New returns the cipher for a key of one of s.KeySizes. The key is not kept:
// the caller may wipe it. Errors name what does not fit.
func (s Spec) New(key []byte, o Options) (Cipher, error) {
	f := s.family()
	if f == nil {
		return nil, s.unsupported()
	}
	if !ValidSectorSize(o.SectorSize) {
		return nil, fmt.Errorf("cipher %s: sector size %d: not 512, 1024, 2048 or 4096 bytes", s, o.SectorSize)
	}
	if !s.ValidKeySize(len(key)) {
		return nil, fmt.Errorf("cipher %s: key of %d bytes: not one of %v", s, len(key), s.KeySizes())
	}
	return f.new(s, key, o)
}

// ValidSectorSize reports whether dm-crypt takes n bytes as a sector size.
func ValidSectorSize(n int) bool {
	return n == 512 || n == 1024 || n == 2048 || n == 4096
}
