//go:build !race

// The race detector maps, and so would have to be searched, many times as much.

package luks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/secret"
	"github.com/xtsdisk/xtsdisk/internal/sector"
	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// What a volume leaves in memory once it is closed is looked for from outside:
// a process of its own makes or unlocks one, uses and closes it, and its whole
// memory is searched for the passphrase, the keys and their round keys, as
// they are and in the forms in which HMAC and hash functions hold them.

const (
	residueHelper         = "XTSDISK_TEST_RESIDUE"
	residuePassphraseSize = 48
)

func TestResidue(t *testing.T) {
	if does := os.Getenv(residueHelper); does != "" {
		if err := residueChild(t.Context(), strings.Fields(does)); err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	}
	for _, level := range []string{"generic", "aesni4", "vaes512"} {
		for _, kdf := range []string{KDFPBKDF2, KDFArgon2id} {
			for _, does := range []string{"unlock", "format"} {
				t.Run(level+" "+does+" "+kdf, func(t *testing.T) { testResidue(t, level, does, kdf) })
			}
		}
	}
	// What is the same for all levels need not be searched with each.
	for _, level := range []string{"aesni", "avx", "vaes-avx2", "vaes256"} {
		t.Run(level, func(t *testing.T) { testResidue(t, level, "unlock", KDFPBKDF2) })
	}
}

func testResidue(t *testing.T, level, does, kdf string) {
	if kdf == KDFArgon2id && runtime.GOARCH == "386" {
		t.Skip("a copy of the passphrase does stay behind on 386, see docs/threat-model.md")
	}
	o := residueOptions(kdf)
	o.Passphrase = randomBytes(residuePassphraseSize)
	image, _ := formatted(t, o)
	path := tempFile(t, image)
	c := startResidueChild(t, level, does+" "+kdf, path, o.Passphrase)
	c.expect(t, "open")
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	needles := residueNeedles(t, image, o.Passphrase)
	if found := c.search(t, needles); !slices.ContainsFunc(found, isBareKey) {
		t.Fatalf("an open volume shows %q: the search does not work", found)
	}
	c.expect(t, "closed")
	if found := c.search(t, needles); len(found) > 0 {
		t.Errorf("left in memory:\n%s", strings.Join(found, "\n"))
	}
}

func residueOptions(kdf string) FormatOptions {
	o := smallOptions()
	o.KeySize, o.KeyslotsSize = 64, areaSize(64)
	if kdf == KDFArgon2id {
		o.KDF = cheapArgon2
	}
	return o
}

func isBareKey(found string) bool { return strings.HasPrefix(found, "volume key, bytes 16 to 31, at ") }

// residueChild unlocks the volume of fd 3 with the passphrase from fd 4, or
// makes a new one there. It tells what it has done, and waits to go on.
func residueChild(ctx context.Context, does []string) error {
	file := os.NewFile(3, "image")
	passphrase := secret.New(residuePassphraseSize)
	if _, err := io.ReadFull(os.NewFile(4, "passphrase"), passphrase.Bytes()); err != nil {
		return err
	}
	var v *Volume
	var err error
	if does[0] == "format" {
		o := residueOptions(does[1])
		o.Passphrase = passphrase.Bytes()
		v, err = Format(ctx, fileStorage{file}, o)
	} else {
		var h *Header
		if h, err = ReadHeader(file, -1); err == nil {
			v, err = h.Unlock(ctx, file, passphrase.Bytes(), UnlockOptions{Slot: AnySlot})
		}
	}
	passphrase.Destroy()
	if err != nil {
		return err
	}
	spec, err := sector.Parse(v.Header.Segments[0].Cipher)
	if err != nil {
		return err
	}
	c, err := spec.New(v.Key(), sector.Options{SectorSize: 512})
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	c.Encrypt(buf, buf, 0)
	c.Decrypt(buf, buf, 1)
	tell("open")
	c.Wipe()
	v.Close()
	tell("closed")
	return nil
}

type fileStorage struct{ *os.File }

func (f fileStorage) Flush() error { return f.Sync() }

func tell(what string) {
	fmt.Println(what)
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// residueProcess is the process that is searched, seen from its parent.
type residueProcess struct {
	pid int
	in  io.Writer
	out *bufio.Scanner
}

func startResidueChild(t *testing.T, level, does, path string, passphrase []byte) *residueProcess {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err = w.Write(passphrase); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestResidue$")
	// A signal makes the system write all registers to memory of the process,
	// and with them the keys and data that are being worked with. Go stops
	// goroutines by signals; what they happen to leave is not looked for.
	cmd.Env = append(os.Environ(), residueHelper+"="+does, "XTSDISK_LEVEL="+level, "GODEBUG=asyncpreemptoff=1")
	cmd.ExtraFiles = []*os.File{file, r}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("a test cannot start itself here: %v", err) // as under qemu-user without binfmt
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return &residueProcess{cmd.Process.Pid, in, bufio.NewScanner(out)}
}

// expect lets the process go on and waits until it says that it is as far.
func (p *residueProcess) expect(t *testing.T, step string) {
	t.Helper()
	if step != "open" {
		if _, err := p.in.Write([]byte{'\n'}); err != nil {
			t.Fatal(err)
		}
	}
	p.out.Scan()
	if strings.Contains(p.out.Text(), "XTSDISK_LEVEL") {
		t.Skip(p.out.Text())
	}
	if p.out.Text() != step {
		t.Fatalf("the process says %q, not %q", p.out.Text(), step)
	}
}

// needle is something to look for.
type needle struct {
	name string
	data []byte
}

// haystackLimit is far above what the process maps, and far below what the
// race detector maps for itself.
const haystackLimit = 1 << 30

// search names the needles that are in memory that the process can write.
func (p *residueProcess) search(t *testing.T, needles []needle) (found []string) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.pid))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.pid))
	testenv.Feature(t, err == nil, "ptrace")
	defer mem.Close()
	index := newNeedleIndex(needles)
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights)
		if n != 3 || rights[:2] != "rw" || to-from > haystackLimit {
			continue
		}
		b := make([]byte, to-from)
		n, _ = mem.ReadAt(b, from) // what the kernel keeps for itself cannot be read
		found = append(found, index.search(b[:n], from)...)
	}
	return found
}

// needleIndex finds many needles in one pass.
type needleIndex struct {
	sieve  [1 << 16]bool       // by the first two bytes
	byHead map[uint64][]needle // by the first eight
}

func newNeedleIndex(needles []needle) *needleIndex {
	x := &needleIndex{byHead: map[uint64][]needle{}}
	for _, s := range needles {
		head := binary.LittleEndian.Uint64(s.data)
		x.byHead[head] = append(x.byHead[head], s)
		x.sieve[uint16(head)] = true
	}
	return x
}

func (x *needleIndex) search(b []byte, address int64) (found []string) {
	for i := 0; i+16 <= len(b); i++ {
		if !x.sieve[binary.LittleEndian.Uint16(b[i:])] {
			continue
		}
		for _, s := range x.byHead[binary.LittleEndian.Uint64(b[i:])] {
			if bytes.HasPrefix(b[i:], s.data) {
				found = append(found, fmt.Sprintf("%s, at %#x", s.name, address+int64(i)))
			}
		}
	}
	return found
}

// residueNeedles are all the secrets of a volume, cut into pieces of 16 bytes.
func residueNeedles(t *testing.T, image, passphrase []byte) (needles []needle) {
	t.Helper()
	v := open(t, image, string(passphrase))
	k := v.Header.Keyslots[0]
	areaKey, err := k.KDF.derive(t.Context(), passphrase, k.Area.KeySize)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string][]byte{"passphrase": passphrase, "volume key": v.Key(), "area key": areaKey} {
		for i := 0; i < len(s); i += 16 {
			needles = append(needles, residueForms(fmt.Sprintf("%s, bytes %d to %d", name, i, i+15), s[i:i+16])...)
		}
	}
	for name, s := range map[string][]byte{"volume key": v.Key(), "area key": areaKey} {
		for half := range 2 {
			for i, r := range roundKeys(s[32*half:][:32]) {
				needles = append(needles, residueForms(fmt.Sprintf("%s, half %d, round key %d", name, half, i), r[:])...)
			}
		}
	}
	return needles
}

// residueForms are a secret as it is, under HMAC's pads, and each with the
// bytes of its words reversed, as hash functions and AES in Go read them.
func residueForms(name string, s []byte) (forms []needle) {
	for pad, padded := range map[byte]string{0: "", innerPad: ", under the inner pad", outerPad: ", under the outer pad"} {
		for word, swapped := range map[int]string{1: "", 4: ", words of 32 bits", 8: ", words of 64 bits"} {
			b := bytes.Clone(s)
			for i := range b {
				b[i] ^= pad
			}
			for w := range slices.Chunk(b, word) {
				slices.Reverse(w)
			}
			forms = append(forms, needle{name + padded + swapped, b})
		}
	}
	return forms
}
