package luks

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/xtsdisk/xtsdisk/internal/hashes"
)

// What is split is merged again, for every hash and for keys that its digest
// does not divide. Known answers are the golden headers and the fixtures.
func TestAFRoundTrip(t *testing.T) {
	names := hashes.Names()
	rapid.Check(t, func(t *rapid.T) {
		newHash := hashes.ByName(rapid.SampledFrom(names).Draw(t, "hash"))
		key := rapid.SliceOfN(rapid.Byte(), 1, 150).Draw(t, "key")
		stripes := rapid.IntRange(1, 9).Draw(t, "stripes")
		material := afSplit(key, stripes, newHash)
		if len(material) != len(key)*stripes {
			t.Fatalf("%d bytes", len(material))
		}
		got := make([]byte, len(key))
		afMerge(got, material, newHash)
		if !bytes.Equal(got, key) {
			t.Fatalf("%x, not %x", got, key)
		}
	})
}

// Any changed bit of any stripe changes the key beyond recognition.
func TestAFNeedsEveryBit(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 64)
	material := afSplit(key, 50, hashes.ByName("sha256"))
	got := make([]byte, len(key))
	for i := range material {
		material[i] ^= 0x10
		afMerge(got, material, hashes.ByName("sha256"))
		if bytes.Equal(got, key) {
			t.Fatalf("byte %d does not count", i)
		}
		material[i] ^= 0x10
	}
	if bytes.Contains(material, key[:16]) {
		t.Error("the key lies bare in the material")
	}
}
