//go:build linux

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// luksTypes are both, with a volume of each that keys_test works on.
var luksTypes = []string{"luks1", "luks2"}

// format makes a volume of a type with the bench's passphrase.
func (b *bench) format(kind, name string) {
	b.tb.Helper()
	args := []string{"format", name, "--create", "20M", "--type", kind}
	b.xtsdisk(append(args, cheapKDF...)...)
}

// code runs a command and returns its exit code.
func (b *bench) code(name string, args ...string) int {
	b.tb.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = b.dir
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		b.tb.Fatalf("%s: %v: %s", name, err, out)
	}
	return cmd.ProcessState.ExitCode()
}

// opensInBoth demands that a key file opens the volume, or does not, for this
// program and for cryptsetup.
func (b *bench) opensInBoth(cryptsetup, file string, want bool) {
	b.tb.Helper()
	theirs := b.code(cryptsetup, "open", "--test-passphrase", "--key-file", file, "volume")
	ours := b.code(program, "key", "test", "--key-file", file, "volume")
	if (theirs == 0) != want || (ours == 0) != want || !want && (theirs != 2 || ours != 3) {
		b.tb.Errorf("%s: cryptsetup returns %d and this program %d; opens: %v", file, theirs, ours, want)
	}
}

// What this program does to keyslots is right to cryptsetup, and the other way
// round, in turn on one volume.
func TestKeysInTurn(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	for _, kind := range luksTypes {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			for _, name := range []string{"two", "three", "four", "five", "six"} {
				b.write(name, []byte("passphrase "+name))
			}
			pbkdf := []string{"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"}
			b.format(kind, "volume")
			data := b.xtsdisk("cat", "volume")
			ours := func(args ...string) { b.run(program, append(args, pbkdf...)...) }
			theirs := func(args ...string) { b.run(cryptsetup, append(append(args, "-q"), pbkdf...)...) }

			ours("key", "add", "--key-file", "pass", "--new-keyfile", "two", "volume")
			b.opensInBoth(cryptsetup, "two", true)
			theirs("luksAddKey", "--key-file", "two", "volume", "three")
			b.opensInBoth(cryptsetup, "three", true)
			ours("key", "change", "--key-file", "three", "--new-keyfile", "four", "volume")
			b.opensInBoth(cryptsetup, "three", false)
			b.opensInBoth(cryptsetup, "four", true)
			theirs("luksChangeKey", "--key-file", "four", "volume", "five")
			b.opensInBoth(cryptsetup, "four", false)
			b.opensInBoth(cryptsetup, "five", true)
			ours("key", "convert", "--key-file", "five", "volume")
			b.opensInBoth(cryptsetup, "five", true)
			if kind == "luks2" { // cryptsetup has it for these only
				theirs("luksConvertKey", "--key-file", "five", "volume")
				b.opensInBoth(cryptsetup, "five", true)
			}
			ours("key", "add", "--key-file", "five", "--new-keyfile", "six", "--key-slot", "7", "volume")
			b.run(cryptsetup, "luksKillSlot", "-q", "volume", "7")
			b.opensInBoth(cryptsetup, "six", false)
			b.run(cryptsetup, "luksRemoveKey", "-q", "--key-file", "two", "volume")
			b.opensInBoth(cryptsetup, "two", false)
			b.run(program, "key", "remove", "--key-file", "five", "volume")
			b.opensInBoth(cryptsetup, "five", false)
			b.opensInBoth(cryptsetup, "pass", true)
			b.checkDump(cryptsetup, map[string][]string{"luks1": {"Key Slot 0: ENABLED", "Key Slot 1: DISABLED", "Key Slot 7: DISABLED"}, "luks2": {"0: luks2"}}[kind])
			if kind == "luks2" { // its decryption in user space is for these only
				b.checkPayload(cryptsetup, data)
			}
			if !bytes.Equal(b.xtsdisk("cat", "volume"), data) {
				t.Error("the data has changed")
			}
		})
	}
}

// The cipher of a new keyslot is the one that cryptsetup chooses for it.
func TestKeyslotCipherAsCryptsetup(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	for _, args := range [][]string{
		{"--cipher", "aes-xts-plain64", "--key-size", "256"},
		{"--cipher", "aes-cbc-essiv:sha256", "--key-size", "128"},
		{"--cipher", "aes-xts-plain64", "--key-size", "512", "--sector-size", "4096"},
	} {
		t.Run(args[1], func(t *testing.T) {
			b := newBench(t)
			b.write("theirs", []byte("theirs"))
			b.write("ours", []byte("ours"))
			b.write("volume", make([]byte, 18<<20))
			b.run(cryptsetup, append(append([]string{"luksFormat", "-q", "--type", "luks2", "volume", b.pass}, cheapKDF...), args...)...)
			b.run(cryptsetup, append([]string{"luksAddKey", "-q", "--key-file", b.pass, "volume", "theirs"}, cheapKDF...)...)
			b.run(program, append([]string{"key", "add", "--key-file", "pass", "--new-keyfile", "ours", "volume"}, cheapKDF...)...)
			b.run(cryptsetup, "open", "--test-passphrase", "--key-file", "ours", "volume")
			var list struct {
				Keyslots []struct {
					Cipher string
					Bits   int    `json:"cipher_key_bits"`
					AFHash string `json:"af_hash"`
				}
			}
			if err := json.Unmarshal(b.run(program, "key", "list", "--json", "volume"), &list); err != nil {
				t.Fatal(err)
			}
			if k := list.Keyslots; len(k) != 3 || k[1] != k[2] {
				t.Errorf("%+v", k)
			}
		})
	}
}

// Tokens, priorities, names and unbound keys of LUKS2, both ways.
func TestHeaderInTurn(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	b := newBench(t)
	b.write("other", []byte("other"))
	b.format("luks2", "volume")
	b.write("token", []byte(`{"type":"unknown","keyslots":["0"],"blob":{"x":[1.5,"é",null]}}`))
	b.run(program, "token", "add", "--json-file", "token", "--token-id", "3", "volume")
	theirs := b.run(cryptsetup, "token", "export", "--token-id", "3", "volume")
	if !bytes.Contains(theirs, []byte(`"type":"unknown"`)) {
		t.Errorf("cryptsetup exports %s", theirs)
	}
	b.run(cryptsetup, "token", "import", "--json-file", "token", "--token-id", "4", "volume")
	first := b.run(program, "token", "export", "--token-id", "3", "volume")
	if string(first) != string(b.read("token"))+"\n" {
		t.Errorf("after cryptsetup wrote the header: %s", first)
	}
	b.run(program, "token", "add", "--key-description", "name", "--key-slot", "0", "volume")
	b.run(cryptsetup, "token", "add", "--key-description", "name2", "--token-id", "9", "volume")
	list := string(b.run(program, "token", "list", "volume"))
	if strings.Count(list, "luks2-keyring") != 2 || strings.Count(list, "unknown") < 2 {
		t.Error(list)
	}
	b.run(program, "token", "remove", "--token-id", "4", "volume")
	b.run(cryptsetup, "token", "remove", "--token-id", "9", "volume")
	b.run(program, append([]string{"key", "add", "--unbound", "--key-size", "256", "--new-keyfile", "other", "--key-slot", "5", "volume"}, cheapKDF...)...)
	b.run(cryptsetup, append([]string{"luksAddKey", "-q", "--unbound", "--key-size", "128", "--key-slot", "6", "--key-file", "other", "volume", "other"}, cheapKDF...)...)
	b.run(cryptsetup, "open", "--test-passphrase", "--key-file", "other", "--key-slot", "5", "volume")
	b.run(program, "key", "test", "--key-file", "other", "--key-slot", "6", "volume")
	b.run(program, "key", "priority", "volume", "0", "prefer")
	b.run(program, "config", "--label", "ours", "--flags", "allow-discards", "volume")
	b.checkDump(cryptsetup, []string{"Priority:   preferred", "ours", "allow-discards", "5: luks2 (unbound)", "3: unknown"})
	b.run(cryptsetup, "config", "--key-slot", "0", "--priority", "ignore", "volume")
	b.run(cryptsetup, "config", "--subsystem", "theirs", "volume")
	if list := string(b.run(program, "key", "list", "volume")); !strings.Contains(list, "ignore") {
		t.Error(list)
	}
	b.run(cryptsetup, "open", "--test-passphrase", "--key-file", b.pass, "--key-slot", "0", "volume")
}

// kills is how often the program is killed: all in a full run.
func kills() int {
	if testing.Short() {
		return 20
	}
	return 200
}

// TestKilled kills the program at a random moment of a change. The volume then
// opens with the key that nothing was done to, and as it did before or as it
// would afterwards; the next change is made to what is left.
func TestKilled(t *testing.T) {
	for _, kind := range luksTypes {
		t.Run(kind, func(t *testing.T) { killKeys(t, kind, kills()/len(luksTypes)) })
	}
}

func killKeys(t *testing.T, kind string, kills int) {
	b := newBench(t)
	for _, name := range []string{"a", "b"} {
		b.write(name, []byte("key "+name))
	}
	b.format(kind, "fresh")
	b.run(program, append([]string{"key", "add", "--key-file", "pass", "--new-keyfile", "a", "fresh"}, cheapKDF...)...)
	most := time.Minute // that a change takes when nobody kills it
	for range 4 {
		b.write("volume", b.read("fresh"))
		start := time.Now()
		b.run(program, append([]string{"key", "change", "--key-file", "a", "--new-keyfile", "a", "volume"}, cheapKDF...)...)
		most = min(most, time.Since(start))
	}
	rng := rand.New(rand.NewPCG(1, uint64(most)))
	jobs := [][]string{
		append([]string{"key", "change", "--key-file", "a", "--new-keyfile", "b", "volume"}, cheapKDF...),
		append([]string{"key", "add", "--key-file", "a", "--new-keyfile", "b", "volume"}, cheapKDF...),
		{"key", "remove", "--key-file", "a", "volume"},
	}
	early, between, late := 0, 0, 0
	for i := range kills {
		b.write("volume", b.read("fresh"))
		job := jobs[i%len(jobs)]
		cmd := exec.Command(program, job...)
		cmd.Dir = b.dir
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(most))))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		opens := func(file string) bool { return b.code(program, "key", "test", "-q", "--key-file", file, "volume") == 0 }
		if !opens("pass") {
			t.Fatalf("after kill %d of %q the other keyslot does not open", i, job)
		}
		old, now := opens("a"), opens("b")
		switch {
		case bytes.Equal(b.read("volume"), b.read("fresh")):
			early++
		case cmd.ProcessState.Success():
			late++
		default:
			between++
		}
		if !old && !now && job[1] != "remove" {
			t.Fatalf("after kill %d of %q neither the old nor the new passphrase opens", i, job)
		}
	}
	t.Logf("%d kills: %d before the first write, %d among the writes, %d after the end", kills, early, between, late)
	if !testing.Short() && between == 0 {
		t.Error("no kill hit the writes")
	}
}

// Programs that change one header at once wait for each other, and none undoes
// what another did.
func TestKeysAtOnce(t *testing.T) {
	b := newBench(t)
	b.format("luks2", "volume")
	const each = 6
	var wg sync.WaitGroup
	for i := range each {
		b.write(fmt.Sprintf("key%d", i), []byte(fmt.Sprintf("passphrase %d", i)))
		b.write(fmt.Sprintf("their%d", i), []byte(fmt.Sprintf("their passphrase %d", i)))
		wg.Go(func() {
			args := append([]string{"key", "add", "--key-file", "pass", "--new-keyfile", fmt.Sprintf("key%d", i), "volume"}, cheapKDF...)
			if code := b.code(program, args...); code != 0 {
				t.Errorf("key add %d: exit code %d", i, code)
			}
		})
		wg.Go(func() {
			if code := b.code(program, "token", "add", "--key-description", fmt.Sprint(i), "volume"); code != 0 {
				t.Errorf("token add %d: exit code %d", i, code)
			}
		})
	}
	wg.Wait()
	for i := range each {
		if code := b.code(program, "key", "test", "--key-file", fmt.Sprintf("key%d", i), "volume"); code != 0 {
			t.Errorf("passphrase %d was lost", i)
		}
	}
	list := string(b.run(program, "token", "list", "volume"))
	if n := strings.Count(list, "luks2-keyring"); n != each {
		t.Errorf("%d tokens of %d:\n%s", n, each, list)
	}
	b.run(testenv.Tool(t, "cryptsetup"), "luksDump", "volume")
}

// A volume that another program has open for writing is left alone.
func TestKeysInUse(t *testing.T) {
	b := newBench(t)
	b.format("luks2", "volume")
	before := b.read("volume")
	holder := exec.Command("sleep", "60")
	f, err := os.OpenFile(b.path("volume"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	holder.ExtraFiles = []*os.File{f}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Process.Kill(); _ = holder.Wait() }()
	if code := b.code(program, "config", "--label", "x", "volume"); code != 6 {
		t.Errorf("exit code %d", code)
	}
	if !bytes.Equal(before, b.read("volume")) {
		t.Error("it was written to")
	}
}
