package asm

import "fmt"

// XTSKey holds the expanded keys of one AES-XTS key pair for one level. It is
// not to be copied: Wipe would miss the copy. After Init its methods may be
// called concurrently, Wipe excepted.
//
// All methods trust their arguments. dst and src are the same memory exactly
// or disjoint, and dst is at least as long as src.
type XTSKey struct {
	_       noCopy
	level   Level
	generic genericXTS // level Generic only
	sched   *schedule  // all other levels
}

// noCopy makes go vet complain about copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Init expands key for level l. key is 32, 48 or 64 bytes: the data key and
// then the tweak key, of equal lengths (IEEE 1619-2018, section 5.1). It
// panics on another length and on a level that can't run here.
func (k *XTSKey) Init(l Level, key []byte) {
	if n := len(key); n != 32 && n != 48 && n != 64 {
		panic(fmt.Sprintf("asm: XTS key of %d bytes", n))
	}
	if err := Supported(l); err != nil {
		panic("asm: " + err.Error())
	}
	k.level = l
	if l == Generic {
		k.generic.init(key)
		return
	}
	k.sched = new(schedule)
	k.sched.expand(l, key)
}

// Level returns the level that Init was given.
func (k *XTSKey) Level() Level { return k.level }

// Wipe clears the expanded keys. The key is not to be used after.
func (k *XTSKey) Wipe() {
	k.generic.wipe()
	if k.sched != nil {
		*k.sched = schedule{}
	}
}
