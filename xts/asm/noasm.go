//go:build !amd64 || purego

package asm

import "runtime"

// schedule is empty where there is no assembly: crypto/aes has the keys.
type schedule struct{}

func (*schedule) expand(Level, []byte) {}

func missing(Level) []string { return []string{notInBuild + " (" + whyNoAssembly() + ")"} }

func bestLevel() (Level, string) {
	return Generic, "This build has no assembly (" + whyNoAssembly() + ")."
}

func whyNoAssembly() string {
	if runtime.GOARCH == "amd64" {
		return "built with the tag purego"
	}
	return "none is written for " + runtime.GOARCH
}

// Encrypt encrypts one data unit of at least 16 bytes, of any length
// (ciphertext stealing), under an unencrypted tweak.
func (k *XTSKey) Encrypt(dst, src []byte, tweak *[16]byte) { k.generic.encrypt(dst, src, tweak) }

// Decrypt is the inverse of Encrypt.
func (k *XTSKey) Decrypt(dst, src []byte, tweak *[16]byte) { k.generic.decrypt(dst, src, tweak) }

// EncryptRun encrypts a run of whole sectors. The tweak of sector i is the
// 64-bit little-endian number first+i*step (mod 2^64), followed by 8 zeros.
func (k *XTSKey) EncryptRun(dst, src []byte, sectorSize int, first, step uint64) {
	k.generic.encryptRun(dst, src, sectorSize, first, step)
}

// DecryptRun is the inverse of EncryptRun.
func (k *XTSKey) DecryptRun(dst, src []byte, sectorSize int, first, step uint64) {
	k.generic.decryptRun(dst, src, sectorSize, first, step)
}

// EncryptTweaked encrypts a run of whole sectors under explicit tweaks, 16
// unencrypted bytes a sector.
func (k *XTSKey) EncryptTweaked(dst, src []byte, sectorSize int, tweaks []byte) {
	k.generic.encryptTweaked(dst, src, sectorSize, tweaks)
}

// DecryptTweaked is the inverse of EncryptTweaked.
func (k *XTSKey) DecryptTweaked(dst, src []byte, sectorSize int, tweaks []byte) {
	k.generic.decryptTweaked(dst, src, sectorSize, tweaks)
}

// PortLimit measures nothing here: it returns 0.
func PortLimit(width, rounds, iterations int) (blocks int) { return 0 }

// Xor does nothing here: it returns false.
func Xor(width int, p []byte) bool { return false }

// AddChain does nothing here.
func AddChain(n int) {}

// LimitWidth returns 0: without assembly there is no AES-port limit.
func LimitWidth(Level) int { return 0 }
