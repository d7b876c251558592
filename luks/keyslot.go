package luks

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/secret"
	"github.com/xtsdisk/xtsdisk/internal/sector"
)

// keyslotSector is the sector size, in bytes, at which keyslot areas are
// encrypted, whatever that of the data; IVs count from the area's start.
const keyslotSector = 512

// supported returns nil if this package has everything that the keyslot asks
// for: so that nothing unknown is found out after the KDF's seconds.
func (k *Keyslot) supported(d *Digest, p Policy) error {
	spec, err := sector.Parse(k.Area.Cipher)
	if err != nil {
		return fmt.Errorf("area: %w", cipherError(err))
	}
	if !spec.ValidKeySize(k.Area.KeySize) {
		return unsupported("area cipher %s with a key of %d bytes", spec, k.Area.KeySize)
	}
	if err := k.KDF.supported(); err != nil {
		return err
	}
	if _, err := hashByName(k.AF.Hash); err != nil {
		return fmt.Errorf("anti-forensic split: %w", err)
	}
	if k.AF.Stripes != afStripes && !p.AllowStripes {
		return refuse("AllowStripes", "anti-forensic split of %d stripes, not %d", k.AF.Stripes, afStripes)
	}
	if why := spec.Weakness(); why != "" && !p.AllowWeak {
		return refuse("AllowWeak", "area cipher %s %s", spec, why)
	}
	if err := d.supported(); err != nil {
		return fmt.Errorf("digest %d: %w", d.ID, err)
	}
	return nil
}

// areaBytes is how much of the area the split key takes: whole sectors.
func (k *Keyslot) areaBytes() int64 {
	return (k.materialSize() + keyslotSector - 1) / keyslotSector * keyslotSector
}

// readArea returns the encrypted split key.
func (k *Keyslot) readArea(r io.ReaderAt) ([]byte, error) {
	b := make([]byte, k.areaBytes())
	n, err := readUpTo(r, b, k.Area.Offset)
	if err != nil {
		return nil, err
	}
	if n < len(b) {
		return nil, fmt.Errorf("%w: its area at offset %d ends after %d of %d bytes", ErrKeyslotDamaged, k.Area.Offset, n, len(b))
	}
	return b, nil
}

// open returns the key in the keyslot. The time the KDF took is added to
// spent. A passphrase that does not fit gives ErrWrongPassphrase, or
// ErrKeyslotDamaged if the area cannot be what was written there.
func (k *Keyslot) open(ctx context.Context, r io.ReaderAt, d *Digest, passphrase []byte, spent *time.Duration) (*secret.Buffer, error) {
	encrypted, err := k.readArea(r)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	areaKey, err := k.KDF.derive(ctx, passphrase, k.Area.KeySize)
	*spent += time.Since(start)
	if err != nil {
		return nil, err
	}
	defer secret.Wipe(areaKey)
	key, err := k.merge(encrypted, areaKey)
	if err != nil {
		return nil, err
	}
	ok, err := d.verify(ctx, key.Bytes())
	if err == nil && !ok {
		err = judgeArea(encrypted, k.Area.Offset)
	}
	if err != nil {
		key.Destroy()
		return nil, err
	}
	return key, nil
}

// merge decrypts the area and undoes the split.
func (k *Keyslot) merge(encrypted, areaKey []byte) (*secret.Buffer, error) {
	c, err := k.areaCipher(areaKey)
	if err != nil {
		return nil, err
	}
	defer c.Wipe()
	newHash, err := hashByName(k.AF.Hash)
	if err != nil {
		return nil, err
	}
	material := secret.New(len(encrypted))
	defer material.Destroy()
	c.Decrypt(material.Bytes(), encrypted, 0)
	key := secret.New(k.KeySize)
	afMerge(key.Bytes(), material.Bytes()[:k.materialSize()], newHash)
	return key, nil
}

// fill returns the area's contents for a key: split and encrypted.
func (k *Keyslot) fill(key, areaKey []byte) ([]byte, error) {
	c, err := k.areaCipher(areaKey)
	if err != nil {
		return nil, err
	}
	defer c.Wipe()
	newHash, err := hashByName(k.AF.Hash)
	if err != nil {
		return nil, err
	}
	area := make([]byte, k.areaBytes())
	split := afSplit(key, k.AF.Stripes, newHash)
	copy(area, split)
	secret.Wipe(split)
	c.Encrypt(area, area, 0)
	return area, nil
}

// areaCipher is the cipher of the keyslot's area. A derived key has equal
// halves with no probability worth a refusal.
func (k *Keyslot) areaCipher(areaKey []byte) (sector.Cipher, error) {
	spec, err := sector.Parse(k.Area.Cipher)
	if err != nil {
		return nil, cipherError(err)
	}
	return spec.New(areaKey, sector.Options{SectorSize: keyslotSector, AllowEqualHalves: true})
}
