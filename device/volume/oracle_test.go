package volume

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// What cryptsetup makes of our volumes: it accepts the header, the passphrase,
// and its own decryption gives the source, byte for byte.
func TestCryptsetupDecrypts(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	for _, c := range []struct {
		cipher              string
		keySize, sectorSize int
	}{
		{"aes-xts-plain64", 32, 512},
		{"aes-xts-plain64", 32, 4096},
		{"aes-xts-plain64", 64, 512},
		{"aes-xts-plain", 64, 4096},
	} {
		t.Run(fmt.Sprintf("%s, key %d, sector %d", c.cipher, c.keySize, c.sectorSize), func(t *testing.T) {
			t.Parallel() // cryptsetup mostly waits
			data := noise(1, 3*mib)
			src := write(t, "src", data)
			l := cheap()
			l.KeySize, l.SectorSize, l.Cipher = c.keySize, c.sectorSize, c.cipher
			l.KeyslotsSize, l.DataOffset = 0, 0 // reencryption wants room in the keyslots area
			volume := src + ".volume"
			if _, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: volume, Luks: l}); err != nil {
				t.Fatal(err)
			}
			cryptsetupDecrypt(t, cryptsetup, volume)
			equal(t, "by cryptsetup", read(t, volume)[:len(data)], data)
		})
	}
}

// cryptsetupDecrypt runs cryptsetup's checks on the volume and then has it
// decrypted in place: the data moves to the beginning of the file.
func cryptsetupDecrypt(t *testing.T, cryptsetup, volume string) {
	t.Helper()
	key := write(t, "key", passphrase)
	header := filepath.Join(t.TempDir(), "header")
	for _, args := range [][]string{
		{"luksDump", volume},
		{"open", "--test-passphrase", "--key-file", key, volume},
		{"reencrypt", "--decrypt", "--force-offline-reencrypt", "-q", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--header", header, "--key-file", key, volume},
	} {
		out, err := exec.Command(cryptsetup, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("cryptsetup %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
}

// opensslXTS decrypts one sector by libcrypto, without any code of ours.
const opensslXTS = `
import ctypes, ctypes.util, sys
c = ctypes.CDLL(ctypes.util.find_library("crypto"))
c.EVP_CIPHER_CTX_new.restype = c.EVP_aes_256_xts.restype = c.EVP_aes_128_xts.restype = ctypes.c_void_p
key, iv = bytes.fromhex(sys.argv[1]), int(sys.argv[2]).to_bytes(16, "little")
data = sys.stdin.buffer.read()
ctx = ctypes.c_void_p(c.EVP_CIPHER_CTX_new())
cipher = ctypes.c_void_p(c.EVP_aes_256_xts() if len(key) == 64 else c.EVP_aes_128_xts())
assert c.EVP_DecryptInit_ex(ctx, cipher, None, key, iv) == 1
out, n = ctypes.create_string_buffer(len(data)), ctypes.c_int()
assert c.EVP_DecryptUpdate(ctx, out, ctypes.byref(n), data, len(data)) == 1 and n.value == len(data)
sys.stdout.buffer.write(out.raw)
`

// Sampled sectors of a volume larger than 2 TiB, in a sparse file, are what
// libcrypto makes of the file's bytes with the exported key: the first, some
// around IV number 2^32, and the last.
func TestOpenSSLDecryptsSectors(t *testing.T) {
	python := testenv.Tool(t, "python3")
	probe := exec.Command(python, "-c", opensslXTS, strings.Repeat("00", 31)+"01"+strings.Repeat("00", 32), "0")
	probe.Stdin = strings.NewReader(strings.Repeat("x", 512))
	testenv.Feature(t, probe.Run() == nil, "libcrypto")
	const size = 3 << 40
	for _, sectorSize := range []int64{512, 4096} {
		path := filepath.Join(t.TempDir(), "volume")
		l := *cheap()
		l.KeySize, l.KeyslotsSize, l.DataOffset, l.SectorSize = 64, 0, mib, int(sectorSize)
		if _, _, err := Format(t.Context(), FormatOptions{Path: path, Create: size, Luks: l}); err != nil {
			t.Fatal(err)
		}
		o := unlockIt()
		o.Writable = true
		v, err := Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		u, err := Unlock(t.Context(), path, unlockIt())
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, off := range []int64{0, sectorSize, 1<<41 - sectorSize, 1 << 41, 1<<41 + 7*sectorSize, v.Size() - sectorSize} {
			want := noise(uint64(i), int(sectorSize))
			if _, err := v.WriteAt(want, off); err != nil {
				t.Fatal(err)
			}
			sector := make([]byte, sectorSize)
			if _, err := f.ReadAt(sector, mib+off); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(python, "-c", opensslXTS, fmt.Sprintf("%x", u.Key()), fmt.Sprint(off/512))
			cmd.Stdin = strings.NewReader(string(sector))
			got, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			equal(t, fmt.Sprintf("sector size %d, byte %d", sectorSize, off), got, want)
		}
		f.Close()
		u.Close()
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}
