//go:build !amd64 || purego

package asm

import "testing"

var levelsInBuild = []Level{Generic}

func TestNothingToMeasure(t *testing.T) {
	AddChain(1)
	if n := PortLimit(128, 10, 10); n != 0 {
		t.Errorf("PortLimit = %d without assembly", n)
	}
	if w := LimitWidth(VAES512); w != 0 {
		t.Errorf("LimitWidth = %d without assembly", w)
	}
}
