package volume

import (
	"bytes"
	"io"
	"math"
	"path/filepath"
	"testing"
)

// Offsets at the end of what 63 bits hold: sums with them must not wrap.
func TestHugeOffsets(t *testing.T) {
	src := write(t, "src", noise(1, mib))
	dir := filepath.Dir(src)
	for _, off := range []int64{math.MaxInt64 - 511, math.MaxInt64 &^ 4095, maxDataOffset + 4096} {
		plain, header := plainOf(512), cheap()
		plain.Offset, header.DataOffset = off, off&^4095
		for name, o := range map[string]EncryptOptions{
			"plain": {Src: src, Dst: src + ".volume", Plain: plain},
			"luks":  {Src: src, Dst: src + ".volume", Luks: header},
			"pipe":  {Src: "-", Stdin: bytes.NewReader(noise(1, mib)), Dst: src + ".volume", Plain: plain},
			"out":   {Src: src, Dst: "-", Stdout: io.Discard, Plain: plain},
		} {
			_, err := Encrypt(t.Context(), o)
			refused(t, name, err, ErrOptions, "no file or device reaches so far")
		}
		_, err := Decrypt(t.Context(), DecryptOptions{Src: src, Dst: src + ".plain", Open: OpenOptions{Plain: plain}})
		refused(t, "decrypt", err, ErrOptions)
		only(t, dir, "src")
	}
	plain := plainOf(512)
	plain.Offset, plain.Size = maxDataOffset, math.MaxInt64-511
	_, err := Decrypt(t.Context(), DecryptOptions{Src: src, Dst: src + ".plain", Open: OpenOptions{Plain: plain}})
	refused(t, "offset and size", err, ErrOptions)
	plain.Size = 0
	_, err = Decrypt(t.Context(), DecryptOptions{Src: src, Dst: src + ".plain", Open: OpenOptions{Plain: plain}})
	refused(t, "behind the end", err, ErrSize, src)
}

func TestNearestSizes(t *testing.T) {
	for _, c := range []struct {
		size int64
		want string
	}{
		{1, "the nearest is 512"}, {513, "the nearest are 512 and 1024"},
		{math.MaxInt64, "the nearest is 9223372036854775296"},
	} {
		refused(t, c.want, checkMultiple("x", c.size, 512), ErrSize, c.want)
	}
	if err := checkMultiple("x", 1024, 512); err != nil {
		t.Error(err)
	}
}
