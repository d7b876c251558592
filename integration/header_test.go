//go:build linux

package integration

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// headerKinds are volumes whose headers have different sizes and places.
var headerKinds = map[string][]string{
	"luks2":           {"--type", "luks2", "--sector-size", "512"},
	"luks2 small":     {"--type", "luks2", "--luks2-metadata-size", "64k", "--luks2-keyslots-size", "1M", "--key-size", "256"},
	"luks2 offset":    {"--type", "luks2", "--offset", "16384"},
	"luks1":           {"--type", "luks1"},
	"luks1 small key": {"--type", "luks1", "--key-size", "256", "--offset", "8192"},
}

// made is a bench with a volume of a kind, made by cryptsetup or here.
func made(t *testing.T, cryptsetup, kind string, ours bool) *bench {
	b := newBench(t)
	b.write("volume", make([]byte, 20<<20))
	args := append(slices.Clone(headerKinds[kind]), cheapKDF...)
	if ours {
		b.xtsdisk(append([]string{"format", "volume", "--force"}, args...)...)
	} else {
		b.run(cryptsetup, append([]string{"luksFormat", "-q", "volume", b.pass}, args...)...)
	}
	b.write("two", []byte("second"))
	b.run(program, append([]string{"key", "add", "--key-file", "pass", "--new-keyfile", "two", "volume"}, cheapKDF...)...)
	return b
}

// eachKind runs f for volumes of every kind, made by either program.
func eachKind(t *testing.T, f func(t *testing.T, b *bench, cryptsetup string)) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	for kind := range headerKinds {
		for who, ours := range map[string]bool{"ours": true, "theirs": false} {
			t.Run(kind+" "+who, func(t *testing.T) { f(t, made(t, cryptsetup, kind, ours), cryptsetup) })
		}
	}
}

// A backup has the bytes of cryptsetup's, and each program restores the
// other's.
func TestHeaderBackupAsCryptsetup(t *testing.T) {
	eachKind(t, func(t *testing.T, b *bench, cryptsetup string) {
		b.run(program, "header", "backup", "volume", "ours")
		b.run(cryptsetup, "luksHeaderBackup", "volume", "--header-backup-file", "theirs")
		if ours, theirs := b.read("ours"), b.read("theirs"); !bytes.Equal(ours, theirs) {
			t.Errorf("%d bytes differ from cryptsetup's %d", len(ours), len(theirs))
		}
		if info, err := os.Stat(b.path("ours")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		before := b.read("volume")
		change := func() {
			b.run(program, append([]string{"key", "change", "--key-file", "two", "--new-keyfile", "pass", "volume"}, cheapKDF...)...)
			b.opensInBoth(cryptsetup, "two", false)
		}
		change()
		b.run(cryptsetup, "luksHeaderRestore", "-q", "volume", "--header-backup-file", "ours")
		b.opensInBoth(cryptsetup, "two", true)
		if !bytes.Equal(before, b.read("volume")) {
			t.Error("cryptsetup restores something else")
		}
		change()
		b.run(program, "header", "restore", "volume", "--from", "theirs")
		b.opensInBoth(cryptsetup, "two", true)
		if !bytes.Equal(before, b.read("volume")) {
			t.Error("something else is restored")
		}
	})
}

// Lines of a luksDump that a conversion may not change.
func keptLines(dump []byte) []byte {
	var kept [][]byte
	for _, line := range bytes.Split(dump, []byte("\n")) {
		if bytes.Contains(line, []byte("UUID")) || bytes.Contains(line, []byte("Salt")) || bytes.Contains(line, []byte("terations")) {
			kept = append(kept, bytes.Join(bytes.Fields(line), []byte(" ")))
		}
	}
	return bytes.Join(kept, []byte("\n"))
}

// What is converted here is what cryptsetup reads and converts back, and the
// other way round, to the same header as before.
func TestConvertAsCryptsetup(t *testing.T) {
	eachKind(t, func(t *testing.T, b *bench, cryptsetup string) {
		isLUKS1 := func() bool { return b.code(cryptsetup, "isLuks", "--type", "luks1", "volume") == 0 }
		first := isLUKS1()
		kinds := map[bool]string{true: "luks1", false: "luks2"}
		data := b.xtsdisk("cat", "volume")
		before := keptLines(b.run(cryptsetup, "luksDump", "volume"))
		check := func(who string, luks1 bool) {
			t.Helper()
			if isLUKS1() != luks1 {
				t.Errorf("%s: it is not %s", who, kinds[luks1])
			}
			b.opensInBoth(cryptsetup, "pass", true)
			b.opensInBoth(cryptsetup, "two", true)
			if !bytes.Equal(data, b.xtsdisk("cat", "volume")) {
				t.Errorf("%s: the data has changed", who)
			}
			if b.code(program, "header", "repair", "volume") != 0 || b.code(cryptsetup, "repair", "-q", "volume") != 0 {
				t.Errorf("%s: it needs repair", who)
			}
		}
		if b.code(cryptsetup, "convert", "-q", "volume", "--type", kinds[!first]) != 0 {
			if code := b.code(program, "header", "convert", "volume", "--type", kinds[!first]); code == 0 {
				check("cryptsetup would not convert it, and it", !first)
			}
			return
		}
		check("cryptsetup there", !first)
		b.run(program, "header", "convert", "volume", "--type", kinds[first])
		check("back", first)
		if after := keptLines(b.run(cryptsetup, "luksDump", "volume")); !bytes.Equal(before, after) {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		b.run(program, "header", "convert", "volume", "--type", kinds[!first])
		check("there", !first)
		b.run(cryptsetup, "convert", "-q", "volume", "--type", kinds[first])
		check("cryptsetup back", first)
		kept, err := filepath.Glob(b.path("volume.header-*.backup"))
		if err != nil || len(kept) < 1 {
			t.Error("nothing was kept of the old headers")
		}
	})
}

// An erased volume is one without keyslots to cryptsetup too, as its own is
// here; and a repaired one is whole.
func TestEraseAndRepairAsCryptsetup(t *testing.T) {
	eachKind(t, func(t *testing.T, b *bench, cryptsetup string) {
		b.run(program, "header", "backup", "volume", "backup")
		for _, erase := range [][]string{{program, "header", "erase", "--force", "volume"}, {cryptsetup, "erase", "-q", "volume"}} {
			b.run(erase[0], erase[1:]...)
			b.run(cryptsetup, "luksDump", "volume")
			b.run(program, "key", "list", "volume")
			if code := b.code(cryptsetup, "open", "--test-passphrase", "--key-file", "pass", "volume"); code == 0 {
				t.Error("cryptsetup opens it")
			}
			if code := b.code(program, "key", "test", "--key-file", "pass", "volume"); code != 3 {
				t.Errorf("exit code %d", code)
			}
			b.run(cryptsetup, "luksHeaderRestore", "-q", "volume", "--header-backup-file", "backup")
			b.opensInBoth(cryptsetup, "pass", true)
		}
		image := b.read("volume")
		if image[7] == 2 { // LUKS2
			clear(image[4096:5000])
			b.write("volume", image)
			b.run(program, "header", "repair", "volume")
			if again := b.code(program, "header", "repair", "-q", "volume", "--json"); again != 0 {
				t.Errorf("exit code %d", again)
			}
			b.opensInBoth(cryptsetup, "two", true)
		}
		b.run(program, "header", "wipe", "--force", "volume")
		if code := b.code(cryptsetup, "isLuks", "volume"); code == 0 {
			t.Error("cryptsetup still finds a header")
		}
	})
}

// The program is killed at a random moment of a restore, a conversion or an
// erase. The volume then opens, or does once it has been repaired from the file
// with what was there; an erase that was killed can be done again.
func TestKilledHeader(t *testing.T) {
	for _, kind := range luksTypes {
		t.Run(kind, func(t *testing.T) { killHeader(t, kind, kills()/len(luksTypes)) })
	}
}

func killHeader(t *testing.T, kind string, kills int) {
	b := newBench(t)
	b.xtsdisk(append([]string{"format", "fresh", "--create", "20M", "--type", kind, "--sector-size", "512"}, cheapKDF...)...)
	b.run(program, "header", "backup", "fresh", "backup")
	other := map[string]string{"luks1": "luks2", "luks2": "luks1"}[kind]
	jobs := [][]string{
		{"header", "restore", "volume", "--from", "backup", "--keep", "kept"},
		{"header", "convert", "volume", "--type", other, "--keep", "kept"},
		{"header", "erase", "--force", "volume"},
	}
	opens := func() bool { return b.code(program, "key", "test", "-q", "--key-file", "pass", "volume") == 0 }
	most := make([]time.Duration, len(jobs))
	rng := rand.New(rand.NewPCG(3, 4))
	repaired, between := 0, 0
	for i := range kills + len(jobs) {
		_ = os.Remove(b.path("kept"))
		b.write("volume", b.read("fresh"))
		j := i % len(jobs)
		cmd := b.command(program, jobs[j]...)
		start := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if i >= len(jobs) { // the first of each shows how long it takes
			time.Sleep(time.Duration(rng.Int64N(int64(most[j]))))
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		if i < len(jobs) {
			most[j] = time.Since(start)
		}
		if changed := !bytes.Equal(b.read("volume"), b.read("fresh")); changed && !cmd.ProcessState.Success() {
			between++
		}
		if j == 2 {
			if !opens() {
				b.run(program, "header", "erase", "--force", "volume")
			}
			continue
		}
		if !opens() {
			b.run(program, "header", "repair", "volume", "--from", "kept")
			repaired++
		}
		if !opens() {
			t.Fatalf("after kill %d of %q it does not open", i, jobs[j])
		}
	}
	t.Logf("%d kills: %d among the writes, %d volumes repaired", kills, between, repaired)
	if !testing.Short() && between == 0 {
		t.Error("no kill hit the writes")
	}
}
