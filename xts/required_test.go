//go:build amd64 && !purego

package xts_test

import (
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/xts"
)

// What the other tests did not try here, said aloud: they run on the levels
// that are there, and XTSDISK_REQUIRE says which must be.
func TestLevelsTried(t *testing.T) {
	for _, level := range xts.AllLevels() {
		t.Run(level.Name, func(t *testing.T) {
			for _, m := range level.Missing {
				t.Logf("missing: %s", m)
			}
			testenv.Feature(t, len(level.Missing) == 0, level.Name)
		})
	}
}
