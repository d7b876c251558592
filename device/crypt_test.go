package device_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
	"github.com/xtsdisk/xtsdisk/internal/sector"
	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// mapping is how dm-crypt presented a fixture, from the table recorded with it:
// cipher, key, IV offset and start, both in 512-byte units.
type mapping struct {
	fixture  string
	cipher   string
	key      func(t *testing.T, volumeKeyHex string) []byte
	ivOffset uint64
	start    int64
	options  sector.Options
}

func keyFile(size int) func(*testing.T, string) []byte {
	return func(t *testing.T, _ string) []byte {
		b, err := os.ReadFile(testenv.Data(t, "fixtures/keys/key-a.bin"))
		if err != nil {
			t.Fatal(err)
		}
		return b[:size]
	}
}

func volumeKey(t *testing.T, volumeKeyHex string) []byte {
	b, err := hex.DecodeString(volumeKeyHex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func hashedKey(*testing.T, string) []byte {
	sum := sha512.Sum512([]byte("plain pass"))
	return sum[:]
}

// TestCryptKernel holds the view, in both directions, against what dm-crypt
// presented.
func TestCryptKernel(t *testing.T) {
	for _, m := range []mapping{
		{"plain-ss4096", "aes-xts-plain64", keyFile(64), 0, 0, sector.Options{SectorSize: 4096}},
		{"plain-ss4096-ivlarge", "aes-xts-plain64", keyFile(64), 0, 0, sector.Options{SectorSize: 4096, IVLargeSectors: true}},
		{"plain-xts-keyfile-skip", "aes-xts-plain64", keyFile(32), 100, 16, sector.Options{SectorSize: 512}},
		{"plain-xts-sha512", "aes-xts-plain64", hashedKey, 0, 0, sector.Options{SectorSize: 512}},
		{"luks2-xts-plain64be", "aes-xts-plain64be", volumeKey, 0, 2048, sector.Options{SectorSize: 512}},
	} {
		t.Run(m.fixture, func(t *testing.T) {
			image := testenv.Unxz(t, testenv.Data(t, "fixtures/"+m.fixture+".img.xz"))
			size, sum, key := manifest(t, m.fixture)
			spec, err := sector.Parse(m.cipher)
			if err != nil {
				t.Fatal(err)
			}
			c, err := spec.New(m.key(t, key), m.options)
			if err != nil {
				t.Fatal(err)
			}
			below := device.NewMemory(int64(len(image)), 512)
			write(t, below, image, 0)
			view := device.NewCrypt(device.NewSection(below, m.start*512, size), c, device.CryptOptions{IVOffset: m.ivOffset})
			plain := readAll(t, view)
			if got := sha256.Sum256(plain); hex.EncodeToString(got[:]) != sum {
				t.Fatalf("the view has SHA-256 %x, the kernel had %s", got, sum)
			}
			if err := view.WriteZeroes(0, view.Size()); err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(readAll(t, below), image) {
				t.Fatal("WriteZeroes changed nothing")
			}
			for off := 0; off < len(plain); off += 1000 { // unaligned on purpose
				write(t, view, plain[off:min(off+1000, len(plain))], int64(off))
			}
			if !bytes.Equal(readAll(t, below), image) {
				t.Error("writing the plaintext back gives another image")
			}
		})
	}
}

// manifest returns what the kernel presented, and the volume key.
func manifest(t *testing.T, name string) (size int64, sum, key string) {
	b, err := os.ReadFile(testenv.Data(t, "fixtures/manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Fixtures []struct {
			Name       string
			SHA256     string `json:"payload_sha256"`
			PayloadLen int64  `json:"payload_len"`
			Key        string `json:"volume_key_hex"`
		}
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, f := range m.Fixtures {
		if f.Name == name {
			return f.PayloadLen, f.SHA256, f.Key
		}
	}
	t.Fatalf("no fixture %s", name)
	return 0, "", ""
}

// What lies below is the cipher's output for each sector by itself.
func TestCryptBelow(t *testing.T) {
	for _, size := range []int{512, 4096} {
		c := newCipher(t, size)
		below := device.NewMemory(40*4096+100, 512)
		view := device.NewCrypt(below, c, device.CryptOptions{IVOffset: 64})
		if want := int64(40*4096+100) / int64(size) * int64(size); view.Size() != want {
			t.Errorf("sectors of %d: size %d, want %d", size, view.Size(), want)
		}
		plain := bytes.Repeat([]byte("plaintext "), 20000)[:view.Size()]
		write(t, view, plain, 0)
		got := readAll(t, below)[:view.Size()]
		for off := 0; off < len(plain); off += size {
			want := make([]byte, size)
			c.Encrypt(want, plain[off:off+size], 64+uint64(off)/512)
			if !bytes.Equal(got[off:off+size], want) {
				t.Fatalf("sectors of %d: the sector at byte %d is wrong", size, off)
			}
		}
	}
}

// A discard reaches the device below only if allowed, and only whole sectors.
func TestCryptDiscard(t *testing.T) {
	for _, allow := range []bool{false, true} {
		record := device.NewRecord(device.NewMemory(64<<10, 512))
		view := device.NewCrypt(record, newCipher(t, 4096), device.CryptOptions{AllowDiscards: allow})
		for _, r := range [][2]int64{{1, 4095}, {4095, 4098}, {0, 0}, {100, 12288}, {8192, 4096}} {
			if err := view.Discard(r[0], r[1]); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, o := range record.Log().Ops() {
			got = append(got, o.String())
		}
		want := ""
		if allow {
			want = "file 0: discard [4096, 8192); file 0: discard [4096, 12288); file 0: discard [8192, 12288)"
		}
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("allowed=%v: %s; want %s", allow, s, want)
		}
	}
}

func TestCryptPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an IV offset inside a sector does not panic")
		}
	}()
	device.NewCrypt(device.NewMemory(8192, 512), newCipher(t, 4096), device.CryptOptions{IVOffset: 4})
}

// Errors from below come through, with the bytes that were good before them.
func TestCryptErrors(t *testing.T) {
	bad := int64(300<<10 + 100) // inside a sector, whose beginning alone cannot be decrypted
	fault := &devicetest.Fault{Device: device.NewMemory(1<<20, 512), Before: func(c devicetest.Call) (int, error) {
		if c.Off+int64(c.N) > bad {
			return int(max(0, bad-c.Off)), errInjected
		}
		return c.N, nil
	}}
	view := device.NewCrypt(fault, newCipher(t, 512), device.CryptOptions{})
	good := bad - 100
	write(t, view, bytes.Repeat([]byte{8}, int(good)), 0)
	b := make([]byte, 500<<10)
	n, err := view.ReadAt(b, 0)
	if int64(n) != good || !errors.Is(err, errInjected) || !bytes.Equal(b[:n], bytes.Repeat([]byte{8}, n)) {
		t.Errorf("ReadAt: %d, %v; want %d good bytes and the error", n, err, good)
	}
	for _, r := range [][2]int64{{bad, 512}, {bad - 100, 200}, {bad + 10, 3}, {0, 1 << 20}} {
		if _, err := view.WriteAt(make([]byte, r[1]), r[0]); !errors.Is(err, errInjected) {
			t.Errorf("WriteAt of %d bytes at %d: %v", r[1], r[0], err)
		}
		if err := view.WriteZeroes(r[0], r[1]); !errors.Is(err, errInjected) {
			t.Errorf("WriteZeroes of %d bytes at %d: %v", r[1], r[0], err)
		}
	}
}
