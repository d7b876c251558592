//go:build amd64 && !purego

package xts_test

import (
	"slices"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/xts"
)

// What the other tests did not try here, said aloud: they run on the levels
// that are there, and XTSDISK_REQUIRE says which must be.
func TestLevelsTried(t *testing.T) {
	for _, level := range []string{"generic", "aesni4", "aesni", "avx", "vaes-avx2", "vaes256", "vaes512"} {
		t.Run(level, func(t *testing.T) {
			testenv.Feature(t, slices.Contains(xts.Levels(), level), level)
		})
	}
}
