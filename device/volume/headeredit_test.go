package volume

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"
)

// editHeader changes the JSON text of both copies of a LUKS2 header, and makes
// their checksums right again (specification, section 2.1).
func editHeader(t *testing.T, image []byte, edit func(text string) string) []byte {
	t.Helper()
	const binarySize, sizeAt, checksumAt = 4096, 8, 448
	image = bytes.Clone(image)
	size := int64(binary.BigEndian.Uint64(image[sizeAt:]))
	for _, off := range []int64{0, size} {
		whole := image[off : off+size]
		text := edit(string(bytes.TrimRight(whole[binarySize:], "\x00")))
		clear(whole[binarySize:])
		copy(whole[binarySize:], text)
		clear(whole[checksumAt:][:64])
		sum := sha256.Sum256(whole)
		copy(whole[checksumAt:], sum[:])
	}
	return image
}
