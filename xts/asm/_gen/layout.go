package main

// The layout of type schedule in xts_amd64.go, which has a test for it.
const (
	slots     = 15 // round keys of AES-256, the first included
	slotBytes = 16

	encKeys    = 0
	decKeys    = encKeys + slots*slotBytes
	tweakKeys  = decKeys + slots*slotBytes
	roundCount = tweakKeys + slots*slotBytes

	// The same keys, each four times over, from a multiple of 64 bytes on.
	wideSlotBytes = 64
	wideEncKeys   = roundCount + 48
	wideDecKeys   = wideEncKeys + slots*wideSlotBytes
	wideTweakKeys = wideDecKeys + slots*wideSlotBytes
)

// keyOffset is the place of a round key of the data key. Round keys lie in 15
// slots whatever the key size: the first key in slot 0, the last in slot 14,
// and what a shorter key lacks missing after slot 0, so that one code serves
// all key sizes by jumping over the first rounds (eachRound).
func keyOffset(dec bool, slot int) int {
	if dec {
		return decKeys + slotBytes*slot
	}
	return encKeys + slotBytes*slot
}

// The modes of a kernel, as bits of its parameter (constants of the same names
// in xts_amd64.go).
const (
	modeExplicit = 1 << iota // tweaks come from memory, 16 bytes a sector
	modeResume               // the tweak at tweaks is encrypted already
	modeSave                 // store the encrypted tweak that follows at tweaks
	_
	modeUnit // one unit under one tweak: modeExplicit, n is 1, no modeResume or modeSave
)
