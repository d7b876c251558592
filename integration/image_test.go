//go:build linux

package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// Images with real filesystems come back bit for bit, and their checkers find
// nothing wrong.
func TestFilesystemRoundTrips(t *testing.T) {
	checkers := map[string][]string{
		"ext4": {"e2fsck", "-fn"},
		"xfs":  {"xfs_repair", "-n"},
		"xfs5": {"xfs_repair", "-n"},
		"vfat": {"fsck.vfat", "-n"},
	}
	for name, checker := range checkers {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			image := testenv.Unxz(t, testenv.Data(t, "peer-images/img_fs_"+name+".img.xz"))
			if len(image)%512 != 0 {
				t.Fatalf("image of %d bytes", len(image))
			}
			b.write("plain", image)
			b.xtsdisk(append([]string{"encrypt", "plain", "volume"}, cheapKDF...)...)
			if bytes.Contains(b.read("volume"), image[len(image)/2:][:64]) && len(bytes.Trim(image[len(image)/2:][:64], "\x00")) > 0 {
				t.Error("plaintext shows in the volume")
			}
			b.xtsdisk("decrypt", "volume", "back")
			if !bytes.Equal(b.read("back"), image) {
				t.Fatal(firstDifference(b.read("back"), image))
			}
			before := b.check(checker, "plain")
			if after := b.check(checker, "back"); after != before {
				t.Errorf("%s exits with %d before and %d after", checker[0], before, after)
			}
		})
	}
}

// check gives the exit code of a filesystem checker, which need not be 0 for
// images that are old or small on purpose.
func (b *bench) check(checker []string, image string) int {
	b.tb.Helper()
	cmd := exec.Command(testenv.Tool(b.tb, checker[0]), append(checker[1:], b.path(image))...)
	err := cmd.Run()
	if cmd.ProcessState == nil {
		b.tb.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// Each level decrypts what each other one encrypted.
func TestLevelsAgreeOnAnImage(t *testing.T) {
	b := newBench(t)
	plain := random(3<<20+512, 3)
	b.write("plain", plain)
	levels := availableLevels(b)
	for _, sector := range []string{"512", "4096"} {
		if sector == "4096" {
			plain = plain[:3<<20]
			b.write("plain", plain)
		}
		for _, from := range levels {
			volume := "volume-" + from + sector
			b.xtsdisk(append([]string{"--level", from, "encrypt", "plain", volume, "--sector-size", sector}, cheapKDF...)...)
			for _, to := range levels {
				got := b.xtsdisk("--level", to, "cat", volume)
				if !bytes.Equal(got, plain) {
					t.Errorf("%s-byte sectors, encrypted by %s, read by %s: %s", sector, from, to, firstDifference(got, plain))
				}
			}
		}
	}
}

// A sparse image keeps its size and its sparseness through both directions.
func TestSparseImage(t *testing.T) {
	b := newBench(t)
	const size, data = int64(8) << 30, 64 << 20
	b.write("sparse", nil)
	if err := os.Truncate(b.path("sparse"), size); err != nil {
		t.Fatal(err)
	}
	content := random(data, 4)
	for i, at := range []int64{0, 1 << 30, 5<<30 + 4096, size - data/4} {
		b.writeAt("sparse", content[i*data/4:][:data/4], at)
	}
	// Through a pipe, so that the 8 GiB of ciphertext never lie on the disk.
	pipeline := program + ` encrypt sparse - --passphrase-file pass ` + strings.Join(cheapKDF, " ") +
		` | ` + program + ` decrypt - back --passphrase-file pass`
	b.run("bash", "-c", "set -o pipefail; "+pipeline)

	var st syscall.Stat_t
	if err := syscall.Stat(b.path("back"), &st); err != nil {
		t.Fatal(err)
	}
	if st.Size != size {
		t.Errorf("size %d, want %d", st.Size, size)
	}
	if used := st.Blocks * 512; used > data+data/8 || used < data {
		t.Errorf("%d MiB on the disk for %d MiB of data", used>>20, data>>20)
	}
	b.run("cmp", "sparse", "back")
}

// A program killed at any moment leaves nothing that looks finished, and the
// source as it was.
func TestKilledWhileEncrypting(t *testing.T) {
	b := newBench(t)
	plain := random(64<<20, 5)
	b.write("plain", plain)
	before := sum(plain)
	for i := range 12 {
		cmd := exec.Command(program, append([]string{"encrypt", "plain", "volume", "--passphrase-file", b.pass}, cheapKDF...)...)
		cmd.Dir = b.dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i*i) * time.Millisecond)
		finished := cmd.Process.Kill() != nil
		if err := cmd.Wait(); err == nil {
			finished = true
		}
		_, err := os.Stat(b.path("volume"))
		if err == nil {
			// The rename may just have happened: then it must be whole.
			if got := b.xtsdisk("cat", "volume"); !bytes.Equal(got, plain) {
				t.Errorf("kill %d: a volume that is not whole has the final name", i)
			}
			os.Remove(b.path("volume"))
		} else if finished {
			t.Errorf("run %d finished and left no volume", i)
		}
	}
	if sum(b.read("plain")) != before {
		t.Error("the source was changed")
	}
	left, err := filepath.Glob(b.path("*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if base := filepath.Base(name); base != "plain" && base != "pass" && base[0] != '.' {
			t.Errorf("left behind under a name that does not begin with a dot: %s", base)
		}
	}
}
