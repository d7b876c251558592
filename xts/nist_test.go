package xts_test

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/xts"
)

// nistVector is one case of NIST's CAVS files XTSGenAES128 and XTSGenAES256.
type nistVector struct {
	section string // ENCRYPT or DECRYPT
	count   string
	bits    int
	key     []byte
	tweak   [16]byte
	plain   []byte
	ct      []byte
}

// readNIST reads one file: blank lines end a case; "i" is a tweak of 16 bytes,
// "DataUnitSeqNumber" a number for it.
func readNIST(t *testing.T, path string) (vectors []nistVector) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var v nistVector
	flush := func() {
		if v.count != "" {
			vectors = append(vectors, v)
		}
		v = nistVector{section: v.section}
	}
	for lines := bufio.NewScanner(z); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
			break
		}
		line := strings.TrimSpace(lines.Text())
		name, value, ok := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "["):
			flush()
			v.section = strings.Trim(line, "[]")
		case ok:
			v.set(t, name, value)
		case line == "":
			flush()
		case !strings.HasPrefix(line, "#"):
			t.Fatalf("%s: line %q", path, line)
		}
	}
	flush()
	return vectors
}

func (v *nistVector) set(t *testing.T, name, value string) {
	t.Helper()
	fromHex := func() []byte {
		b, err := hex.DecodeString(value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return b
	}
	fromDecimal := func() int {
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	switch name {
	case "COUNT":
		v.count = value
	case "DataUnitLen":
		v.bits = fromDecimal()
	case "Key":
		v.key = fromHex()
	case "i":
		v.tweak = [16]byte(fromHex())
	case "DataUnitSeqNumber":
		v.tweak = xts.Plain64.Tweak(uint64(fromDecimal()))
	case "PT":
		v.plain = fromHex()
	case "CT":
		v.ct = fromHex()
	default:
		t.Fatalf("field %q", name)
	}
}

// NIST's XTSGenAES vectors in both forms. Some have lengths in bits that are
// not whole bytes (130, 140, 250); storage has none, this package takes bytes,
// and those vectors are counted and not run.
func TestNIST(t *testing.T) {
	for _, f := range []struct {
		name            string
		run, fractional int
	}{
		{"tweak-128hexstr-XTSGenAES128.rsp.gz", 800, 200},
		{"tweak-128hexstr-XTSGenAES256.rsp.gz", 600, 400},
		{"tweak-dataunitseqno-XTSGenAES128.rsp.gz", 800, 200},
		{"tweak-dataunitseqno-XTSGenAES256.rsp.gz", 600, 400},
	} {
		t.Run(f.name, func(t *testing.T) {
			vectors := readNIST(t, testenv.Data(t, filepath.Join("vectors", "nist", "xts", f.name)))
			t.Logf("%d vectors run; %d of lengths that are not whole bytes not run", f.run, f.fractional)
			onEachLevel(t, func(t *testing.T, level string) {
				run, fractional, encrypts := 0, 0, 0
				for _, v := range vectors {
					if v.bits%8 != 0 {
						fractional++
						continue
					}
					if v.section == "ENCRYPT" {
						encrypts++
					}
					if len(v.plain)*8 != v.bits {
						t.Fatalf("%s %s: %d bytes for %d bits", v.section, v.count, len(v.plain), v.bits)
					}
					bothWays(t, newCipher(t, level, v.key), v.section+" "+v.count, v.tweak, v.plain, v.ct)
					run++
				}
				if run != f.run || fractional != f.fractional || encrypts*2 != run {
					t.Fatalf("%d run (%d to encrypt), %d of fractional bytes", run, encrypts, fractional)
				}
			})
		})
	}
}
