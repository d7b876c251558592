//go:build !race && amd64 && !purego

package asm

func raceTouch(dst, src *byte, length, mode uint64, tweaks *byte, n uint64) {}
