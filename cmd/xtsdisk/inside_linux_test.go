package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// fdiskImage makes a disk of 24 MiB in dir: a GPT with partitions 1 and 2, or
// an MBR with the logical partition 5. The last one has the 6 MiB from 8 MiB on.
func fdiskImage(t *testing.T, dir, kind string, sector int) (number string) {
	t.Helper()
	path := filepath.Join(dir, "disk")
	write(t, path, make([]byte, 24<<20))
	mib := (1 << 20) / sector
	number = "2"
	lines := fmt.Sprintf("g n 1 %d %d n 2 %d %d w ", 2*mib, 4*mib-1, 8*mib, 14*mib-1)
	if kind == "dos" {
		number = "5"
		lines = fmt.Sprintf("o n e 1 %d %d n %d %d w ", 4*mib, 20*mib-1, 8*mib, 14*mib-1)
		lines = strings.Replace(lines, "n "+fmt.Sprint(8*mib), "n l "+fmt.Sprint(8*mib), 1)
	}
	cmd := exec.Command(testenv.Tool(t, "fdisk"), "-b", fmt.Sprint(sector), path)
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(lines, " ", "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("fdisk: %v: %s", err, out)
	}
	return number
}

// A volume in a partition is found by every verb, with tables of both kinds and
// sector sizes made by fdisk, and by its offset. Outside of it nothing changes,
// whatever is done.
func TestVolumeInPartition(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"gpt", "dos"} {
		for _, sector := range []int{512, 4096} {
			t.Run(fmt.Sprint(kind, sector), func(t *testing.T) {
				t.Parallel()
				testInPartition(t, kind, sector)
			})
		}
	}
}

func testInPartition(t *testing.T, kind string, sector int) {
	const at, size = 8 << 20, 6 << 20
	dir := t.TempDir()
	number := fdiskImage(t, dir, kind, sector)
	data := image(1 << 20)
	write(t, filepath.Join(dir, "key"), []byte("secret"))
	write(t, filepath.Join(dir, "other"), []byte("another"))
	write(t, filepath.Join(dir, "disk.img"), data)
	good := func(args ...string) string {
		t.Helper()
		code, out, msg := try(t, dir, args...)
		if code != 0 {
			t.Fatalf("%q: exit code %d: %s", args, code, msg)
		}
		return out
	}
	good(with(fast, "encrypt", "--key-file", "key", "--luks2-keyslots-size", "768K", "--offset", "1M", "disk.img", "vol")...)
	path := filepath.Join(dir, "disk")
	disk := read(t, path)
	copy(disk[at:], read(t, filepath.Join(dir, "vol")))
	write(t, path, disk)

	for _, where := range [][]string{{"--partition", number}, {"--at", "8M"}} {
		verb := func(name string, args ...string) []string {
			return append(append(strings.Fields(name), where...), args...)
		}
		if out := good(verb("cat", "--range", "0:1M", "--key-file", "key", "disk")...); out != string(data) {
			t.Errorf("cat %q: other data", where)
		}
		good(verb("decrypt", "--key-file", "key", "--force", "disk", "out.img")...)
		out := read(t, filepath.Join(dir, "out.img"))
		if !bytes.HasPrefix(out, data) || where[0] == "--partition" && len(out) != size-1<<20 {
			t.Errorf("decrypt %q: %d bytes", where, len(out))
		}
		uuid := strings.Fields(good("identify", "vol"))[3]
		for _, name := range []string{"dump", "identify", "doctor --key-file key", "key list --json", "token list --json", "key test --key-file key"} {
			if out := good(verb(name, "disk")...); (name == "dump" || name == "identify") && !strings.Contains(out, strings.TrimSuffix(uuid, ";")) {
				t.Errorf("%s %q: %s", name, where, out)
			}
		}
	}
	if now := read(t, path); !bytes.Equal(now, disk) {
		t.Fatal("reading changed the disk")
	}
	good(with(fast, "key", "add", "--partition", number, "--key-file", "key", "--new-keyfile", "other", "disk")...)
	good("key", "test", "--partition", number, "--key-file", "other", "disk")
	good("config", "--partition", number, "--label", "inside", "disk")
	now := read(t, path)
	if !bytes.Equal(now[:at], disk[:at]) || !bytes.Equal(now[at+size:], disk[at+size:]) || bytes.Equal(now, disk) {
		t.Error("key add changed what is outside of the partition, or nothing")
	}
	// The lock is that of the file.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if code, _, msg := try(t, dir, "config", "--partition", number, "--label", "x", "disk"); code != 6 || !strings.Contains(msg, "in use") {
		t.Errorf("config on a disk that is open for writing: exit code %d: %s", code, msg)
	}
	// Which partitions there are is said where one is not.
	code, _, msg := try(t, dir, "dump", "--partition", "9", "disk")
	if want := fmt.Sprintf("%s (%d bytes at byte %d, luks2)", number, size, at); code != 2 || !strings.Contains(msg, want) {
		t.Errorf("exit code %d, and not %q in: %s", code, want, msg)
	}
	if code, out, _ := try(t, dir, "identify", "disk"); code != 10 || !strings.Contains(out, "partition "+number+": 6 MiB at byte 8388608: luks2; --partition "+number+" opens it") {
		t.Errorf("identify: %d, %s", code, out)
	}
}
