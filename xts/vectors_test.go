package xts_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/xts"
)

// unhex lets encoding/json read hexadecimal.
type unhex []byte

func (u *unhex) UnmarshalText(text []byte) (err error) {
	*u, err = hex.DecodeString(string(text))
	return err
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// bothWays holds one data unit to a known answer in both directions, in place
// and not.
func bothWays(t *testing.T, c *xts.Cipher, name string, tweak [16]byte, plain, ct []byte) {
	t.Helper()
	got := make([]byte, len(plain))
	c.Encrypt(got, plain, &tweak)
	differ(t, name+": encryption", got, ct)
	c.Decrypt(got, got, &tweak)
	differ(t, name+": decryption in place", got, plain)
	c.Encrypt(got, got, &tweak)
	differ(t, name+": encryption in place", got, ct)
	back := make([]byte, len(plain))
	c.Decrypt(back, ct, &tweak)
	differ(t, name+": decryption", back, plain)
}

// All vectors of IEEE 1619-2018, Annex B; 15 to 18 steal, 1 has equal halves.
func TestIEEE1619(t *testing.T) {
	var file struct {
		Vectors []struct {
			Vector                            int
			Key, Tweak, Plaintext, Ciphertext unhex
		}
	}
	readJSON(t, "testdata/ieee1619.json", &file)
	if len(file.Vectors) != 19 {
		t.Fatalf("%d vectors, Annex B has 19", len(file.Vectors))
	}
	onEachLevel(t, func(t *testing.T, level string) {
		for _, v := range file.Vectors {
			var opts []xts.Option
			if v.Vector == 1 {
				opts = append(opts, xts.AllowEqualHalves())
			}
			c := newCipher(t, level, v.Key, opts...)
			bothWays(t, c, "vector "+strconv.Itoa(v.Vector), [16]byte(v.Tweak), v.Plaintext, v.Ciphertext)
		}
	})
}

// Data units and runs encrypted by OpenSSL's libcrypto; how they were made is
// in testdata/make_vectors.py.
type opensslVectors struct {
	Units []struct {
		Name         string
		Bits, Length int
		SHA256       unhex
	}
	Runs []struct {
		Name                string
		Bits                int
		Kind                string
		SectorSize, Sectors int
		First, Step, Offset string
		SHA256              unhex
	}
}

func TestOpenSSLUnits(t *testing.T) {
	var file opensslVectors
	readJSON(t, "testdata/openssl.json", &file)
	if len(file.Units) < 100 {
		t.Fatalf("only %d units", len(file.Units))
	}
	onEachLevel(t, func(t *testing.T, level string) {
		for _, v := range file.Units {
			c := newCipher(t, level, stream(v.Name+" key", v.Bits/4))
			tweak, plain := [16]byte(stream(v.Name+" tweak", 16)), stream(v.Name+" data", v.Length)
			ct := make([]byte, v.Length)
			c.Encrypt(ct, plain, &tweak)
			sum := sha256.Sum256(ct)
			differ(t, v.Name+": SHA-256 of the ciphertext", sum[:], v.SHA256)
			c.Decrypt(ct, ct, &tweak)
			differ(t, v.Name+": decryption", ct, plain)
		}
	})
}

var kindNames = map[string]xts.TweakKind{"plain": xts.Plain, "plain64": xts.Plain64, "plain64be": xts.Plain64BE}

func TestOpenSSLRuns(t *testing.T) {
	var file opensslVectors
	readJSON(t, "testdata/openssl.json", &file)
	if len(file.Runs) < 30 {
		t.Fatalf("only %d runs", len(file.Runs))
	}
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	onEachLevel(t, func(t *testing.T, level string) {
		for _, v := range file.Runs {
			kind, ok := kindNames[v.Kind]
			if !ok || kind.String() != v.Kind {
				t.Fatalf("%s: kind %v", v.Name, kind)
			}
			run := xts.Run{SectorSize: v.SectorSize, Kind: kind,
				First: number(v.First), Step: number(v.Step), Offset: number(v.Offset)}
			c := newCipher(t, level, stream(v.Name+" key", v.Bits/4))
			plain := stream(v.Name+" data", v.SectorSize*v.Sectors)
			ct := make([]byte, len(plain))
			c.EncryptRun(ct, plain, run)
			sum := sha256.Sum256(ct)
			differ(t, v.Name+": SHA-256 of the ciphertext", sum[:], v.SHA256)
			c.DecryptRun(ct, ct, run)
			differ(t, v.Name+": decryption", ct, plain)
		}
	})
}

// All 123 XTS vectors of Wycheproof, with ciphertext stealing, and tweaks
// shorter than 16 bytes, which end in zeros.
func TestWycheproof(t *testing.T) {
	path := testenv.Data(t, filepath.Join("vectors", "wycheproof", "aes_xts_test.json"))
	var file struct {
		NumberOfTests int
		TestGroups    []struct {
			Tests []struct {
				TCID             int
				Key, IV, Msg, CT unhex
				Result           string
			}
		}
	}
	readJSON(t, path, &file)
	onEachLevel(t, func(t *testing.T, level string) {
		ran := 0
		for _, g := range file.TestGroups {
			for _, v := range g.Tests {
				if v.Result != "valid" || len(v.IV) > 16 {
					t.Fatalf("test %d: result %q, tweak of %d bytes: not known to this test", v.TCID, v.Result, len(v.IV))
				}
				var tweak [16]byte
				copy(tweak[:], v.IV)
				bothWays(t, newCipher(t, level, v.Key), "test "+strconv.Itoa(v.TCID), tweak, v.Msg, v.CT)
				ran++
			}
		}
		if ran != 123 || file.NumberOfTests != 123 {
			t.Fatalf("%d vectors ran, the file announces %d, 123 were expected", ran, file.NumberOfTests)
		}
	})
}
