package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/luks"
)

// The promises about crashes, each tried with devicetest's replay of what the
// job did to a recording device or folder, and again with every single flush
// and sync left out: that must show.

// contents is what lies on a disk before or after a job.
type contents struct {
	name       string
	image      *device.Memory
	bytes      []byte
	passphrase []byte // of a LUKS volume
}

func contentsOf(name string, b []byte) contents {
	m := device.NewMemory(int64(len(b)), 512)
	if _, err := m.WriteAt(b, 0); err != nil {
		panic(err)
	}
	return contents{name: name, image: m, bytes: b}
}

// filesystem looks like an ext4 to probe. Its first byte tells it apart.
func filesystem(seed uint64, size int) []byte {
	b := noise(seed, size)
	clear(b[:4096])
	copy(b[1024+56:], "\x53\xef")
	b[1024+24] = 2 // blocks of 4 KiB
	b[1024+96] = 0x42
	b[1024+100] = byte(seed)
	return b
}

// oldContents are what a job may find on a disk of size bytes.
func oldContents(t *testing.T, size int) []contents {
	t.Helper()
	old := contentsOf("a volume", noise(99, size))
	o := *cheap()
	o.Passphrase = []byte("the old one")
	o.DataOffset, o.KeyslotsSize = 288<<10, 256<<10 // secondary and keys elsewhere than in the new one
	v, err := luks.Format(t.Context(), old.image, o)
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	old.passphrase = o.Passphrase
	old.bytes = contentBytes(old.image)
	return []contents{
		contentsOf("zeros", make([]byte, size)),
		contentsOf("a filesystem", filesystem(98, size)),
		old,
	}
}

func contentBytes(m *device.Memory) []byte {
	b := make([]byte, m.Size())
	if _, err := m.ReadAt(b, 0); err != nil && err != io.EOF {
		panic(err)
	}
	return b
}

// fake is a system in memory: one source, one disk, one folder.
type fake struct {
	source []byte
	disk   *device.Record
	dir    *device.RecordDir
}

func (f *fake) system() system {
	s := host
	s.state = func(path string) (fileState, error) {
		switch path {
		case "source":
			return fileState{kind: regular, size: int64(len(f.source))}, nil
		case "disk":
			return fileState{kind: block}, nil
		case "old":
			return fileState{kind: regular}, nil
		}
		return fileState{kind: missing}, nil
	}
	s.open = func(path string, _ device.FileOptions) (device.Device, error) {
		if path == "source" {
			return contentsOf("", f.source).image, nil
		}
		return noClose{f.disk}, nil
	}
	s.folder = func(string, device.FileOptions) (device.Dir, error) { return f.dir, nil }
	s.same = func(string, string) (bool, error) { return false, nil }
	s.checkRead = func(string) error { return nil }
	s.checkWrite = s.checkRead
	s.hold = func(string, bool) (func(), error) { return func() {}, nil }
	s.holdHeader = func(context.Context, string) (func(), error) { return func() {}, nil }
	return s
}

type noClose struct{ device.Device }

func (noClose) Close() error { return nil }

// recordDisk runs a job on a disk that holds old, and returns its log.
func recordDisk(t *testing.T, old contents, source []byte, job func(r *run) error) []device.Op {
	t.Helper()
	f := &fake{source: source, disk: device.NewRecord(old.image.Clone())}
	if err := job(&run{system: f.system()}); err != nil {
		t.Fatal(err)
	}
	f.disk.Log().Mark("done")
	return f.disk.Log().Ops()
}

// stillOld returns nil if image is old but for the sectors by which old is
// recognised: a crash may have hit when some of them were gone.
func stillOld(image *device.Memory, old contents) error {
	got, want := contentBytes(image), bytes.Clone(old.bytes)
	for _, off := range probe.Places(bytes.NewReader(want), int64(len(want))) {
		clear(got[off : off+probe.SectorSize])
		clear(want[off : off+probe.SectorSize])
	}
	if !bytes.Equal(got, want) {
		return errors.New("the old contents are recognised and not whole")
	}
	return nil
}

// recognised tells whether image would be taken for c, which is not LUKS: it
// has a sector by which c is recognised.
func recognised(image *device.Memory, c contents) bool {
	for _, off := range probe.Places(bytes.NewReader(c.bytes), int64(len(c.bytes))) {
		b := make([]byte, probe.SectorSize)
		if _, err := image.ReadAt(b, off); err != nil && err != io.EOF {
			panic(err)
		}
		if bytes.Equal(b, c.bytes[off:off+probe.SectorSize]) {
			return true
		}
	}
	return false
}

// checkVolume is what holds of a disk that becomes a LUKS volume with the
// plaintext want (nil: anything), whenever the crash is.
func checkVolume(ctx context.Context, image *device.Memory, s devicetest.State, old contents, want []byte) error {
	done := s.Reached("done")
	h, err := luks.ReadHeader(image, image.Size())
	if errors.Is(err, luks.ErrNotLUKS) {
		if done {
			return fmt.Errorf("the job was done: %w", err)
		}
		if recognised(image, old) {
			return stillOld(image, old)
		}
		return nil
	}
	if err != nil {
		return err // damaged: neither old nor new
	}
	if done && len(h.Warnings) > 0 {
		return fmt.Errorf("the job was done and a copy of the header is not: %s", h.Warnings[0])
	}
	v, err := h.Unlock(ctx, image, passphrase, luks.UnlockOptions{Slot: luks.AnySlot})
	if err != nil {
		if done || old.passphrase == nil {
			return fmt.Errorf("there is a header without its key: %w", err)
		}
		if v, err = h.Unlock(ctx, image, old.passphrase, luks.UnlockOptions{Slot: luks.AnySlot}); err != nil {
			return fmt.Errorf("there is a header, and neither passphrase opens: %w", err)
		}
		v.Close()
		return stillOld(image, old)
	}
	defer v.Close()
	p, err := luksPayload(v, false)
	if err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := image.ReadAt(got, p.offset); err != nil && err != io.EOF {
		return err
	}
	if err := p.decrypt(got, got, 0); err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("the new volume opens and its data is not the source's (%v)", err)
	}
	return nil
}

// everySync is devicetest.EverySync over a disk.
func everySync(t *testing.T, ops []device.Op, old contents, check func(image *device.Memory, s devicetest.State) error) {
	t.Helper()
	replay := func(ops []device.Op) error {
		return devicetest.Replay(old.image, ops, check, devicetest.ReplayOptions{Seed: 1})
	}
	if old.name == "zeros" {
		// Nothing old to protect: what is there for that may go unnoticed.
		if err := replay(ops); err != nil {
			t.Errorf("on %s: %v", old.name, err)
		}
		return
	}
	t.Run(old.name, func(t *testing.T) { devicetest.EverySync(t, ops, replay) })
}

func TestCrashEncryptDisk(t *testing.T) {
	source := noise(20, 640<<10)
	for _, old := range oldContents(t, 2*mib) {
		ops := recordDisk(t, old, source, func(r *run) error {
			return r.encrypt(t.Context(), EncryptOptions{Src: "source", Dst: "disk", Force: true, Luks: cheap()})
		})
		everySync(t, ops, old, func(image *device.Memory, s devicetest.State) error {
			return checkVolume(t.Context(), image, s, old, source)
		})
	}
}

func TestCrashFormatDisk(t *testing.T) {
	for _, old := range oldContents(t, 2*mib) {
		ops := recordDisk(t, old, nil, func(r *run) error {
			_, err := r.format(t.Context(), FormatOptions{Path: "disk", Force: true, Luks: *cheap()})
			return err
		})
		everySync(t, ops, old, func(image *device.Memory, s devicetest.State) error {
			return checkVolume(t.Context(), image, s, old, nil)
		})
	}
}

// checkWhole is what holds of a disk that becomes new, which is no LUKS
// volume.
func checkWhole(image *device.Memory, s devicetest.State, old, now contents) error {
	got := contentBytes(image)
	if s.Reached("done") {
		if !bytes.Equal(got[:len(now.bytes)], now.bytes) {
			return errors.New("the job was done and the new contents are not there")
		}
		return nil
	}
	if recognised(image, now) {
		if !bytes.Equal(got[:len(now.bytes)], now.bytes) {
			return errors.New("the new contents are recognised and not whole")
		}
		return nil
	}
	if _, err := luks.ReadHeader(image, image.Size()); err == nil || recognised(image, old) {
		return stillOld(image, old)
	}
	return nil
}

func TestCrashDecryptDisk(t *testing.T) {
	now := contentsOf("the plaintext", filesystem(21, 1536<<10))
	p := plainOf(512)
	volume := encrypted(t, p, now.bytes)
	for _, old := range oldContents(t, 2*mib) {
		ops := recordDisk(t, old, volume, func(r *run) error {
			return r.decrypt(t.Context(), DecryptOptions{Src: "source", Dst: "disk", Force: true, Open: OpenOptions{Plain: p}})
		})
		everySync(t, ops, old, func(image *device.Memory, s devicetest.State) error {
			return checkWhole(image, s, old, now)
		})
	}
}

// encrypted is data as a plain volume.
func encrypted(t *testing.T, p *PlainOptions, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := Encrypt(t.Context(), EncryptOptions{Src: "-", Stdin: bytes.NewReader(data), Dst: "-", Stdout: &out, Plain: p}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestCrashEncryptPlainDisk(t *testing.T) {
	source := noise(22, 1536<<10)
	p := plainOf(512)
	now := contentsOf("the volume", encrypted(t, p, source))
	for _, old := range oldContents(t, 2*mib) {
		ops := recordDisk(t, old, source, func(r *run) error {
			return r.encrypt(t.Context(), EncryptOptions{Src: "source", Dst: "disk", Force: true, Plain: p})
		})
		everySync(t, ops, old, func(image *device.Memory, s devicetest.State) error {
			return checkWhole(image, s, old, now)
		})
	}
}

// crashFile runs a job whose target is a file in a folder, which holds an old
// file of that name or none, and checks that a crash leaves under the name
// what was there or the whole new file.
func crashFile(t *testing.T, target string, source []byte, job func(r *run) error, whole func(file *device.Memory) error) {
	t.Helper()
	initial := map[string]*device.Memory{}
	if target == "old" {
		initial[target] = contentsOf("", noise(23, 5000)).image
	}
	dir := t.TempDir()
	under, err := device.OSDir(dir, device.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if target == "old" {
		d, err := under.Create(target, device.CreateOptions{Size: 5000})
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
	}
	f := &fake{source: source, dir: device.NewRecordDir(under)}
	if err := job(&run{system: f.system()}); err != nil {
		t.Fatal(err)
	}
	f.dir.Log().Mark("done")
	only(t, dir, target)
	check := func(files map[string]*device.Memory, s devicetest.State) error {
		file := files[target]
		switch {
		case file == nil && (s.Reached("done") || target == "old"):
			return errors.New("the name is gone")
		case file == nil:
			return nil
		case target == "old" && bytes.Equal(contentBytes(file), contentBytes(initial[target])):
			if s.Reached("done") {
				return errors.New("the job was done and the old file is there")
			}
			return nil
		}
		return whole(file)
	}
	devicetest.EverySync(t, f.dir.Log().Ops(), func(ops []device.Op) error {
		return devicetest.ReplayDir(maps.Clone(initial), ops, check, devicetest.ReplayOptions{Seed: 1})
	})
}

func TestCrashFile(t *testing.T) {
	source := noise(24, 640<<10)
	p := plainOf(512)
	volume := encrypted(t, p, source)
	is := func(want []byte) func(*device.Memory) error {
		return func(file *device.Memory) error {
			if !bytes.Equal(contentBytes(file), want) {
				return errors.New("a file under its name, and not whole")
			}
			return nil
		}
	}
	opens := func(want []byte) func(*device.Memory) error {
		return func(file *device.Memory) error {
			done := devicetest.State{Marks: []string{"done"}}
			return checkVolume(t.Context(), file, done, contents{}, want)
		}
	}
	for _, target := range []string{"new", "old"} {
		for name, c := range map[string]struct {
			source []byte
			job    func(r *run) error
			whole  func(*device.Memory) error
		}{
			"encrypt": {source, func(r *run) error {
				return r.encrypt(t.Context(), EncryptOptions{Src: "source", Dst: target, Force: true, Luks: cheap()})
			}, opens(source)},
			"encrypt plain": {source, func(r *run) error {
				return r.encrypt(t.Context(), EncryptOptions{Src: "source", Dst: target, Force: true, Plain: p})
			}, is(volume)},
			"decrypt": {volume, func(r *run) error {
				return r.decrypt(t.Context(), DecryptOptions{Src: "source", Dst: target, Force: true, Open: OpenOptions{Plain: p}})
			}, is(source)},
			"format": {nil, func(r *run) error {
				_, err := r.format(t.Context(), FormatOptions{Path: target, Create: mib, Force: true, Luks: *cheap()})
				return err
			}, opens(nil)},
		} {
			t.Run(name+" "+target, func(t *testing.T) { crashFile(t, target, c.source, c.job, c.whole) })
		}
	}
}

// A volume that is written through Open promises what its Flush promises.
func TestOpenFlush(t *testing.T) {
	old := contentsOf("", encrypted(t, plainOf(512), noise(25, 64<<10)))
	f := &fake{disk: device.NewRecord(old.image.Clone())}
	r := &run{system: f.system()}
	v, err := r.openVolume(t.Context(), "disk", OpenOptions{Plain: plainOf(512), Writable: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.WriteAt([]byte("written"), 1000); err != nil {
		t.Fatal(err)
	}
	if err := v.Flush(); err != nil {
		t.Fatal(err)
	}
	f.disk.Log().Mark("done")
	if !slices.ContainsFunc(f.disk.Log().Ops(), func(o device.Op) bool { return o.Kind == device.OpFlush }) {
		t.Error("Flush did not reach the device")
	}
}
