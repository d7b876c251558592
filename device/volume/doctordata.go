package volume

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/internal/secret"
	"github.com/xtsdisk/xtsdisk/internal/sector"
	"github.com/xtsdisk/xtsdisk/luks"
)

// reading is one way to decrypt data: what a header says, or something near it.
type reading struct {
	cipher     string
	sectorSize int
	wideIV     bool   // IVs count sectors of that size, not of 512 bytes
	ivOffset   uint64 // in 512-byte units
}

// String says in words what the reading is.
func (r reading) String() string {
	text := fmt.Sprintf("%s and sectors of %d bytes", r.cipher, r.sectorSize)
	if r.wideIV {
		text += ", IVs that count such sectors"
	}
	if r.ivOffset > 0 {
		text += fmt.Sprintf(", IVs that begin at %d", r.ivOffset)
	}
	return text
}

// judgeData looks for something known in the plaintext: as the header has it,
// and, if there is nothing, under other sector sizes and IVs.
func (x *examination) judgeData(v *luks.Volume) error {
	segments, err := v.Segments()
	if err != nil {
		return nil // said already
	}
	if x.Header.Detached() && x.Open.Header == "" {
		return nil // the data is not here
	}
	if len(segments) > 1 || segments[0].Type != "crypt" {
		x.add(NotTried, Note, nil, "the data has %d segments: what it looks like was not looked at", len(segments))
		return nil
	}
	s := segments[0]
	size := x.data.Size() - s.Offset
	if s.Size >= 0 {
		size = min(size, s.Size)
	}
	if size < 4096 {
		return nil // said already, if it is too little
	}
	data := device.NewSection(x.data, s.Offset, size)
	declared := reading{s.Cipher, s.SectorSize, false, s.IVTweak}
	as := declared.structured(data, v.Key())
	best, most := declared, as
	for _, r := range others(declared, s.Offset) {
		if n := r.structured(data, v.Key()); n > most {
			best, most = r, n
		}
	}
	found, ok := best.look(data, v.Key())
	x.tellData(declared, best, found, ok, most > 2*as+sampleSure)
	if found.Name != "" && best == declared {
		x.tellExtent(declared, data, v.Key(), found)
	}
	return nil
}

// tellData says what the data is. ok says that what was found is right beyond
// its signature; sure that the best reading makes so much more sense than what
// the header says that no signature is needed.
func (x *examination) tellData(declared, best reading, found probe.Found, ok, sure bool) {
	switch {
	case best != declared && found.Name != "":
		x.add(WrongSectors, Bad, luks.ErrHeaderCorrupt, "the data holds %s if it is read with %v; the header says %v", found.Name, best, declared)
	case best != declared && sure:
		x.add(WrongSectors, Bad, luks.ErrHeaderCorrupt, "the data makes sense, though it is nothing that is known, if it is read with %v; the header says %v", best, declared)
	case found.Name == "":
		x.add(DataUnknown, Note, nil, "the data begins with nothing that is known, neither as the header says (%v) nor under other sector sizes and IVs; it may be empty, damaged, or of another kind", declared)
	case !ok:
		x.add(DataFound, Warning, nil, "the data begins as %s, but what follows does not fit: it is damaged", found.Name)
	default:
		x.add(DataFound, Good, nil, "the data holds %s, read as the header says (%v)", found.Name, declared)
	}
}

// tellExtent compares what a filesystem says it takes with what there is.
func (x *examination) tellExtent(r reading, data device.Device, key []byte, found probe.Found) {
	plain, wipe := r.plain(data, key)
	if plain == nil {
		return
	}
	defer wipe()
	if need := found.Extent(plain, plain.Size()); need > plain.Size() {
		f := x.add(Truncated, Bad, ErrTruncated, "the %s has %d bytes, but the volume only %d: %d bytes of it are missing", found.Name, need, plain.Size(), need-plain.Size())
		f.Offset = x.data.Size()
	}
}

// whole leaves out what is less than a sector.
func whole(d device.Device, sectorSize int) device.Device {
	size := d.Size()
	return device.NewSection(d, 0, size-size%int64(sectorSize))
}

func (r reading) newCipher(key []byte) (sector.Cipher, error) {
	spec, err := sector.Parse(r.cipher)
	if err != nil {
		return nil, err
	}
	return spec.New(key, sector.Options{SectorSize: r.sectorSize, IVLargeSectors: r.wideIV, AllowEqualHalves: true})
}

// look says what is found in the data, read this way, and whether it is right
// beyond its signature.
func (r reading) look(data device.Device, key []byte) (found probe.Found, ok bool) {
	plain, wipe := r.plain(data, key)
	if plain == nil {
		return found, false
	}
	defer wipe()
	for _, f := range probe.Identify(plain, plain.Size()) {
		right := f.Confirm(plain, plain.Size())
		if right || found.Name == "" {
			found, ok = f, right
		}
		if right {
			break
		}
	}
	return found, ok
}

// plain is the data, read this way; nil if the cipher is not known.
func (r reading) plain(data device.Device, key []byte) (plain device.Device, wipe func()) {
	c, err := r.newCipher(key)
	if err != nil {
		return nil, nil
	}
	return device.NewCrypt(whole(data, r.sectorSize), c, device.CryptOptions{IVOffset: r.ivOffset}), c.Wipe
}

// A reading with the wrong sectors or IVs turns some of the data into noise,
// and the right one none: 512 bytes of noise in a row hold no byte value more
// than 16 times (the probability is below 2^-27), most of what a filesystem
// begins with does.
const (
	sampleSize = 256 << 10
	sampleMost = 16
	sampleSure = 16 // pieces
)

// structured counts the pieces of 512 bytes at the start of the data that are
// no noise if they are read this way.
func (r reading) structured(data device.Device, key []byte) (n int) {
	plain, wipe := r.plain(data, key)
	if plain == nil {
		return 0
	}
	defer wipe()
	b := secret.New(int(min(sampleSize, plain.Size())))
	defer b.Destroy()
	got, _ := plain.ReadAt(b.Bytes(), 0) // what cannot be read counts as noise
	for rest := b.Bytes()[:got]; len(rest) >= sector.UnitSize; rest = rest[sector.UnitSize:] {
		var count [256]int
		for _, c := range rest[:sector.UnitSize] {
			count[c]++
		}
		if slices.Max(count[:]) > sampleMost {
			n++
		}
	}
	return n
}

// others are readings that programs or people mix up with r: other sector
// sizes, IVs that count sectors or begin elsewhere, other generators of IVs.
// offset is where the data begins, in bytes.
func others(r reading, offset int64) []reading {
	var list []reading
	ciphers := []string{r.cipher}
	if base, iv, ok := cutIV(r.cipher); ok {
		for _, other := range []string{"plain64", "plain", "plain64be", "essiv:sha256", "benbi"} {
			if other != iv {
				ciphers = append(ciphers, base+other)
			}
		}
	}
	for _, c := range ciphers {
		for _, size := range []int{512, 1024, 2048, 4096} {
			for _, wide := range []bool{false, true} {
				for _, first := range []uint64{r.ivOffset, 0, uint64(offset / sector.UnitSize)} {
					one := reading{c, size, wide, first}
					if wide && size == sector.UnitSize || first%uint64(size/sector.UnitSize) != 0 || one == r || slices.Contains(list, one) {
						continue
					}
					list = append(list, one)
				}
			}
		}
	}
	return list
}

// cutIV splits "aes-xts-plain64" before its last part.
func cutIV(cipher string) (base, iv string, ok bool) {
	spec, err := sector.Parse(cipher)
	if err != nil || spec.IV == "" || strings.HasPrefix(cipher, "capi:") {
		return "", "", false
	}
	return spec.Cipher + "-" + spec.Mode + "-", spec.IV, true
}
