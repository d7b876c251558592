package sector

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// What Linux's dm-crypt (6.1) wrote: the first 48 bytes of a sector, its IV
// number in 512-byte units, and the plaintext.
var dmcryptVectors = []struct {
	cipher     string
	sectorSize int
	ivLarge    bool
	ivSector   uint64
	key        string
	ciphertext string
	plaintext  string
}{
	{
		"aes-xts-plain64", 512, false, 3,
		"6d21c82155750fa73c8e528054e81c4ae976ec366e1a9ddde21525e50fc077df353284d557def1a80004cb5f06cf1ecfd3349b8a1e0d4120ca1eed8449d1d9d0",
		"ff1e54e460e705642cfc99f77e657ac9a2dca67b127c69ff1592f94318ea8750ed28f2147497cd21540f4d9b50622cc6",
		"142b50dc9245d3e322d9fae209f9889ee5310a5258cc54874cae14b209481caefcadd14ea6e8bfc17de853b2f28f4c1b",
	},
	{
		"aes-xts-plain64", 4096, false, 16,
		"1f939a1fb5b181b7adf9b7582e16291bca534ce7b3c9134776282cec4a3feb423738dff9ed73a1218a35d8c228a07cace7178b85ad3425fd9933eed1ca466ecb",
		"2125813c3432f1ca9a639b6c44ef33dcc2271c0688542ea414ecef2531ea2f6567ff8cca84d7447779c30f52a8c5e58e",
		"d2bf33b9636624bd387de45a628855d49042bfe0d5f12947631a83a35745046ee82707a9bb1a519cdaa0d5f404b5f6f6",
	},
	{
		"aes-xts-plain64be", 512, false, 5,
		"dcc4fe265f09e687ffe65d2343ff3c158948c0ec117ca05e9439687363e1f4a882f8a2fb36de08e2e4fd1e1e06de775cf7ec78173729c34bde3cdb9ea02acd37",
		"12700829183fd3669e4668da3dcf720f29142c7b41bbc8ed5981197e666aee50b4e6ab6b2da498d9daed653632820f8f",
		"f73989b038c9ce01fbebef03372ebffc11765cb634e9b7ed94665cdf34094d20aeb09c1178ed157b5a9c69dd7630239f",
	},
	{
		"aes-xts-plain64", 4096, true, 16,
		"2491d20aa9c75ca641adb786ecb072740b5e71663f0b5521d72cc5bc4ac8803f73523d9992dc32eee979a2a1339d9bd83d73270dad4849a98b748050609244ce",
		"8b3f139cf0fdee83570bea981fd4189f34beb2819057278f4771c40009c829cbe4d8a419534c47887ff0e2a6641ca94c",
		"1ed8e82944b390df39135a289a4ed0ea548375dcc681d9506c2ad6c64b63bfbb38b59983a0ce5333f0a4aede1f81fbbc",
	},
	{
		"aes-xts-plain64", 512, false, 104,
		"2491d20aa9c75ca641adb786ecb072740b5e71663f0b5521d72cc5bc4ac8803f",
		"13175d9f0c963a3e867e11e3324882599a966644d8f950b3dd33cbd491872ff2cc4f1458c093a123aaa1726a8f84736e",
		"1b416c3dbbbe86da3fe4ee07e4806eb5aae62ca5b24377b7511466b97f5c95aaf7a0aa3e678ce5af05fcd4cdd6b344f4",
	},
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDMCryptVectors(t *testing.T) {
	for _, v := range dmcryptVectors {
		spec, err := Parse(v.cipher)
		if err != nil {
			t.Fatal(err)
		}
		c, err := spec.New(unhex(t, v.key), Options{SectorSize: v.sectorSize, IVLargeSectors: v.ivLarge})
		if err != nil {
			t.Fatal(err)
		}
		want, b := unhex(t, v.plaintext), make([]byte, v.sectorSize)
		copy(b, unhex(t, v.ciphertext))
		c.Decrypt(b, b, v.ivSector)
		if !bytes.Equal(b[:len(want)], want) {
			t.Errorf("%s, %d bytes, IV %d: %x, not %x", v.cipher, v.sectorSize, v.ivSector, b[:len(want)], want)
		}
	}
}

// The whole payload of every volume that dm-crypt wrote with a cipher of this
// package, by the line of its device-mapper table.
func TestDMCryptFixtures(t *testing.T) {
	dir := testenv.Data(t, "fixtures")
	raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Fixtures []struct {
			Name      string
			File      struct{ File string }
			Table     []string `json:"dm_table"`
			VolumeKey string   `json:"volume_key_hex"`
			Args      []string `json:"open_args"`
			SHA256    string   `json:"payload_sha256"`
			Len       int      `json:"payload_len"`
		}
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range manifest.Fixtures {
		key := unhex(t, f.VolumeKey)
		keyFile := len(f.Args) > 1 && f.Args[len(f.Args)-1] == "keys/key-a.bin"
		if len(f.Table) != 1 || len(key) == 0 && !keyFile {
			continue
		}
		// x: START LENGTH crypt CIPHER KEY IV_OFFSET DEVICE OFFSET [COUNT OPTION...]
		row := strings.Fields(f.Table[0])
		spec, err := Parse(row[4])
		if err != nil || row[3] != "crypt" {
			continue
		}
		if keyFile {
			all, err := os.ReadFile(filepath.Join(dir, "keys", "key-a.bin"))
			if err != nil {
				t.Fatal(err)
			}
			key = all[:len(row[5])/2]
		}
		o, ok := tableOptions(row)
		if !ok {
			continue
		}
		n++
		t.Run(f.Name, func(t *testing.T) {
			c, err := spec.New(key, o)
			if err != nil {
				t.Fatal(err)
			}
			image := testenv.Unxz(t, filepath.Join(dir, f.File.File))
			data := image[512*number(t, row[8]):][:f.Len]
			c.Decrypt(data, data, uint64(number(t, row[6])))
			if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.SHA256 {
				t.Errorf("plaintext has SHA-256 %x, not %s", sum, f.SHA256)
			}
		})
	}
	if n < 62 {
		t.Errorf("only %d fixtures", n)
	}
}

// tableOptions reads the optional parameters; false if the segment has
// integrity.
func tableOptions(row []string) (Options, bool) {
	o := Options{SectorSize: 512}
	for _, w := range row[9:] {
		if size, ok := strings.CutPrefix(w, "sector_size:"); ok {
			o.SectorSize, _ = strconv.Atoi(size)
		}
		if w == "iv_large_sectors" {
			o.IVLargeSectors = true
		}
		if strings.HasPrefix(w, "integrity:") {
			return o, false
		}
	}
	return o, true
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
