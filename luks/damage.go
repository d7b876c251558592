package luks

import "fmt"

// What a keyslot's area holds is encrypted, so its bytes are evenly
// distributed; zeros, text, filesystem structures and most other things that
// overwrite one are not. The anti-forensic split makes any damage to the area
// fatal, so each of its sectors is measured by itself.
//
// The measure is Pearson's χ² over the 256 byte values of one 512-byte sector,
// two expected of each: for random bytes its mean is 255, its standard
// deviation 22.6. The multinomial distribution, summed exactly, puts the
// probability of more than 600 at 2^-65 a sector, so a false alarm at less
// than one in 2^54 keyslots. A sector of ASCII text gives over 1000, one that
// is zeros in half over 30000. Random bytes in the wrong place (another
// encrypted or a compressed file) cannot be told from right ones.
const damagedChi2 = 600

// judgeArea says why an area gave no key: ErrKeyslotDamaged if it cannot be
// what was written there, else ErrWrongPassphrase. byteOff is the area's.
func judgeArea(area []byte, byteOff int64) error {
	bad, first := 0, int64(0)
	total := len(area) / keyslotSector
	for i := range total {
		if chi2(area[i*keyslotSector:][:keyslotSector]) > damagedChi2 {
			if bad++; bad == 1 {
				first = byteOff + int64(i*keyslotSector)
			}
		}
	}
	if bad == 0 {
		return ErrWrongPassphrase
	}
	return fmt.Errorf("%w: %d of its %d sectors do not hold encrypted data, the first at offset %d", ErrKeyslotDamaged, bad, total, first)
}

// chi2 returns Pearson's χ² of the byte values in b against an even spread.
func chi2(b []byte) float64 {
	var count [256]int
	for _, c := range b {
		count[c]++
	}
	expected := float64(len(b)) / 256
	sum := 0.0
	for _, n := range count {
		d := float64(n) - expected
		sum += d * d
	}
	return sum / expected
}
