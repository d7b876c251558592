//go:build unix

package volume

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// allocated is how many bytes a file takes on its file system.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// A sparse image is encrypted without reading its holes, into a file without
// any, and decrypted into one that takes about what the source took. The
// full measure of 8 GiB with 64 MiB of data is for the long run.
func TestSparse(t *testing.T) {
	size, data := int64(96*mib), int64(mib)
	if os.Getenv("XTSDISK_LONG") != "" {
		size, data = 8<<30, 64*mib
	}
	src := sparseFile(t, size, data)
	if allocated(t, src) > 2*data {
		t.Skip("the file system of the temporary folder has no holes")
	}
	volume, plain := src+".volume", src+".plain"
	report, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: volume, Luks: cheap()})
	if err != nil {
		t.Fatal(err)
	}
	if report.Bytes != size || report.HoleBytes < size-2*data || report.ZeroBytes != 0 {
		t.Errorf("encrypt: %+v", report)
	}
	if got := allocated(t, volume); got < size {
		t.Errorf("the volume takes %d bytes of %d: holes show what is empty", got, size)
	}
	report, err = Decrypt(t.Context(), DecryptOptions{Src: volume, Dst: plain, Open: unlockIt()})
	if err != nil {
		t.Fatal(err)
	}
	if report.Bytes != size || report.ZeroBytes < size-2*data || report.HoleBytes != 0 {
		t.Errorf("decrypt: %+v", report)
	}
	if len(report.Warnings) > 0 {
		t.Errorf("warnings of a volume without holes: %q", report.Warnings)
	}
	if got := allocated(t, plain); got > data+data/4 {
		t.Errorf("the plaintext takes %d bytes, its source %d", got, allocated(t, src))
	}
	if size < 1<<30 {
		equal(t, "decrypted", read(t, plain), read(t, src))
	}
}

// A hole in a volume's file stands for no zeros of plaintext.
func TestHoleOfCiphertext(t *testing.T) {
	path := write(t, "volume", nil)
	if err := os.Truncate(path, 4*mib); err != nil {
		t.Fatal(err)
	}
	report, err := Decrypt(t.Context(), DecryptOptions{Src: path, Dst: path + ".plain", Open: OpenOptions{Plain: plainOf(512)}})
	if err != nil {
		t.Fatal(err)
	}
	if report.HoleBytes != 0 || report.ZeroBytes != 0 {
		t.Errorf("%+v", report)
	}
	if allocated(t, path) == 0 && (len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "4194304 bytes of it were never written")) {
		t.Errorf("warnings %q", report.Warnings)
	}
	b := read(t, path+".plain")
	if string(b[:512]) == string(make([]byte, 512)) || string(b[:512]) == string(b[512:1024]) {
		t.Error("a hole decrypts to zeros, or to the same in every sector")
	}
}
