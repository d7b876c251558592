//go:build linux

package integration

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// LUKS1 volumes that encrypt makes are cryptsetup's in every way: it shows
// them, opens them, works on their keyslots, and finds the same data.
func TestCryptsetupAcceptsLUKS1(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	plain := random(3<<20, 41)
	for _, v := range []struct {
		name string
		args []string
		dump []string
	}{
		{"defaults", nil, []string{"Version:       \t1", "xts-plain64", "Hash spec:     \tsha256", "Payload offset:\t4096", "MK bits:       \t512"}},
		{"256-bit key", []string{"--key-size", "256"}, []string{"MK bits:       \t256"}},
		{"sha1", []string{"--hash", "sha1"}, []string{"Hash spec:     \tsha1"}},
		{"sha512", []string{"--hash", "sha512"}, []string{"Hash spec:     \tsha512"}},
		{"data at an offset", []string{"--offset", "8192"}, []string{"Payload offset:\t8192"}},
		{"UUID", []string{"--uuid", "5b2b1b0c-1c5f-4a54-9d0b-6e4c50d7ad53"}, []string{"5b2b1b0c-1c5f-4a54-9d0b-6e4c50d7ad53"}},
	} {
		t.Run(v.name, func(t *testing.T) {
			b := newBench(t)
			b.write("plain", plain)
			b.xtsdisk(append(append([]string{"encrypt", "--type", "luks1", "plain", "volume"}, cheapKDF...), v.args...)...)
			b.checkDump(cryptsetup, v.dump)
			b.run(cryptsetup, "open", "--test-passphrase", "--key-file", b.pass, "volume")
			b.checkKeyslotsLUKS1(cryptsetup)
			// Its user-space code decrypts LUKS2 only, so the header is converted.
			b.run(cryptsetup, "convert", "-q", "--type", "luks2", "volume")
			b.checkPayload(cryptsetup, plain)
			if got := b.xtsdisk("cat", "volume"); !bytes.Equal(got, plain) {
				t.Errorf("after convert: %s", firstDifference(got, plain))
			}
		})
	}
}

// checkKeyslotsLUKS1 lets cryptsetup add, change and kill keyslots of a copy.
func (b *bench) checkKeyslotsLUKS1(cryptsetup string) {
	b.tb.Helper()
	b.write("slots", b.read("volume"))
	second, third := b.write("second", []byte("second")), b.write("third", []byte("third"))
	quick := []string{"-q", "--pbkdf-force-iterations", "1000"}
	b.run(cryptsetup, append(quick, "luksAddKey", "--key-file", b.pass, "slots", second)...)
	b.run(cryptsetup, append(quick, "luksAddKey", "--key-slot", "7", "--key-file", b.pass, "slots", third)...)
	b.run(cryptsetup, append(quick, "luksChangeKey", "--key-slot", "0", "--key-file", b.pass, "slots", third)...)
	b.run(cryptsetup, "luksKillSlot", "-q", "--key-file", third, "slots", "1")
	b.run(cryptsetup, "luksHeaderBackup", "--header-backup-file", "backup", "slots")
	want := b.read("volume")[2<<20:]
	for name, opens := range map[string]bool{"third": true, "second": false, "pass": false} {
		for _, header := range []string{"slots", "backup"} {
			code, out := b.try(program, "key", "test", "--key-file", name, header)
			if opens != (code == 0) {
				b.tb.Errorf("%s on %s: exit code %d: %s", name, header, code, out)
			}
		}
	}
	if !bytes.Equal(b.read("slots")[2<<20:], want) {
		b.tb.Error("cryptsetup changed the data")
	}
	b.run(program, "decrypt", "--header", "backup", "--key-file", "third", "volume", "by-backup")
}

// try runs a command and returns its exit code and all that it said.
func (b *bench) try(name string, args ...string) (int, string) {
	b.tb.Helper()
	cmd := b.command(name, args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		b.tb.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// LUKS1 volumes that cryptsetup made open here with the key that it names, in
// the hashes and ciphers that it needs no device-mapper for.
func TestOpensLUKS1OfCryptsetup(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	for _, args := range []string{
		"", "--key-size 256", "--hash sha1", "--hash sha224", "--hash sha384", "--hash sha512", "--hash sha3-256",
		"--hash blake2b-512", "--hash blake2s-256", "--hash ripemd160", "--hash whirlpool",
		"--cipher aes-cbc-essiv:sha256 --key-size 128", "--cipher aes-cbc-plain64 --key-size 256", "--cipher aes-cbc-plain --key-size 192",
	} {
		t.Run(args, func(t *testing.T) {
			b := newBench(t)
			b.write("volume", make([]byte, 3<<20))
			b.run(cryptsetup, append([]string{"luksFormat", "-q", "--type", "luks1", "--pbkdf-force-iterations", "1000", "volume", b.pass}, strings.Fields(args)...)...)
			b.run(cryptsetup, "luksDump", "-q", "--dump-volume-key", "--volume-key-file", "theirs", "--key-file", b.pass, "volume")
			b.xtsdisk("key", "export", "volume", "ours")
			if !bytes.Equal(b.read("ours"), b.read("theirs")) {
				t.Error("the exported volume keys differ")
			}
		})
	}
}

// LUKS1 both ways with qemu-img, whose data starts at sector 4040.
func TestLUKS1WithQemu(t *testing.T) {
	qemu := testenv.Tool(t, "qemu-img")
	plain := random(5<<20, 42)
	for _, bits := range []string{"256", "512"} {
		b := newBench(t)
		b.write("plain", plain)
		const secret = "secret,id=s,file=pass"
		b.xtsdisk(append([]string{"encrypt", "--type", "luks1", "--key-size", bits, "plain", "ours"}, cheapKDF...)...)
		b.run(qemu, "convert", "--object", secret, "--image-opts", "driver=luks,key-secret=s,file.filename=ours", "-O", "raw", "back")
		if got := b.read("back"); !bytes.Equal(got, plain) {
			t.Errorf("qemu-img reads ours: %s", firstDifference(got, plain))
		}
	}
	for _, options := range []string{
		"", ",cipher-alg=aes-128", ",hash-alg=sha1", ",hash-alg=sha512", ",hash-alg=ripemd160",
		",cipher-mode=cbc,ivgen-alg=plain64", ",cipher-mode=cbc,ivgen-alg=essiv,ivgen-hash-alg=sha256", ",ivgen-alg=plain",
		",cipher-alg=serpent-256", ",cipher-alg=twofish-256",
	} {
		t.Run(options, func(t *testing.T) {
			b := newBench(t)
			b.write("plain", plain)
			b.run(qemu, "convert", "-f", "raw", "-O", "luks", "--object", "secret,id=s,file=pass", "-o", "key-secret=s,iter-time=10"+options, "plain", "theirs")
			if got := b.xtsdisk("cat", "theirs"); !bytes.Equal(got, plain) {
				t.Error(firstDifference(got, plain))
			}
			b.xtsdisk("key", "test", "theirs")
		})
	}
}

// LUKS1 both ways with nbdkit: it reads what encrypt wrote, and what it writes
// into our volume is read here.
func TestLUKS1WithNbdkit(t *testing.T) {
	nbdkit, nbdcopy := testenv.Tool(t, "nbdkit"), testenv.Tool(t, "nbdcopy")
	for _, args := range [][]string{{"--key-size", "512"}, {"--key-size", "256", "--hash", "sha512"}, {"--hash", "sha1"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			b := newBench(t)
			plain, other := random(5<<20, 43), random(5<<20, 44)
			b.write("plain", plain)
			b.write("other", other)
			b.xtsdisk(append(append([]string{"encrypt", "--type", "luks1", "plain", "volume"}, cheapKDF...), args...)...)
			serve := []string{"-U", "-", "--filter=luks", "file", b.path("volume"), "passphrase=+" + b.pass, "--run"}
			b.run(nbdkit, append(serve, nbdcopy+` "$uri" `+b.path("back"))...)
			if got := b.read("back"); !bytes.Equal(got, plain) {
				t.Errorf("nbdkit reads ours: %s", firstDifference(got, plain))
			}
			b.run(nbdkit, append(serve, nbdcopy+" "+b.path("other")+` "$uri"`)...)
			if got := b.xtsdisk("cat", "volume"); !bytes.Equal(got, other) {
				t.Errorf("we read what nbdkit wrote: %s", firstDifference(got, other))
			}
		})
	}
}

// Reading never writes, whatever the volume.
func TestLUKS1IsNotChanged(t *testing.T) {
	b := newBench(t)
	b.write("plain", random(1<<20, 45))
	b.xtsdisk(append([]string{"encrypt", "--type", "luks1", "plain", "volume"}, cheapKDF...)...)
	before := sum(b.read("volume"))
	if err := os.Chmod(b.path("volume"), 0o400); err != nil {
		t.Fatal(err)
	}
	b.xtsdisk("cat", "volume")
	b.xtsdisk("decrypt", "volume", "back")
	b.xtsdisk("key", "test", "volume")
	b.xtsdisk("key", "export", "volume", "key")
	if sum(b.read("volume")) != before {
		t.Error("the volume was changed")
	}
}
