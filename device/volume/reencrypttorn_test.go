package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/luks"
)

const kib = 1 << 10

// inPlace are reencryptions that rewrite the data where it lies.
func inPlace() map[string]*torn {
	out := map[string]*torn{}
	for _, direction := range []string{"forward", "backward"} {
		for name, c := range map[string]*torn{
			"reencrypt xts to xts":        {mode: "reencrypt", old: xts256, new: xts256, block: 512, hash: "sha256"},
			"reencrypt blocks of 4096":    {mode: "reencrypt", old: xts256, new: xts256, block: 4096, hash: "sha512"},
			"reencrypt cbc to xts":        {mode: "reencrypt", old: cbcESSIV, new: xts256, block: 1024, hash: "blake2b-256"},
			"reencrypt to large sectors":  {mode: "reencrypt", old: xts256, new: xts512large, block: 4096, hash: "sha1"},
			"reencrypt to adiantum":       {mode: "reencrypt", old: xts512large, new: adiantum, block: 4096, hash: "sha256"},
			"encrypt":                     {mode: "encrypt", old: plainData, new: xts256, block: 2048, hash: "sha256"},
			"encrypt with large sectors":  {mode: "encrypt", old: plainData, new: xts512large, block: 4096, hash: "sha256"},
			"decrypt":                     {mode: "decrypt", old: xts256, new: plainData, block: 512, hash: "sha256"},
			"decrypt cbc, blocks of 4096": {mode: "decrypt", old: cbcESSIV, new: plainData, block: 4096, hash: "sha256"},
		} {
			for _, pos := range []int64{0, 48 * kib, 112 * kib} {
				one := *c
				one.area, one.direction = "checksum", direction
				one.size, one.pos, one.zone = 128*kib, pos, 16*kib
				out[fmt.Sprintf("checksum, %s, %s at %d", name, direction, pos)] = &one
				two := one
				two.area, two.block, two.hash = "journal", 0, ""
				out[fmt.Sprintf("journal, %s, %s at %d", name, direction, pos)] = &two
			}
		}
	}
	return out
}

// shifted are reencryptions that move the data, too.
func shifted() map[string]*torn {
	out := map[string]*torn{}
	for _, pos := range []int64{0, 512 * kib, 1024 * kib} {
		out[fmt.Sprintf("datashift, encrypt at %d", pos)] = &torn{
			mode: "encrypt", direction: "backward", area: "datashift", old: plainData, new: xts256,
			size: 1536 * kib, newOff: 512 * kib, movedOff: 2048 * kib, moved: 512 * kib, pos: pos, zone: 512 * kib, shift: 512 * kib,
		}
	}
	for _, area := range []string{"datashift-checksum", "datashift-journal"} {
		for _, pos := range []int64{0, 64 * kib, 128 * kib} {
			s := &torn{
				mode: "decrypt", direction: "forward", area: area, old: xts256, new: plainData,
				size: 192 * kib, oldOff: 256 * kib, moved: 64 * kib, pos: pos, zone: 64 * kib, shift: 256 * kib,
			}
			if area == "datashift-checksum" {
				s.block, s.hash = 512, "sha256"
			}
			out[fmt.Sprintf("%s, decrypt at %d", area, pos)] = s
		}
	}
	// The header grows or shrinks while the key is changed.
	out["datashift, reencrypt backward"] = &torn{
		mode: "reencrypt", direction: "backward", area: "datashift", old: xts256, new: cbcESSIV,
		size: 1536 * kib, oldOff: mib, newOff: 1536 * kib, pos: 512 * kib, zone: 512 * kib, shift: 512 * kib,
	}
	out["datashift, reencrypt forward"] = &torn{
		mode: "reencrypt", direction: "forward", area: "datashift", old: xts256, new: xts512large,
		size: 1536 * kib, oldOff: 1536 * kib, newOff: mib, pos: 512 * kib, zone: 512 * kib, shift: 512 * kib,
	}
	return out
}

// A reencryption broken off at any sector of its zone, and with its sectors
// written in any order, gives the data exactly; where a sector of the cipher is
// torn itself and the cipher cannot do with parts, the place is reported, and
// no data comes that is not the data.
func TestTornReencryption(t *testing.T) {
	all := inPlace()
	for name, s := range shifted() {
		all[name] = s
	}
	exact, reported := 0, 0
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			s.build(t)
			p := s.open(t)
			n := int(s.zone / 512)
			step := max(1, n/32)
			for tear := 0; tear <= n; tear += step {
				s.check(t, p, fmt.Sprint("new up to ", tear), func(i int) bool { return i < tear }, &exact, &reported)
				s.check(t, p, fmt.Sprint("new from ", tear), func(i int) bool { return i >= tear }, &exact, &reported)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for range 8 {
				share := rng.Float64()
				s.check(t, p, "any sectors", func(int) bool { return rng.Float64() < share }, &exact, &reported)
			}
		})
	}
	t.Logf("%d reencryptions: %d states gave the data, %d were reported", len(all), exact, reported)
	if reported == 0 || reported > exact/10 {
		t.Errorf("%d states reported of %d", reported, exact+reported)
	}
}

// whole tells whether parts of a sector of the cipher can be told apart.
func (s *torn) inParts() bool {
	for _, c := range []coding{s.old, s.new} {
		if c == adiantum {
			return false
		}
	}
	return true
}

func (s *torn) check(t *testing.T, p *payload, what string, isNew func(int) bool, exact, reported *int) {
	t.Helper()
	got, err := s.reads(p, s.with(s.mixed(isNew)))
	if err != nil {
		*reported++
		if !errors.Is(err, ErrUnrecoverable) || s.inParts() || s.area != "checksum" {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	*exact++
	equal(t, what, got, s.data)
}

// A journal or a shift needs nothing of the zone; with checksums, damage in it
// is reported with its place, and what is around it stays readable.
func TestTornZoneDamaged(t *testing.T) {
	for name, s := range map[string]*torn{
		"checksum": {mode: "reencrypt", direction: "forward", area: "checksum", old: xts256, new: xts256, block: 4096, hash: "sha256", size: 128 * kib, pos: 48 * kib, zone: 16 * kib},
		"journal":  {mode: "reencrypt", direction: "forward", area: "journal", old: xts256, new: xts256, size: 128 * kib, pos: 48 * kib, zone: 16 * kib},
		"none":     {mode: "reencrypt", direction: "forward", area: "none", old: xts256, new: xts256, size: 128 * kib, pos: 48 * kib, zone: 16 * kib},
	} {
		t.Run(name, func(t *testing.T) {
			s.build(t)
			disk := s.with(s.newZone)
			at := s.newOff + s.pos + 5000
			disk[at] ^= 1
			path, out := write(t, "volume", disk), filepath.Join(t.TempDir(), "plain")
			o := unlockIt()
			o.Header = write(t, "header", s.header)
			_, err := Decrypt(t.Context(), DecryptOptions{Src: path, Dst: out, Open: o})
			if name == "journal" {
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "decrypted", read(t, out), s.data)
				return
			}
			place := fmt.Sprintf("4096 bytes at offset %d of the data device", at/4096*4096)
			if name == "none" {
				place = fmt.Sprintf("at offset %d of the data device", s.pos)
			}
			if !errors.Is(err, ErrUnrecoverable) || !strings.Contains(err.Error(), place) {
				t.Errorf("%v, not %s", err, place)
			}
			if _, err := os.Lstat(out); err == nil {
				t.Error("there is output")
			}
			v, err := Open(t.Context(), path, o)
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			got := make([]byte, s.pos)
			if _, err := v.ReadAt(got, 0); err != nil {
				t.Errorf("before the zone: %v", err)
			}
			equal(t, "before the zone", got, s.data[:s.pos])
			got = make([]byte, s.size-s.pos-s.zone)
			if _, err := v.ReadAt(got, s.pos+s.zone); err != nil && err != io.EOF {
				t.Errorf("behind the zone: %v", err)
			}
			equal(t, "behind the zone", got, s.data[s.pos+s.zone:])
			if name == "checksum" {
				got = make([]byte, 4096)
				if _, err := v.ReadAt(got, s.pos+8192); err != nil {
					t.Errorf("in the zone, behind the damage: %v", err)
				}
				equal(t, "behind the damage", got, s.data[s.pos+8192:][:4096])
			}
		})
	}
}

// A torn zone needs its places; a stream has none. Without one the data comes
// from a stream, too.
func TestReencryptionFromStream(t *testing.T) {
	s := &torn{mode: "encrypt", direction: "forward", area: "checksum", old: plainData, new: xts256, block: 512, hash: "sha256", size: 128 * kib, pos: 48 * kib, zone: 16 * kib}
	s.build(t)
	o := unlockIt()
	o.Header = write(t, "header", s.header)
	var got bytes.Buffer
	_, err := Decrypt(t.Context(), DecryptOptions{Src: "-", Stdin: bytes.NewReader(s.with(s.newZone)), Dst: "-", Stdout: &got, Open: o})
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "online-reencrypt-v2") || got.Len() > 0 {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
}

// A data device that ends inside the zone is cut short, not read as zeros.
func TestTornZoneCut(t *testing.T) {
	s := &torn{mode: "encrypt", direction: "forward", area: "checksum", old: plainData, new: xts256, block: 512, hash: "sha256", size: 64 * kib, pos: 48 * kib, zone: 16 * kib}
	s.build(t)
	o := unlockIt()
	o.Header = write(t, "header", s.header[:len(s.header)-simArea]) // without the checksums
	v, err := Open(t.Context(), write(t, "volume", s.with(s.newZone)), o)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.ReadAt(make([]byte, 512), s.pos); !errors.Is(err, ErrTruncated) || !strings.Contains(err.Error(), "checksums") {
		t.Errorf("without checksums: %v", err)
	}
	if _, err := Open(t.Context(), write(t, "volume", s.with(s.newZone)[:s.pos+512]), o); !errors.Is(err, ErrTruncated) {
		t.Errorf("a short device: %v", err)
	}
}

// Two keys, two passphrases: the one that opens the other keyslot only does not
// open the data, and the error says which key is missing.
func TestReencryptionOtherPassphrase(t *testing.T) {
	s := &torn{mode: "reencrypt", direction: "forward", area: "journal", old: xts256, new: xts256, size: 128 * kib, pos: 48 * kib, zone: 16 * kib}
	s.build(t)
	o := unlockIt()
	o.Header = write(t, "header", s.header)
	path := write(t, "volume", s.with(s.newZone))
	o.VolumeKey = s.newKey
	if _, err := Open(t.Context(), path, o); !errors.Is(err, luks.ErrWrongPassphrase) || !strings.Contains(err.Error(), "digest 0 is missing") {
		t.Errorf("with one of two volume keys: %v", err)
	}
	o.VolumeKey = nil
	// The same key in another keyslot's hands: damage the old one's area.
	header := slices.Clone(s.header)
	copy(header[32*kib:], noise(8, 128*kib))
	o.Header = write(t, "header", header)
	if _, err := Open(t.Context(), path, o); !errors.Is(err, luks.ErrWrongPassphrase) || !strings.Contains(err.Error(), "keyslot 1 opened") {
		t.Errorf("with one of two keyslots: %v", err)
	}
	v, err := Unlock(t.Context(), o.Header, unlockIt())
	if err != nil {
		t.Fatalf("the key itself: %v", err)
	}
	v.Close()
}

// Reading many small ranges at once gives the same.
func TestTornReencryptionConcurrent(t *testing.T) {
	s := &torn{mode: "reencrypt", direction: "forward", area: "checksum", old: cbcESSIV, new: xts256, block: 4096, hash: "sha256", size: 128 * kib, pos: 48 * kib, zone: 16 * kib}
	s.build(t)
	p := s.open(t)
	m := device.NewMemory(s.size, 512)
	if _, err := m.WriteAt(s.with(s.mixed(func(i int) bool { return i%3 == 0 || i > 20 })), 0); err != nil {
		t.Fatal(err)
	}
	v := p.view(m, s.size)
	done := make(chan bool, 4)
	for w := range 4 {
		go func() {
			rng := rand.New(rand.NewPCG(uint64(w), 7))
			ok := true
			for range 200 {
				at := rng.Int64N(s.size - 6000)
				got := make([]byte, 1+rng.IntN(6000))
				_, err := v.ReadAt(got, at)
				ok = ok && err == nil && bytes.Equal(got, s.data[at:at+int64(len(got))])
			}
			done <- ok
		}()
	}
	for range 4 {
		if !<-done {
			t.Error("another plaintext")
		}
	}
}
