package volume

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/luks"
)

// table collects a row for each image, and fails with it.
type table struct {
	out  *tabwriter.Writer
	text *strings.Builder
	bad  []string
	rows int
}

func newTable() *table {
	b := &strings.Builder{}
	return &table{out: tabwriter.NewWriter(b, 0, 4, 2, ' ', 0), text: b}
}

func (b *table) add(name, kind, result string, err error) {
	b.rows++
	if err != nil {
		result = "WRONG: " + err.Error()
		b.bad = append(b.bad, name)
	}
	fmt.Fprintf(b.out, "%s\t%s\t%s\n", name, kind, result)
}

func (b *table) show(t *testing.T) {
	t.Helper()
	_ = b.out.Flush()
	t.Logf("%d images\n%s", b.rows, b.text)
	if len(b.bad) > 0 {
		t.Errorf("%d images are wrong: %s", len(b.bad), strings.Join(b.bad, ", "))
	}
}

// weakOnes are volumes that open behind AllowWeak only.
func weakOnes(name string) bool {
	return strings.HasSuffix(name, "-null") || strings.Contains(name, "lrw")
}

// Every volume that cryptsetup and dm-crypt made, but for those with
// integrity, decrypts to the recorded plaintext with every passphrase that is
// to open it, and to nothing with the others.
func TestFixtures(t *testing.T) {
	if testing.Short() {
		t.Skip("key derivations of real cost: some 30 s")
	}
	b := newTable()
	for _, f := range fixtures(t) {
		if f.Type == "integrity" || strings.HasPrefix(f.Name, "luks2-int-") {
			continue
		}
		if f.Type == "plain" {
			err := f.decrypts(t, OpenOptions{Plain: f.plain(t)}, nil)
			b.add(f.Name, f.Type, "plaintext as recorded", err)
			continue
		}
		var errs []error
		result := ""
		for i := range f.Unlock {
			said, err := f.tryUnlock(t, i)
			if result != "" {
				result += ", "
			}
			result += said
			errs = append(errs, err)
		}
		b.add(f.Name, f.Type, result, errors.Join(errs...))
	}
	if b.rows < 70 {
		t.Errorf("only %d images", b.rows)
	}
	b.show(t)
}

// tryUnlock decrypts with unlock entry i of the manifest.
func (f fixture) tryUnlock(t *testing.T, i int) (string, error) {
	o := OpenOptions{Passphrase: f.secret(t, i), Slot: luks.AnySlot}
	if weakOnes(f.Name) {
		if err := f.decrypts(t, o, luks.ErrPolicy); err != nil {
			return "", fmt.Errorf("without AllowWeak: %w", err)
		}
		o.Policy.AllowWeak = true
	}
	u := f.Unlock[i]
	switch {
	case u.Opens:
		return fmt.Sprintf("slot %d opens", u.Slot), f.decrypts(t, o, nil)
	case u.NeedsSlot:
		err := f.decrypts(t, o, luks.ErrWrongPassphrase)
		o.Slot = u.Slot
		return fmt.Sprintf("slot %d opens by its number", u.Slot), errors.Join(err, f.decrypts(t, o, nil))
	case u.Unbound:
		err := f.decrypts(t, o, luks.ErrWrongPassphrase)
		o.Slot = u.Slot
		return fmt.Sprintf("slot %d is unbound", u.Slot), errors.Join(err, f.decrypts(t, o, luks.ErrPolicy))
	}
	return fmt.Sprintf("slot %d does not open", u.Slot), f.decrypts(t, o, luks.ErrWrongPassphrase)
}

// decrypts returns nil if Decrypt gives the recorded plaintext or, if want is
// not nil, that error and no output.
func (f fixture) decrypts(t *testing.T, o OpenOptions, want error) error {
	path := write(t, "volume", testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.File.File)))
	if f.Header != nil {
		o.Header = write(t, "header", testenv.Unxz(t, testenv.Data(t, "fixtures/"+f.Header.File)))
	}
	out := path + ".plain"
	_, err := Decrypt(t.Context(), DecryptOptions{Src: path, Dst: out, Open: o})
	if want != nil {
		if _, e := os.Lstat(out); e == nil {
			return errors.New("there is output")
		}
		if !errors.Is(err, want) {
			return fmt.Errorf("%v, not %w", err, want)
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer os.Remove(out)
	if got := read(t, out); sum(got) != f.PayloadSha256 {
		return fmt.Errorf("another plaintext, of %d bytes; recorded are %d", len(got), f.PayloadLen)
	}
	return nil
}

// peer is an image of cryptsetup's own tests. Images that open have a file
// system inside that is known by its signature.
type peer struct {
	archive    string
	passphrase string
	keyFile    string // in the archive
	slot       int
	err        error  // what opening it gives
	word       string // in the error
}

// peers says what every image is to give, by archive.
var peers = []peer{
	{archive: "luks1-images.tar.xz", keyFile: "luks1-images/keyfile1", slot: luks.AnySlot},
	{archive: "luks2_mda_images.tar.xz", passphrase: "Qx3qn46vq0v", slot: luks.AnySlot},
	{archive: "compatimage.img.xz", passphrase: "compatkey", slot: luks.AnySlot},
	{archive: "compatimage2.img.xz", passphrase: "compatkey", slot: luks.AnySlot},
	{archive: "compatv10image.img.xz", passphrase: "compatkey", slot: luks.AnySlot},
	{archive: "luks2_keyslot_unassigned.img.xz", passphrase: "compatkey", slot: luks.AnySlot},
	{archive: "luks2_keyslot_unassigned.img.xz", passphrase: "93R4P4pIqAH8", slot: luks.AnySlot, err: luks.ErrWrongPassphrase, word: "keyslot 0"},
	{archive: "luks2_keyslot_unassigned.img.xz", passphrase: "93R4P4pIqAH8", slot: 1, err: luks.ErrPolicy, word: "keyslot 1"},
	{archive: "luks2_header_requirements.tar.xz", passphrase: "blablabl", slot: luks.AnySlot},
	{archive: "luks2_invalid_cipher.img.xz", slot: luks.AnySlot, err: luks.ErrWrongPassphrase, word: "keyslot 0"}, // its cipher is taken for aes-xts-plain64
	{archive: "evil_hdr-keyslot_overlap.xz", err: luks.ErrHeaderCorrupt},
	{archive: "evil_hdr-luks_hdr_damage.xz", err: luks.ErrHeaderCorrupt},
	{archive: "evil_hdr-payload_overwrite.xz", err: luks.ErrHeaderCorrupt},
	{archive: "evil_hdr-small_luks_device.xz", err: luks.ErrHeaderCorrupt},
	{archive: "evil_hdr-stripes_payload_dmg.xz", err: luks.ErrHeaderCorrupt},
	{archive: "valid_header_file.xz", slot: luks.AnySlot, err: luks.ErrNoKeyslot},
	{archive: "blkid-luks2-pv.img.xz", err: luks.ErrNotLUKS, word: "lvm2"},
	{archive: "luks2_valid_hdr.img.xz", slot: luks.AnySlot, err: luks.ErrUnsupported, word: `"argon2"`},
	{archive: "img_fs_ext4.img.xz", err: luks.ErrNotLUKS},
	{archive: "img_fs_vfat.img.xz", err: luks.ErrNotLUKS},
	{archive: "img_fs_xfs.img.xz", err: luks.ErrNotLUKS},
	{archive: "img_fs_xfs5.img.xz", err: luks.ErrNotLUKS},
	{archive: "xfs_512_block_size.img.xz", err: luks.ErrNotLUKS},
}

// Every image of cryptsetup's own tests.
func TestPeerImages(t *testing.T) {
	b := newTable()
	tried := map[string]bool{"README.md": true}
	for _, p := range peers {
		tried[p.archive] = true
		files := unpackPeer(t, p.archive)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if strings.Contains(name, "keyfile") || strings.HasSuffix(name, "README") {
				continue
			}
			one := p
			if strings.HasSuffix(name, "luks2_header_requirements") {
				one.err, one.word = luks.ErrUnsupported, `requirement "req0"`
			}
			if p.keyFile != "" {
				one.passphrase = string(files[p.keyFile])
			}
			said, err := one.try(t, name, files[name])
			b.add(name, imageKind(files[name]), said, err)
		}
	}
	list, err := os.ReadDir(testenv.Data(t, "peer-images"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if !tried[f.Name()] {
			t.Errorf("%s was not tried", f.Name())
		}
	}
	b.show(t)
}

func imageKind(image []byte) string {
	if v, ok := luks.Detect(bytes.NewReader(image)); ok {
		return fmt.Sprintf("luks%d", v)
	}
	return "none"
}

// try opens the image: with the plaintext's file system, or the right error.
func (p peer) try(t *testing.T, name string, image []byte) (string, error) {
	path := write(t, "volume", image)
	o := OpenOptions{Passphrase: []byte(p.passphrase), Slot: p.slot, Policy: luks.Policy{AllowWeak: strings.Contains(name, "lrw")}}
	v, err := Open(t.Context(), path, o)
	if p.err != nil {
		if err == nil {
			v.Close()
		}
		if !errors.Is(err, p.err) || !strings.Contains(err.Error(), p.word) {
			return "", fmt.Errorf("%v, not %w with %q", err, p.err, p.word)
		}
		return p.err.Error(), nil
	}
	if errors.Is(err, ErrTruncated) {
		return "opens; the file has no data", nil
	}
	if err != nil {
		return "", err
	}
	defer v.Close()
	found := ""
	for _, f := range probe.Identify(v, v.Size()) {
		found = f.Name
	}
	if found == "" && strings.HasPrefix(p.archive, "luks1-images") {
		return "", errors.New("opens, but its plaintext is no VFAT")
	}
	return fmt.Sprintf("slot %d opens; its plaintext is %s", v.Slot, cmp.Or(found, "not known")), nil
}

// unpackPeer returns the file, or the files of the archive.
func unpackPeer(t *testing.T, name string) map[string][]byte {
	b := testenv.Unxz(t, testenv.Data(t, "peer-images/"+name))
	if !strings.HasSuffix(name, ".tar.xz") {
		return map[string][]byte{name: b}
	}
	out := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		f, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.Typeflag != tar.TypeReg {
			continue
		}
		if out[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// Segments that do not lie in the order of the data, one of them plain, are
// one plaintext, from a file; a stream would have to go back.
func TestSeveralSegments(t *testing.T) {
	data := noise(7, 3*mib)
	src := write(t, "src", data[:mib])
	path, _ := roundTrip(t, src, EncryptOptions{Luks: cheap()}, unlockIt())
	image := read(t, path)
	at := int64(len(image) - mib)
	// The data, encrypted, then a plain segment in front of another encrypted one.
	image = append(image, make([]byte, 2*mib)...)
	copy(image[at+2*mib:], data[mib:2*mib])
	p := payloadOf(t, path)
	if err := p.encrypt(image[at+mib:][:mib], data[2*mib:], 2*mib); err != nil {
		t.Fatal(err)
	}
	image = editSegments(t, image, fmt.Sprintf(`"0":{"type":"crypt","offset":"%d","size":"%d","iv_tweak":"0","encryption":"aes-xts-plain64","sector_size":512},`+
		`"1":{"type":"linear","offset":"%d","size":"%d"},`+
		`"2":{"type":"crypt","offset":"%d","size":"%d","iv_tweak":"%d","encryption":"aes-xts-plain64","sector_size":512}`,
		at, mib, at+2*mib, mib, at+mib, mib, 2*mib/512))
	volume := write(t, "volume", image)
	o := unlockIt()
	if _, err := Open(t.Context(), volume, o); !errors.Is(err, ErrPolicy) {
		t.Errorf("without AllowWeak: %v", err)
	}
	o.Policy.AllowWeak = true
	out := filepath.Join(t.TempDir(), "plain")
	if _, err := Decrypt(t.Context(), DecryptOptions{Src: volume, Dst: out, Open: o}); err != nil {
		t.Fatal(err)
	}
	equal(t, "decrypted", read(t, out), data)
	v, err := Open(t.Context(), volume, o)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	got := make([]byte, v.Size())
	if _, err := v.ReadAt(got, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	equal(t, "opened", got, data)
	_, err = Decrypt(t.Context(), DecryptOptions{Src: "-", Stdin: bytes.NewReader(image), Dst: out + ".2", Open: o})
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "order") {
		t.Errorf("from a stream: %v", err)
	}
}

// payloadOf is the payload of a volume made with cheap.
func payloadOf(t *testing.T, path string) *payload {
	t.Helper()
	o := unlockIt()
	v, err := Unlock(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	p, err := luksPayload(v, false)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// editSegments puts other segments into both copies of a header.
func editSegments(t *testing.T, image []byte, members string) []byte {
	t.Helper()
	var ids []string
	var parsed map[string]json.RawMessage
	if err := json.Unmarshal([]byte("{"+members+"}"), &parsed); err != nil {
		t.Fatal(err)
	}
	for id := range parsed {
		ids = append(ids, `"`+id+`"`)
	}
	return editHeader(t, image, func(text string) string {
		i := strings.Index(text, `"segments":{`) + len(`"segments":{`)
		end := i + strings.Index(text[i:], "}}")
		text = text[:i] + members + text[end+1:]
		return strings.Replace(text, `"segments":["0"]`, `"segments":[`+strings.Join(slices.DeleteFunc(ids, func(id string) bool {
			return bytes.Contains(parsed[strings.Trim(id, `"`)], []byte("linear"))
		}), ",")+`]`, 1)
	})
}
