package volume

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/hashes"
	"github.com/xtsdisk/xtsdisk/internal/sector"
	"github.com/xtsdisk/xtsdisk/luks"
)

// coding is how data is encrypted in a simulated reencryption.
type coding struct {
	name       string // "": not at all
	keySize    int
	sectorSize int
}

var (
	plainData   = coding{"", 0, 512}
	xts256      = coding{"aes-xts-plain64", 32, 512}
	xts512large = coding{"aes-xts-plain64", 64, 4096}
	cbcESSIV    = coding{"aes-cbc-essiv:sha256", 32, 512}
	adiantum    = coding{"xchacha12,aes-adiantum-plain64", 32, 4096}
)

// encrypt returns p encrypted as the part of the data from byte pos on is.
func (c coding) encrypt(t *testing.T, key, p []byte, pos int64) []byte {
	t.Helper()
	out := slices.Clone(p)
	if c.name == "" {
		return out
	}
	spec, err := sector.Parse(c.name)
	if err != nil {
		t.Fatal(err)
	}
	x, err := spec.New(key, sector.Options{SectorSize: c.sectorSize})
	if err != nil {
		t.Fatal(err)
	}
	x.Encrypt(out, out, uint64(pos)/512)
	return out
}

// torn is a reencryption that was broken off, made here: the header by hand,
// the data by our own ciphers.
type torn struct {
	mode, direction, area string
	old, new              coding
	block                 int // of checksums
	hash                  string

	size             int64 // of the data
	oldOff, newOff   int64 // where it lay and will lie
	movedOff, moved  int64 // the first bytes of the data, kept elsewhere; moved 0: none
	pos, zone, shift int64

	data           []byte
	oldKey, newKey []byte
	header         []byte
	device         []byte // without the zone's contents
	oldZone        []byte // as it was, in the old coding
	newZone        []byte
}

// place is a segment of the simulation.
type place struct {
	c          coding
	key        []byte
	off, start int64 // on the device, in the data
	size       int64 // -1: to the end
	flags      []string
	digests    []string
}

func (p place) json() map[string]any {
	size := "dynamic"
	if p.size >= 0 {
		size = fmt.Sprint(p.size)
	}
	m := map[string]any{"type": "linear", "offset": fmt.Sprint(p.off), "size": size}
	if p.flags != nil {
		m["flags"] = p.flags
	}
	if p.c.name != "" {
		m["type"], m["encryption"], m["sector_size"] = "crypt", p.c.name, p.c.sectorSize
		m["iv_tweak"] = fmt.Sprint(p.start / 512)
	}
	return m
}

// build makes the header and the device.
func (s *torn) build(t *testing.T) {
	t.Helper()
	s.data = noise(uint64(s.pos)+3, int(s.size))
	s.format(t)
	oldIs := func(off, start, size int64, flags ...string) place {
		return place{s.old, s.oldKey, off, start, size, flags, digestOf(s.old, "0")}
	}
	newID := "1"
	if s.mode == "encrypt" {
		newID = "0"
	}
	newIs := func(off, start, size int64, flags ...string) place {
		return place{s.new, s.newKey, off, start, size, flags, digestOf(s.new, newID)}
	}
	var list []place
	at := int64(0)
	add := func(p place) {
		if p.size > 0 {
			list, at = append(list, p), at+p.size
		}
	}
	hot := newIs(s.newOff+s.pos, s.pos, s.zone, "in-reencryption")
	hot.digests = append(slices.Clone(hot.digests), digestOf(s.old, "0")...)
	if s.pos > 0 {
		add(oldIs(s.movedOff, 0, s.moved))
	}
	first, second := newIs, oldIs
	firstOff, secondOff := s.newOff, s.oldOff
	if s.direction == "backward" {
		first, second, firstOff, secondOff = oldIs, newIs, s.oldOff, s.newOff
	}
	add(first(firstOff+at, at, s.pos-at))
	add(hot)
	if s.moved > 0 && s.pos == 0 {
		second, secondOff = newIs, s.newOff
	}
	add(second(secondOff+at, at, s.size-at))

	s.device = noise(99, int(max(s.oldOff, s.newOff, s.movedOff)+s.size))
	for _, p := range list {
		if p.flags == nil {
			copy(s.device[p.off:], p.c.encrypt(t, p.key, s.data[p.start:p.start+p.size], p.start))
		}
	}
	part := s.data[s.pos : s.pos+s.zone]
	s.oldZone, s.newZone = s.old.encrypt(t, s.oldKey, part, s.pos), s.new.encrypt(t, s.newKey, part, s.pos)
	from := s.oldOff + s.pos
	if s.moved > 0 && s.pos == 0 {
		from = s.movedOff
	}
	copy(s.device[from:], s.oldZone)

	list = append(list, oldIs(s.oldOff, 0, -1, "backup-previous"), newIs(s.newOff, 0, -1, "backup-final"))
	if s.moved > 0 {
		list = append(list, oldIs(s.movedOff, 0, s.moved, "backup-moved-segment"))
	}
	s.describe(t, list)
}

func digestOf(c coding, id string) []string {
	if c.name == "" {
		return nil
	}
	return []string{id}
}

const simArea = 64 << 10 // bytes of the reencrypt keyslot's area, the last of the keyslots area

// format makes a header with the keys that are needed: digest 0 has the old
// one, or the only one.
func (s *torn) format(t *testing.T) {
	t.Helper()
	first := s.old
	if first.name == "" {
		first = s.new
	}
	m := device.NewMemory(2*mib, 512)
	o := luks.FormatOptions{
		Cipher: first.name, KeySize: first.keySize, SectorSize: first.sectorSize,
		KeyslotsSize: 256<<10 + simArea, DataOffset: mib,
		KDF: cheap().KDF, DigestIterations: 1000, Passphrase: passphrase,
	}
	if s.mode == "reencrypt" {
		o.KeyslotsSize += 256 << 10
	}
	v, err := luks.Format(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	key := slices.Clone(v.Key())
	v.Close()
	switch s.mode {
	case "encrypt":
		s.newKey = key
	case "decrypt":
		s.oldKey = key
	case "reencrypt":
		s.oldKey, s.newKey = key, noise(1000+uint64(s.pos), s.new.keySize)
		e, err := luks.Edit(t.Context(), m, m.Size())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.AddKey(t.Context(), nil, luks.NewKeyslot{Slot: 1, Passphrase: passphrase, KDF: cheap().KDF, Key: s.newKey, DigestIterations: 1000}); err != nil {
			t.Fatal(err)
		}
	}
	s.header = make([]byte, 32<<10+o.KeyslotsSize)
	if _, err := m.ReadAt(s.header, 0); err != nil {
		t.Fatal(err)
	}
}

// describe writes segments, keyslot, digest and requirement into the header,
// and into its area what protects the zone.
func (s *torn) describe(t *testing.T, list []place) {
	t.Helper()
	area := int64(len(s.header)) - simArea
	slot := "1"
	if s.mode == "reencrypt" {
		slot = "2"
	}
	s.header = editHeader(t, s.header, func(text string) string {
		var j map[string]map[string]any
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			t.Fatal(err)
		}
		a := map[string]any{"type": s.area, "offset": fmt.Sprint(area), "size": fmt.Sprint(simArea)}
		if s.block > 0 {
			a["hash"], a["sector_size"] = s.hash, s.block
		}
		if s.shift > 0 {
			a["shift_size"] = fmt.Sprint(s.shift)
		}
		j["keyslots"][slot] = map[string]any{"type": "reencrypt", "key_size": 1, "mode": s.mode, "direction": s.direction, "area": a}
		j["segments"] = map[string]any{}
		members := map[string][]string{"0": {}, "1": {}}
		for i, p := range list {
			j["segments"][fmt.Sprint(i)] = p.json()
			for _, d := range p.digests {
				members[d] = append(members[d], fmt.Sprint(i))
			}
		}
		for id, d := range j["digests"] {
			d.(map[string]any)["segments"] = members[id]
		}
		salt := noise(5, 32)
		sum, err := pbkdf2.Key(sha256.New, string(s.vouched(list, area)), salt, 1000, 32)
		if err != nil {
			t.Fatal(err)
		}
		j["digests"][slot] = map[string]any{
			"type": "pbkdf2", "keyslots": []string{slot}, "segments": []string{}, "hash": "sha256", "iterations": 1000,
			"salt": base64.StdEncoding.EncodeToString(salt), "digest": base64.StdEncoding.EncodeToString(sum),
		}
		j["config"]["requirements"] = map[string]any{"mandatory": []string{"online-reencrypt-v2"}}
		out, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	})
	if s.block > 0 {
		for i := 0; i < len(s.oldZone); i += s.block {
			h := hashes.ByName(s.hash)()
			h.Write(s.oldZone[i : i+s.block])
			area += int64(copy(s.header[area:], h.Sum(nil)))
		}
	} else {
		copy(s.header[area:], s.oldZone[:min(simArea, len(s.oldZone))])
	}
}

// vouched is what the digest vouches for.
func (s *torn) vouched(list []place, area int64) []byte {
	b := slices.Concat([]byte("v2"), s.oldKey, s.newKey, []byte(s.mode+s.direction+s.area))
	number := func(n int64) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	number(area)
	number(simArea)
	if s.block > 0 {
		b = append(b, s.hash...)
		b = binary.BigEndian.AppendUint32(b, uint32(s.block))
	}
	if s.shift > 0 {
		number(s.shift)
	}
	for _, p := range list {
		if p.flags == nil || p.flags[0] == "in-reencryption" {
			continue
		}
		m := p.json()
		b = append(b, m["type"].(string)...)
		number(p.off)
		if p.size < 0 {
			b = append(b, "dynamic"...)
		} else {
			number(p.size)
		}
		if p.c.name != "" {
			number(p.start / 512)
			b = append(b, p.c.name...)
			b = binary.BigEndian.AppendUint32(b, uint32(p.c.sectorSize))
		}
	}
	return b
}

// with returns the device with these contents of the zone.
func (s *torn) with(zone []byte) []byte {
	d := slices.Clone(s.device)
	copy(d[s.newOff+s.pos:], zone)
	return d
}

// mixed is the zone with sectors of 512 bytes old or, where isNew says so, new.
func (s *torn) mixed(isNew func(i int) bool) []byte {
	zone := slices.Clone(s.oldZone)
	if s.newOff != s.oldOff && !(s.pos == 0 && s.moved > 0 && s.movedOff == s.newOff) {
		zone = noise(44, len(zone)) // what was there before has nothing to do with it
	}
	for i := range len(zone) / 512 {
		if isNew(i) {
			copy(zone[i*512:(i+1)*512], s.newZone[i*512:])
		}
	}
	return zone
}

// open returns the payload, by way of the file of the header.
func (s *torn) open(t *testing.T) *payload {
	t.Helper()
	v, err := Unlock(t.Context(), write(t, "header", s.header), unlockIt())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	p, err := luksPayload(v, false)
	if err != nil {
		t.Fatal(err)
	}
	m := device.NewMemory(int64(len(s.header)), 512)
	if _, err := m.WriteAt(s.header, 0); err != nil {
		t.Fatal(err)
	}
	p.hot.head = m
	return p
}

// reads returns all of the data on the device.
func (s *torn) reads(p *payload, disk []byte) ([]byte, error) {
	m := device.NewMemory(int64(len(disk)), 512)
	if _, err := m.WriteAt(disk, 0); err != nil {
		return nil, err
	}
	v := p.view(m, s.size)
	got := make([]byte, s.size)
	if n, err := v.ReadAt(got, 0); err != nil && (err != io.EOF || n < len(got)) {
		return nil, err
	}
	return got, nil
}
