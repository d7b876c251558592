package main

import "github.com/mmcloughlin/avo/reg"

// The vector registers by number.
var (
	xmm = []reg.VecPhysical{
		reg.X0, reg.X1, reg.X2, reg.X3, reg.X4, reg.X5, reg.X6, reg.X7,
		reg.X8, reg.X9, reg.X10, reg.X11, reg.X12, reg.X13, reg.X14, reg.X15,
		reg.X16, reg.X17, reg.X18, reg.X19, reg.X20, reg.X21, reg.X22, reg.X23,
		reg.X24, reg.X25, reg.X26, reg.X27, reg.X28, reg.X29, reg.X30, reg.X31,
	}
	ymm = widen(reg.VecPhysical.AsY)
	zmm = widen(reg.VecPhysical.AsZ)
)

func widen(as func(reg.VecPhysical) reg.Register) []reg.VecPhysical {
	var wide []reg.VecPhysical
	for _, x := range xmm {
		wide = append(wide, as(x).(reg.VecPhysical))
	}
	return wide
}
