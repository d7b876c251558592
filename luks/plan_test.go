package luks

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What is planned is what is made.
func TestPlanIsWhatIsMade(t *testing.T) {
	for name, change := range map[string]func(*FormatOptions){
		"small":          func(*FormatOptions) {},
		"LUKS1":          func(o *FormatOptions) { o.Version, o.KeyslotsSize = 1, 0 },
		"offset":         func(o *FormatOptions) { o.KeyslotsSize, o.DataOffset = 0, 3<<20 },
		"metadata":       func(o *FormatOptions) { o.MetadataSize = 64 << 10 },
		"detached":       func(o *FormatOptions) { o.Detached = true },
		"detached LUKS1": func(o *FormatOptions) { o.Detached, o.Version, o.KeyslotsSize = true, 1, 0 },
	} {
		o := smallOptions()
		change(&o)
		o.DataSize = 10 << 20
		p, err := o.Plan()
		if err != nil {
			t.Fatal(name, err)
		}
		made, err := Prepare(t.Context(), o)
		if err != nil {
			t.Fatal(name, err)
		}
		h := made.Volume().Header
		if p.DataOffset != h.Segments[0].Offset || p.KeyslotsOffset != h.KeyslotsOffset() || p.HeaderSize != made.HeaderSize() || p.DataSize != 10<<20-p.DataOffset {
			t.Errorf("%s: %+v, made: %+v", name, p, h)
		}
		if o.Version != 1 && (p.KeyslotsSize != h.Config.KeyslotsSize || p.MetadataSize != h.Size) {
			t.Errorf("%s: %+v, made: %+v", name, p, h.Config)
		}
		if o.Detached != h.Detached() || o.Detached && p.HeaderSize < h.End() {
			t.Errorf("%s: detached: %v, %d bytes for %d", name, h.Detached(), p.HeaderSize, h.End())
		}
		made.Volume().Close()
	}
}

// A detached header is as long as cryptsetup's, and cryptsetup takes it.
func TestDetachedLikeCryptsetup(t *testing.T) {
	for _, version := range []string{"1", "2"} {
		for _, offset := range []int64{0, 32 << 20} {
			dir := t.TempDir()
			data, theirs := filepath.Join(dir, "data"), filepath.Join(dir, "theirs")
			if err := os.WriteFile(data, make([]byte, 40<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			pass := tempFile(t, []byte("small"))
			args := []string{"luksFormat", "-q", "--type", "luks" + version, "--header", theirs, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-size", "512", "--sector-size", "512", data, pass}
			if offset > 0 {
				args = append(args, "--offset", "65536")
			}
			if _, err := cryptsetup(t, args...); err != nil {
				t.Fatal(err)
			}
			o := smallOptions()
			o.Version, o.KeySize, o.KeyslotsSize, o.Detached, o.DataOffset = int(version[0]-'0'), 64, 0, true, offset
			made, err := Prepare(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			var image bytes.Buffer
			if n, err := made.WriteTo(&image); err != nil || n != made.HeaderSize() {
				t.Fatal(n, err)
			}
			made.Volume().Close()
			h := tempFile(t, image.Bytes())
			if _, err := cryptsetup(t, "open", "--test-passphrase", "--header", h, "--key-file", pass, data); err != nil {
				t.Error(err)
			}
			first := readFile(t, theirs)
			if offset == 0 && len(first) != image.Len() {
				t.Errorf("LUKS%s at %d: %d bytes, cryptsetup's has %d", version, offset, image.Len(), len(first))
			}
			ours, err := ReadHeader(bytes.NewReader(image.Bytes()), int64(image.Len()))
			if err != nil {
				t.Fatal(err)
			}
			want, err := ReadHeader(bytes.NewReader(first), int64(len(first)))
			if err != nil {
				t.Fatal(err)
			}
			if ours.Segments[0].Offset != want.Segments[0].Offset || ours.Config.KeyslotsSize != want.Config.KeyslotsSize {
				t.Errorf("LUKS%s: %+v, %+v; cryptsetup has %+v, %+v", version, ours.Segments, ours.Config, want.Segments, want.Config)
			}
			if v := open(t, first, "small"); v.Slot != 0 {
				t.Error(v.Slot)
			}
		}
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A detached header written over something else leaves nothing of that.
func TestDetachedInvalidates(t *testing.T) {
	o := smallOptions()
	o.Detached = true
	p, err := Prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Volume().Close()
	image := memory(bytes.Repeat([]byte{7}, int(p.HeaderSize())))
	if err := p.Invalidate(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(image, 7) {
		t.Error("something is left")
	}
	if err := p.Write(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	open(t, image, "small")
}

func TestKeyslotCipherOptions(t *testing.T) {
	for _, c := range []struct {
		change func(*FormatOptions)
		err    error
		word   string
	}{
		{func(o *FormatOptions) { o.KeyslotCipher = "rot13-xts-plain64" }, ErrUnsupported, "rot13"},
		{func(o *FormatOptions) { o.KeyslotCipher = "cipher_null-ecb" }, ErrPolicy, "null"},
		{func(o *FormatOptions) { o.KeyslotKeySize = 7 }, ErrOption, "7 bytes"},
		{func(o *FormatOptions) { o.Version, o.KeyslotsSize, o.KeyslotKeySize = 1, 0, 64 }, ErrOption, "LUKS1"},
	} {
		o := smallOptions()
		c.change(&o)
		wantNamed(t, o.Check(), c.err, c.word)
	}
}

// Costs for another machine keep to half of its memory and to its processors.
func TestChooseForMachine(t *testing.T) {
	for _, c := range []struct {
		t            KDFTarget
		kib, threads int
	}{
		{KDFTarget{MachineKiB: 4096, MachineCPUs: 1, ForceIterations: 4}, 2048, 1},
		{KDFTarget{MachineKiB: 4096, MachineCPUs: 3, ForceIterations: 4}, 2048, 3},
		{KDFTarget{MachineKiB: 4096, MachineCPUs: 64, ForceIterations: 4, MaxMemoryKiB: 1024}, 1024, 4},
		{KDFTarget{MachineKiB: 4096, MachineCPUs: 64, ForceIterations: 4, MaxThreads: 2}, 2048, 2},
		{KDFTarget{MachineKiB: 1, MachineCPUs: 1, ForceIterations: 4}, 32, 1},
	} {
		k, err := ChooseKDF(t.Context(), c.t)
		if err != nil || k.MemoryKiB != c.kib || k.Threads != c.threads {
			t.Errorf("%+v: %+v, %v", c.t, k, err)
		}
	}
	if _, err := ChooseKDF(t.Context(), KDFTarget{MachineCPUs: -1}); err == nil {
		t.Error("a machine with -1 processors")
	}
}
