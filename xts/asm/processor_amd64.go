//go:build !purego

package asm

func identify() (vendor string, family, model uint32) {
	p := thisProcessor()
	return p.vendor, p.family, p.model
}
