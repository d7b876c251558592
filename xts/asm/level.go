// Package asm holds the assembly of the XTS engine, the processor levels it is
// written for, and the choice among them. It is shared by the packages xts and
// gcm of this module and promises no stable API: import xts instead.
//
// Nothing here checks its arguments: xts has done so. The functions
// are pure memory work: no goroutines, no allocation, no I/O.
package asm

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// Level names an implementation by the processor features it needs.
type Level uint8

// The levels, slowest first. A name exists for every level of the design; a
// build need not have them all (see Supported).
const (
	Generic  Level = iota // crypto/aes, no assembly of this module
	AESNI4                // AES-NI, SSE, 4 blocks in flight, no PCLMULQDQ
	AESNI                 // AES-NI, SSE, PCLMULQDQ, 8 blocks in flight
	AVX                   // AES-NI, AVX, PCLMULQDQ
	VAESAVX2              // VAES on 256-bit vectors, VEX-encoded: no AVX-512 state
	VAES256               // VAES on 256-bit vectors, EVEX-encoded
	VAES512               // VAES on 512-bit vectors
)

// LevelVariable is the environment variable that forces a level by name.
const LevelVariable = "XTSDISK_LEVEL"

var levelNames = [...]string{
	Generic: "generic", AESNI4: "aesni4", AESNI: "aesni", AVX: "avx",
	VAESAVX2: "vaes-avx2", VAES256: "vaes256", VAES512: "vaes512",
}

// String returns the level's name, as ParseLevel takes it.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// ParseLevel returns the level of that name, whether or not it can run here.
func ParseLevel(name string) (Level, error) {
	if i := slices.Index(levelNames[:], name); i >= 0 {
		return Level(i), nil
	}
	return Generic, fmt.Errorf("unknown level %q: the levels are %s", name, strings.Join(levelNames[:], ", "))
}

// AllLevels returns every level of the design, slowest first, whether or not
// it can run here.
func AllLevels() []Level {
	levels := make([]Level, len(levelNames))
	for i := range levels {
		levels[i] = Level(i)
	}
	return levels
}

// Levels returns the levels that this build and this processor can run,
// slowest first. Generic is always among them.
func Levels() []Level {
	return slices.DeleteFunc(AllLevels(), func(l Level) bool { return Supported(l) != nil })
}

// Missing returns what l, one of AllLevels, needs and lacks here, in words: the
// code in this build, or features of the processor. It is empty if l can run.
func Missing(l Level) []string {
	if l == Generic {
		return nil
	}
	return missing(l)
}

// notInBuild is what Missing says of a level without code.
const notInBuild = "code in this build"

// Supported returns nil if l can run here, or an error that says what is
// missing: the code in this build, or a feature of the processor.
func Supported(l Level) error {
	if int(l) >= len(levelNames) {
		return fmt.Errorf("unknown level %v", l)
	}
	return supported(l)
}

func supported(l Level) error {
	m := Missing(l)
	switch {
	case len(m) == 0:
		return nil
	case strings.HasPrefix(m[0], notInBuild):
		return fmt.Errorf("level %v is not in this build%s", l, m[0][len(notInBuild):])
	}
	return fmt.Errorf("level %v needs processor features that are missing here: %s", l, strings.Join(m, ", "))
}

// Default returns the level to use when the caller names none: what
// XTSDISK_LEVEL says, or else the best by feature and microarchitecture. The
// second result says why in one sentence. An XTSDISK_LEVEL that is unknown or
// can't run here is an error, never a silent fallback. The environment is read
// once, at the first call.
func Default() (l Level, why string, err error) {
	d := defaultLevel()
	return d.level, d.why, d.err
}

type levelChoice struct {
	level Level
	why   string
	err   error
}

var defaultLevel = sync.OnceValue(func() levelChoice {
	return chooseLevel(os.Getenv(LevelVariable))
})

// chooseLevel is Default for a given value of XTSDISK_LEVEL; empty is unset.
func chooseLevel(forced string) levelChoice {
	if forced == "" {
		l, why := bestLevel()
		return levelChoice{level: l, why: why}
	}
	l, err := ParseLevel(forced)
	if err == nil {
		err = Supported(l)
	}
	if err != nil {
		return levelChoice{err: fmt.Errorf("%s=%s: %w", LevelVariable, forced, err)}
	}
	return levelChoice{level: l, why: fmt.Sprintf("%s=%s forces it.", LevelVariable, forced)}
}
