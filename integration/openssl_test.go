//go:build linux

package integration

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

const payloadOffset = 16 << 20 // of a LUKS2 volume with default areas

// Single sectors of a volume, the first, the last and some whose number does
// not fit in 32 bits, must be what libcrypto makes of the ciphertext with the
// exported key. The volume is sparse and larger than 2 TiB; random bytes are
// put where the samples lie.
func TestSampledSectorsAgainstOpenSSL(t *testing.T) {
	python := testenv.Tool(t, "python3")
	const size = int64(3) << 40
	for _, c := range []struct{ bits, sector int }{{256, 512}, {512, 512}, {256, 4096}, {512, 4096}} {
		t.Run(strconv.Itoa(c.bits)+"/"+strconv.Itoa(c.sector), func(t *testing.T) {
			b := newBench(t)
			b.write("volume", nil)
			if err := os.Truncate(b.path("volume"), size+payloadOffset); err != nil {
				t.Skipf("no sparse file of 3 TiB here: %v", err)
			}
			b.xtsdisk(append([]string{"format", "volume", "--key-size", strconv.Itoa(c.bits),
				"--sector-size", strconv.Itoa(c.sector)}, cheapKDF...)...)
			b.xtsdisk("key", "export", "volume", "key")

			perSector := int64(c.sector / 512)
			last := size/512 - perSector
			for i, first := range []int64{0, perSector, 1<<32 - perSector, 1 << 32, 1<<32 + perSector, last} {
				cipher := random(c.sector, uint64(i))
				b.writeAt("volume", cipher, payloadOffset+first*512)
				got := b.xtsdisk("cat", "volume", "--range",
					strconv.FormatInt(first*512, 10)+":"+strconv.Itoa(c.sector))
				want := b.opensslDecrypt(python, c.sector, first, cipher)
				if !bytes.Equal(got, want) {
					t.Errorf("512-byte sector %d: cat and libcrypto differ", first)
				}
			}
		})
	}
}

// encrypt's own output, sampled in the same way.
func TestEncryptedSectorsAgainstOpenSSL(t *testing.T) {
	python := testenv.Tool(t, "python3")
	b := newBench(t)
	plain := random(8<<20, 7)
	b.write("plain", plain)
	b.xtsdisk(append([]string{"encrypt", "plain", "volume", "--sector-size", "4096"}, cheapKDF...)...)
	b.xtsdisk("key", "export", "volume", "key")
	payload := b.read("volume")[payloadOffset:]
	if len(payload) != len(plain) {
		t.Fatalf("payload of %d bytes for %d of plaintext", len(payload), len(plain))
	}
	for _, sector := range []int{0, 1, 255, 256, 1023, len(plain)/4096 - 1} {
		want := plain[sector*4096:][:4096]
		got := b.opensslDecrypt(python, 4096, int64(sector)*8, payload[sector*4096:][:4096])
		if !bytes.Equal(got, want) {
			t.Errorf("sector %d: libcrypto decrypts it to something else", sector)
		}
	}
}

func (b *bench) opensslDecrypt(python string, sectorSize int, iv int64, cipher []byte) []byte {
	b.tb.Helper()
	cmd := exec.Command(python, "testdata/xts.py", b.path("key"), strconv.Itoa(sectorSize), strconv.FormatInt(iv, 10))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(cipher), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.tb.Fatalf("libcrypto through python3: %v", err)
	}
	return out
}

func (b *bench) writeAt(name string, data []byte, off int64) {
	b.tb.Helper()
	f, err := os.OpenFile(b.path(name), os.O_WRONLY, 0)
	if err != nil {
		b.tb.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, off); err != nil {
		b.tb.Fatal(err)
	}
}
