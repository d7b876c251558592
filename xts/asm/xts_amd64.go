//go:build !purego

package asm

import "sync"

//go:generate go run -C _gen . -dir ..

// slots is the number of round keys of AES-256; shorter schedules lie in as
// many slots (see expandKey).
const slots = 15

// schedule holds the round keys of the data key, for either direction, and of
// the tweak key: once as they are, and once four times over, a vector of 512
// bits each, for the levels that use such. The assembly knows this layout:
// _gen/layout.go.
//
// The vectors begin at a multiple of 64 bytes in it, and it has an allocation of
// its own, without pointers, which Go begins at such a multiple too: so none
// straddles two cache lines. That is worth 10 cycles of 78 to a short unit.
type schedule struct {
	enc, dec, tweak             [slots * 16]byte
	rounds                      uint64 // 10, 12, 14
	_                           [40]byte
	wideEnc, wideDec, wideTweak [slots * 64]byte
}

func (s *schedule) expand(l Level, key []byte) {
	half := len(key) / 2
	s.rounds = uint64(half/4 + 6)
	expandKey(&key[0], s.rounds, &s.enc[0], &s.dec[0])
	expandKey(&key[half], s.rounds, &s.tweak[0], nil)
	if l >= VAESAVX2 {
		widen(&s.wideEnc, &s.enc)
		widen(&s.wideDec, &s.dec)
		widen(&s.wideTweak, &s.tweak)
	}
}

func widen(dst *[slots * 64]byte, src *[slots * 16]byte) {
	for i := range slots {
		for lane := range 4 {
			copy(dst[64*i+16*lane:], src[16*i:16*i+16])
		}
	}
}

// The modes of a kernel, as in _gen/layout.go, and beside them the direction,
// which is in the same word to keep the parameters of call in registers.
const (
	modeExplicit = 1 << iota // tweaks come from memory, 16 bytes a sector
	modeResume               // the tweak at tweaks is encrypted already
	modeSave                 // store the encrypted tweak that follows at tweaks
	modeDecrypt              // not for kernels: which of them
	modeUnit                 // a single unit, with modeExplicit only: levels may have a shorter way
)

// capBytes is the most that one call does: assembly can't be preempted, so
// a longer one would delay the garbage collector. Either lasts some 20 µs.
func (k *XTSKey) capBytes() int {
	if k.level >= VAESAVX2 {
		return 128 << 10
	}
	return 32 << 10
}

// built tells whether this build has the code of l: it has all levels.
func built(l Level) bool { return l > Generic && int(l) < len(levelNames) }

// call runs a kernel on n sectors of size bytes each. It switches to direct
// calls, since a call through a function value would make the arguments
// escape, which allocates.
func (k *XTSKey) call(dst, src *byte, size, n, mode uint64, tweaks *byte, first, step uint64) {
	raceTouch(dst, src, size*n, mode, tweaks, n)
	keys := &k.sched.enc[0]
	dec := mode&modeDecrypt != 0
	switch {
	case k.level == VAES512 && !dec:
		encryptVAES512(keys, dst, src, size, n, mode, tweaks, first, step)
	case k.level == VAES512:
		decryptVAES512(keys, dst, src, size, n, mode, tweaks, first, step)
	case k.level == VAES256 && !dec:
		encryptVAES256(keys, dst, src, size, n, mode, tweaks, first, step)
	case k.level == VAES256:
		decryptVAES256(keys, dst, src, size, n, mode, tweaks, first, step)
	case (k.level == AVX || k.level == AESNI) && wide(size, n):
		k.callWide(dst, src, size, n, mode, tweaks, first, step)
	case k.level == AVX && !dec:
		encryptAVX(keys, dst, src, size, n, mode, tweaks, first, step)
	case k.level == AVX:
		decryptAVX(keys, dst, src, size, n, mode, tweaks, first, step)
	case k.level == AESNI && !dec:
		encryptAESNI(keys, dst, src, size, n, mode, tweaks, first, step)
	case k.level == AESNI:
		decryptAESNI(keys, dst, src, size, n, mode, tweaks, first, step)
	case k.level == VAESAVX2 && !dec:
		encryptVAESAVX2(keys, dst, src, size, n, mode, tweaks, first, step)
	case k.level == VAESAVX2:
		decryptVAESAVX2(keys, dst, src, size, n, mode, tweaks, first, step)
	case k.level == AESNI4 && !dec:
		encryptAESNI4(keys, dst, src, size, n, mode, tweaks, first, step)
	case k.level == AESNI4:
		decryptAESNI4(keys, dst, src, size, n, mode, tweaks, first, step)
	default:
		panic("asm: no kernel for level " + k.level.String())
	}
}

// Encrypt encrypts one data unit of at least 16 bytes, of any length
// (ciphertext stealing), under an unencrypted tweak.
func (k *XTSKey) Encrypt(dst, src []byte, tweak *[16]byte) {
	if k.level == Generic {
		k.generic.encrypt(dst, src, tweak)
		return
	}
	k.unit(0, dst, src, tweak)
}

// Decrypt is the inverse of Encrypt.
func (k *XTSKey) Decrypt(dst, src []byte, tweak *[16]byte) {
	if k.level == Generic {
		k.generic.decrypt(dst, src, tweak)
		return
	}
	k.unit(modeDecrypt, dst, src, tweak)
}

// EncryptRun encrypts a run of whole sectors. The tweak of sector i is the
// 64-bit little-endian number first+i*step (mod 2^64), followed by 8 zeros.
func (k *XTSKey) EncryptRun(dst, src []byte, sectorSize int, first, step uint64) {
	if k.level == Generic {
		k.generic.encryptRun(dst, src, sectorSize, first, step)
		return
	}
	k.run(0, dst, src, sectorSize, first, step)
}

// DecryptRun is the inverse of EncryptRun.
func (k *XTSKey) DecryptRun(dst, src []byte, sectorSize int, first, step uint64) {
	if k.level == Generic {
		k.generic.decryptRun(dst, src, sectorSize, first, step)
		return
	}
	k.run(modeDecrypt, dst, src, sectorSize, first, step)
}

// EncryptTweaked encrypts a run of whole sectors under explicit tweaks, 16
// unencrypted bytes a sector.
func (k *XTSKey) EncryptTweaked(dst, src []byte, sectorSize int, tweaks []byte) {
	if k.level == Generic {
		k.generic.encryptTweaked(dst, src, sectorSize, tweaks)
		return
	}
	k.tweaked(modeExplicit, dst, src, sectorSize, tweaks)
}

// DecryptTweaked is the inverse of EncryptTweaked.
func (k *XTSKey) DecryptTweaked(dst, src []byte, sectorSize int, tweaks []byte) {
	if k.level == Generic {
		k.generic.decryptTweaked(dst, src, sectorSize, tweaks)
		return
	}
	k.tweaked(modeExplicit|modeDecrypt, dst, src, sectorSize, tweaks)
}

func (k *XTSKey) run(mode uint64, dst, src []byte, size int, first, step uint64) {
	if n := len(src); n > 0 && n <= k.capBytes() { // alone, since a small run is quick
		k.call(&dst[0], &src[0], uint64(size), uint64(n)/uint64(size), mode, nil, first, step)
		return
	}
	k.longRun(mode, dst, src, size, first, step)
}

func (k *XTSKey) longRun(mode uint64, dst, src []byte, size int, first, step uint64) {
	limit := k.capBytes()
	if size > limit {
		for ; len(src) > 0; first += step {
			tweak := plain64(first)
			k.unit(mode, dst[:size], src[:size], &tweak)
			dst, src = dst[size:], src[size:]
		}
		return
	}
	for len(src) > 0 {
		n := min(len(src), limit) / size
		k.call(&dst[0], &src[0], uint64(size), uint64(n), mode, nil, first, step)
		dst, src = dst[n*size:], src[n*size:]
		first += uint64(n) * step
	}
}

func (k *XTSKey) tweaked(mode uint64, dst, src []byte, size int, tweaks []byte) {
	limit := k.capBytes()
	if size > limit {
		for ; len(src) > 0; tweaks = tweaks[16:] {
			k.unit(mode, dst[:size], src[:size], (*[16]byte)(tweaks))
			dst, src = dst[size:], src[size:]
		}
		return
	}
	for len(src) > 0 {
		n := min(len(src), limit) / size
		k.call(&dst[0], &src[0], uint64(size), uint64(n), mode, &tweaks[0], 0, 0)
		dst, src, tweaks = dst[n*size:], src[n*size:], tweaks[n*16:]
	}
}

// unit does one data unit.
func (k *XTSKey) unit(mode uint64, dst, src []byte, tweak *[16]byte) {
	if len(src) > k.capBytes() {
		k.longUnit(mode, dst, src, tweak)
		return
	}
	k.call(&dst[0], &src[0], uint64(len(src)), 1, mode|modeExplicit|modeUnit, &tweak[0], 0, 0)
}

// longUnit does one that is longer than the cap, which takes several calls that
// hand on the encrypted tweak; only the last one steals.
func (k *XTSKey) longUnit(mode uint64, dst, src []byte, tweak *[16]byte) {
	limit := k.capBytes()
	mode |= modeExplicit
	saved := savedTweaks.Get().(*[16]byte)
	defer func() { // also if a kernel faults, on mapped memory that went away
		*saved = [16]byte{}
		savedTweaks.Put(saved)
	}()
	*saved = *tweak
	for len(src) >= limit+16 {
		k.call(&dst[0], &src[0], uint64(limit), 1, mode|modeSave, &saved[0], 0, 0)
		dst, src = dst[limit:], src[limit:]
		mode |= modeResume
	}
	k.call(&dst[0], &src[0], uint64(len(src)), 1, mode, &saved[0], 0, 0)
}

// savedTweaks has places for an encrypted tweak between two calls. They are
// heap memory because a goroutine's stack is copied when it grows, and what it
// leaves behind is not cleared.
var savedTweaks = sync.Pool{New: func() any { return new([16]byte) }}

func plain64(n uint64) (tweak [16]byte) {
	for i := range 8 {
		tweak[i] = byte(n >> (8 * i))
	}
	return tweak
}

// PortLimit runs AES rounds that depend on no other work, keys and data in
// registers, on vectors of 128, 256 or 512 bits, for rounds (10, 12, 14) AES
// rounds a block. It returns the number of blocks done, in proportion to
// iterations, so that the time taken tells the most that any code can reach:
// the AES-port limit. It returns 0 for a width that can't run here, and
// can't be preempted: 10,000 iterations last some 0.3 ms.
func PortLimit(width, rounds, iterations int) (blocks int) {
	n := uint64(iterations) * uint64(rounds) / 2
	const inFlight = 12 // as in _gen/limit.go
	switch {
	case n == 0:
		return 0
	case width == 128 && supported(AESNI4) == nil:
		aesLimit128(n)
	case width == 256 && thisProcessor().runs(VAESAVX2):
		aesLimit256(n)
	case width == 512 && Supported(VAES512) == nil:
		aesLimit512(n)
	default:
		return 0
	}
	return iterations * inFlight * width / 128
}

// Xor inverts every bit of p in place by vectors of 128, 256 or 512 bits, with
// the prefetching of the kernels: the least that work in place on memory costs.
// len(p) is a multiple of 512. It returns false for a width that can't run here.
// It can't be preempted: 128 KiB out of memory last some 10 µs.
func Xor(width int, p []byte) bool {
	n := uint64(len(p) / 512)
	switch {
	case n == 0:
		return false
	case width == 128:
		xorLimit128(&p[0], n)
	case width == 256 && thisProcessor().runs(VAESAVX2):
		xorLimit256(&p[0], n)
	case width == 512 && Supported(VAES512) == nil:
		xorLimit512(&p[0], n)
	default:
		return false
	}
	return true
}

// AddChain does n additions, rounded up to a multiple of 64, of which each
// needs the one before: n clock cycles, to calibrate the clock with.
func AddChain(n int) {
	if n > 0 {
		addChain((uint64(n) + 63) / 64)
	}
}

// LimitWidth returns the vector width in bits at which the AES-port limit of a
// level is measured: that of its instructions. It is 0 for Generic.
func LimitWidth(l Level) int {
	switch l {
	case AESNI4, AESNI, AVX:
		return 128
	case VAESAVX2, VAES256:
		return 256
	case VAES512:
		return 512
	}
	return 0
}
