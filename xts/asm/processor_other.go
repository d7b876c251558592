//go:build !amd64 || purego

package asm

func identify() (vendor string, family, model uint32) { return "", 0, 0 }
