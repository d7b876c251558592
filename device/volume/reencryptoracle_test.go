package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/luks"
)

// cryptsetup recovers what was broken off here, and gives the same data: its
// repair leaves a volume that reads as it did before, and the rest of its work
// ends at the data.
func TestCryptsetupRecovers(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	base := func(mode string, old, new coding, area string) *torn {
		s := &torn{mode: mode, direction: "forward", area: area, old: old, new: new, size: 128 * kib, pos: 48 * kib, zone: 16 * kib}
		if area == "checksum" {
			s.block, s.hash = max(old.sectorSize, new.sectorSize), "sha256"
		}
		return s
	}
	for name, s := range map[string]*torn{
		"reencrypt checksum":     base("reencrypt", xts256, xts256, "checksum"),
		"reencrypt journal":      base("reencrypt", cbcESSIV, xts256, "journal"),
		"reencrypt large blocks": base("reencrypt", xts256, xts512large, "checksum"),
		"encrypt checksum":       base("encrypt", plainData, xts256, "checksum"),
		"encrypt journal":        base("encrypt", plainData, xts256, "journal"),
		"decrypt checksum":       base("decrypt", xts256, plainData, "checksum"),
		"encrypt shift":          shifted()["datashift, encrypt at 524288"],
		"decrypt shift":          shifted()["datashift-journal, decrypt at 65536"],
		"decrypt moved":          shifted()["datashift-checksum, decrypt at 0"],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.build(t)
			cut := int(s.zone/512/3) / 8 * 8 // cryptsetup's blocks are whole: old or new
			s.againstCryptsetup(t, cryptsetup, s.with(s.mixed(func(i int) bool { return i < cut })))
		})
	}
}

func (s *torn) againstCryptsetup(t *testing.T, cryptsetup string, disk []byte) {
	t.Helper()
	end := s.newOff + s.size
	if s.mode == "encrypt" && s.shift > 0 {
		end += s.shift // where the moved data lies
	}
	if s.oldOff+s.size > end {
		end = s.oldOff + s.size
	}
	volume, header, key := write(t, "volume", disk[:end]), write(t, "header", s.header), write(t, "key", passphrase)
	ours := func(when string) {
		o := unlockIt()
		o.Header = header
		out := filepath.Join(t.TempDir(), "plain")
		if _, err := Decrypt(t.Context(), DecryptOptions{Src: volume, Dst: out, Open: o}); err != nil {
			t.Errorf("%s: %v", when, err)
			return
		}
		equal(t, when, read(t, out)[:s.size], s.data)
	}
	ours("before")
	run := func(args ...string) {
		args = append(args, "-q", "--key-file", key, "--header", header, volume)
		if out, err := exec.Command(cryptsetup, args...).CombinedOutput(); err != nil {
			t.Fatalf("cryptsetup %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	run("repair")
	h, err := luks.ReadHeader(bytes.NewReader(read(t, header)), -1)
	if err != nil {
		t.Fatal(err)
	}
	if plan, err := h.Reencryption(); err != nil || plan != nil && plan.Hot != nil {
		t.Fatalf("cryptsetup left %+v, %v", plan, err)
	}
	if list, err := h.DataSegments(); s.mode == "decrypt" && err != nil { // it was the last zone: no crypt segment is left
		equal(t, fmt.Sprint("decrypted by cryptsetup: ", list), read(t, volume)[:s.size], s.data)
		return
	}
	ours("after cryptsetup's repair")
}

// What cryptsetup itself does to the fixtures changes nothing of what is read.
func TestCryptsetupRecoversFixtures(t *testing.T) {
	cryptsetup := testenv.Tool(t, "cryptsetup")
	for _, f := range fixtures(t) {
		if !f.inReencryption() || !strings.Contains(f.Name, "torn") && !strings.Contains(f.Name, "change") {
			continue
		}
		path := write(t, "volume", testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.File.File)))
		args := []string{"repair", "-q", "--key-file", write(t, "key", f.secret(t, 0))}
		o := OpenOptions{Passphrase: f.secret(t, 0), Slot: luks.AnySlot}
		if f.Header != nil {
			o.Header = write(t, "header", testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.Header.File)))
			args = append(args, "--header", o.Header)
		}
		if out, err := exec.Command(cryptsetup, append(args, path)...).CombinedOutput(); err != nil {
			t.Errorf("%s: cryptsetup repair: %v: %s", f.Name, err, out)
			continue
		}
		v, err := Open(t.Context(), path, o)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		got := make([]byte, v.Size())
		if _, err := v.ReadAt(got, 0); err != nil && err != io.EOF {
			t.Errorf("%s: %v", f.Name, err)
		}
		// In decrypt mode the last segment is of open size once it is linear.
		if sum(got[:f.PayloadLen]) != f.PayloadSha256 {
			t.Errorf("%s: another plaintext after cryptsetup's repair", f.Name)
		}
		for _, w := range v.Warnings {
			if strings.Contains(w, "broken off") {
				t.Errorf("%s: %s", f.Name, fmt.Sprint(v.Warnings))
			}
		}
		v.Close()
	}
}

// cryptsetup, killed at any moment of a reencryption, leaves a volume that
// reads as the data.
func TestCryptsetupKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("some dozens of reencryptions")
	}
	cryptsetup := testenv.Tool(t, "cryptsetup")
	data := noise(4, 3*mib)
	key := write(t, "key", passphrase)
	cheapKDF := []string{"-q", "--force-offline-reencrypt", "--key-file", key, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"}
	zones := []string{"--hotzone-size", "64k"}
	src := write(t, "src", data)
	l := cheap()
	l.KeyslotsSize, l.DataOffset = 1008<<10, 2*mib
	if _, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: src + ".volume", Luks: l}); err != nil {
		t.Fatal(err)
	}
	volume := read(t, src+".volume")
	rng := rand.New(rand.NewPCG(3, 4))
	all := 0
	for name, c := range map[string]struct {
		start  []byte
		header bool
		args   []string
	}{
		"checksum":            {volume, false, append(zones, "--resilience", "checksum")},
		"journal":             {volume, false, append(zones, "--resilience", "journal")},
		"checksum, to cbc":    {volume, false, append(zones, "--resilience", "checksum", "--cipher", "aes-cbc-essiv:sha256", "--key-size", "256")},
		"checksum, large":     {volume, false, append(zones, "--resilience", "checksum", "--sector-size", "4096", "--key-size", "512")},
		"encrypt, detached":   {data, true, append(zones, "--encrypt", "--type", "luks2", "--resilience", "checksum")},
		"encrypt, in place":   {append(bytes.Clone(data), make([]byte, 2*mib)...), false, []string{"--encrypt", "--type", "luks2", "--reduce-device-size", "2m"}},
		"decrypt, header out": {volume, true, append(zones, "--decrypt", "--resilience", "checksum")},
	} {
		t.Run(name, func(t *testing.T) {
			middle := 0
			for round := range 5 {
				path := write(t, "volume", c.start)
				args := append(append([]string{"reencrypt"}, cheapKDF...), c.args...)
				o, header := unlockIt(), path
				if c.header {
					o.Header = filepath.Join(filepath.Dir(path), "header")
					header, args = o.Header, append(args, "--header", o.Header)
				}
				kill(t, exec.Command(cryptsetup, append(args, path)...), header, time.Duration(rng.Int64N(int64(50*time.Millisecond))))
				v, err := Open(t.Context(), path, o)
				switch {
				case err == nil:
				case errors.Is(err, luks.ErrNotLUKS), errors.Is(err, luks.ErrNoKeyslot), errors.Is(err, ErrDetached),
					errors.Is(err, os.ErrNotExist), errors.Is(err, luks.ErrUnsupported):
					continue // before its start, or behind its end
				default:
					t.Errorf("round %d: %v", round, err)
					continue
				}
				if plan, _ := v.Header.Reencryption(); plan != nil {
					middle++
				}
				got := make([]byte, len(data))
				if _, err := v.ReadAt(got, 0); err != nil && err != io.EOF {
					t.Errorf("round %d: %v", round, err)
				}
				equal(t, fmt.Sprintf("round %d, %v", round, v.Warnings), got, data)
				v.Close()
			}
			t.Logf("%d of 5 in the middle", middle)
			all += middle
		})
	}
	if all == 0 {
		t.Error("none was met in the middle of its work")
	}
}

// kill runs a reencryption, and kills it some time after the header says that
// one is under way.
func kill(t *testing.T, cmd *exec.Cmd, header string, after time.Duration) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for begun := false; !begun; {
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
		b := make([]byte, 16<<10)
		if f, err := os.Open(header); err == nil {
			_, _ = io.ReadFull(f, b)
			f.Close()
		}
		begun = bytes.Contains(b, []byte("backup-final"))
	}
	time.Sleep(after)
	_ = cmd.Process.Kill()
	<-ended
}
