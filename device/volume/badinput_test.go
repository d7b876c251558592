package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/xtsdisk/xtsdisk/internal/lock"
	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"github.com/xtsdisk/xtsdisk/luks"
)

// refused checks an error by its sentinel and by what its text must name.
func refused(t *testing.T, what string, err, want error, names ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v; want %v", what, err, want)
		return
	}
	for _, n := range names {
		if !strings.Contains(err.Error(), n) {
			t.Errorf("%s: %q does not name %q", what, err, n)
		}
	}
}

// By file and, with the same contents, from standard input.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		size, sector int
		names        []string
	}{
		{0, 0, []string{"it is empty"}},
		{1, 0, []string{"1 bytes", "sector size 512", "the nearest is 512"}},
		{1000, 0, []string{"1000 bytes", "the nearest are 512 and 1024"}},
		{4096 + 512, 4096, []string{"4608 bytes", "sector size 4096", "the nearest are 4096 and 8192"}},
		{3*mib + 1, 0, []string{"the nearest are 3145728 and 3146240"}},
	} {
		data := noise(1, c.size)
		src := write(t, "src", data)
		l := cheap()
		l.SectorSize = c.sector
		p := plainOf(max(c.sector, 512))
		for _, e := range []EncryptOptions{{Luks: l}, {Plain: p}} {
			e.Src, e.Dst = src, src+".volume"
			_, err := Encrypt(t.Context(), e)
			refused(t, fmt.Sprintf("%d bytes", c.size), err, ErrSize, append(c.names, src)...)
			e.Src, e.Stdin = "-", bytes.NewReader(data)
			_, err = Encrypt(t.Context(), e)
			refused(t, fmt.Sprintf("%d bytes from a pipe", c.size), err, ErrSize, append(c.names, "standard input")...)
		}
		only(t, filepath.Dir(src), "src")
		equal(t, "the source", read(t, src), data)
	}
}

func TestSectorSizeFor(t *testing.T) {
	ext := filesystem(1, mib)
	for _, c := range []struct {
		size int64
		want int
	}{{mib, 4096}, {mib - 512, 512}, {4096, 4096}} {
		if got := SectorSizeFor(bytes.NewReader(ext), c.size); got != c.want {
			t.Errorf("%d bytes: %d, want %d", c.size, got, c.want)
		}
	}
	if got := SectorSizeFor(bytes.NewReader(noise(1, mib)), mib); got != 512 {
		t.Errorf("nothing known: %d", got)
	}
}

func TestTargetExists(t *testing.T) {
	data := noise(1, mib)
	src := write(t, "src", data)
	for _, c := range []struct {
		name  string
		old   []byte
		names []string
	}{
		{"empty", nil, nil},
		{"filesystem", filesystem(1, mib), []string{"holds ext4"}},
		{"noise", noise(2, 100), nil},
	} {
		dst := write(t, "dst", c.old)
		_, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: dst, Luks: cheap()})
		refused(t, c.name, err, ErrExists, append(c.names, dst)...)
		equal(t, c.name, read(t, dst), c.old)
		if _, err = Encrypt(t.Context(), EncryptOptions{Src: src, Dst: dst, Luks: cheap(), Force: true}); err != nil {
			t.Errorf("%s, with force: %v", c.name, err)
		}
		only(t, filepath.Dir(dst), "dst")

		volume := dst
		dst = write(t, "dst", c.old)
		_, err = Decrypt(t.Context(), DecryptOptions{Src: volume, Dst: dst, Open: unlockIt()})
		refused(t, c.name, err, ErrExists, append(c.names, dst)...)
		equal(t, c.name, read(t, dst), c.old)
		if _, err = Decrypt(t.Context(), DecryptOptions{Src: volume, Dst: dst, Open: unlockIt(), Force: true}); err != nil {
			t.Errorf("%s, with force: %v", c.name, err)
		}
		equal(t, c.name+", decrypted", read(t, dst), data)
	}
}

// With force a symbolic link stays and what it leads to is replaced.
func TestForceThroughSymlink(t *testing.T) {
	data := noise(1, mib)
	src, real := write(t, "src", data), write(t, "real", []byte("old"))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: link, Plain: plainOf(512), Force: true}); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", st, err)
	}
	if st, err := os.Stat(real); err != nil || st.Size() != mib {
		t.Errorf("%v, %v", st, err)
	}
	only(t, filepath.Dir(link), "link")
}

func TestTargetIsSource(t *testing.T) {
	data := noise(1, mib)
	src := write(t, "src", data)
	dir := filepath.Dir(src)
	if err := os.Symlink("src", dir+"/symlink"); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(src, dir+"/hard"); err != nil {
		t.Fatal(err)
	}
	for _, dst := range []string{src, dir + "/symlink", dir + "/hard", dir + "/../" + filepath.Base(dir) + "/src"} {
		for _, force := range []bool{false, true} {
			_, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: dst, Luks: cheap(), Force: force})
			refused(t, "encrypt", err, ErrSame, src, dst)
			_, err = Decrypt(t.Context(), DecryptOptions{Src: src, Dst: dst, Force: force, Open: OpenOptions{Plain: plainOf(512)}})
			refused(t, "decrypt", err, ErrSame, src, dst)
		}
	}
	equal(t, "the source", read(t, src), data)
	only(t, dir, "src", "symlink", "hard")
}

func TestKindsOfFile(t *testing.T) {
	src := write(t, "src", noise(1, mib))
	dir := t.TempDir()
	if err := os.Symlink("nowhere", dir+"/dangling"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{dir, ErrKind},
		{dir + "/dangling", ErrKind},
		{dir + "/missing/x", os.ErrNotExist},
	} {
		_, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: c.path, Luks: cheap(), Force: true})
		refused(t, "to "+c.path, err, c.want)
		_, err = Encrypt(t.Context(), EncryptOptions{Src: c.path, Dst: dir + "/out", Luks: cheap()})
		refused(t, "from "+c.path, err, c.want)
		_, err = Open(t.Context(), c.path, unlockIt())
		refused(t, "open "+c.path, err, c.want)
		_, _, err = Format(t.Context(), FormatOptions{Path: c.path, Luks: *cheap(), Force: true})
		refused(t, "format "+c.path, err, c.want)
	}
	_, err := Open(t.Context(), "/dev/null", unlockIt())
	refused(t, "open a stream", err, ErrKind)
	_, _, err = Format(t.Context(), FormatOptions{Path: "/dev/null", Luks: *cheap()})
	refused(t, "format a stream", err, ErrKind)
	_, _, err = Format(t.Context(), FormatOptions{Path: "/dev/null", Luks: *cheap(), Create: mib, Force: true})
	refused(t, "create a stream", err, ErrKind)
	only(t, dir, "dangling")
}

func TestInUse(t *testing.T) {
	testenv.Feature(t, runtime.GOOS != "windows", "file locks")
	src := write(t, "src", noise(1, mib))
	dst := write(t, "dst", []byte("old"))
	release, err := lock.HoldPath(dst, false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Encrypt(t.Context(), EncryptOptions{Src: src, Dst: dst, Luks: cheap(), Force: true})
	refused(t, "encrypt", err, lock.ErrInUse, dst)
	_, _, err = Format(t.Context(), FormatOptions{Path: dst, Luks: *cheap(), Force: true})
	refused(t, "format", err, lock.ErrInUse, dst)
	release()
	equal(t, "the target", read(t, dst), []byte("old"))

	volume, _ := roundTrip(t, src, EncryptOptions{Luks: cheap()}, unlockIt())
	o := unlockIt()
	o.Writable = true
	v, err := Open(t.Context(), volume, o)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	_, err = Open(t.Context(), volume, o)
	refused(t, "open for writing twice", err, lock.ErrInUse, volume)
	r, err := Open(t.Context(), volume, unlockIt())
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "in use") {
		t.Fatalf("read what is being written: %v, %v", r, err)
	}
	r.Close()
}

// A source that somebody writes to is read, with a warning.
func TestSourceInUse(t *testing.T) {
	testenv.Feature(t, runtime.GOOS != "windows", "file locks")
	src := write(t, "src", noise(1, mib))
	release, err := lock.HoldPath(src, true)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var told []string
	report, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: src + ".volume", Luks: cheap(), Warn: func(s string) { told = append(told, s) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "mix states") || len(told) != 1 || told[0] != report.Warnings[0] {
		t.Errorf("warnings %q, told %q", report.Warnings, told)
	}
}

func TestOptions(t *testing.T) {
	src := write(t, "src", noise(1, mib))
	plain := func(change func(*PlainOptions)) *PlainOptions {
		p := plainOf(512)
		change(p)
		return p
	}
	for name, c := range map[string]struct {
		e     EncryptOptions
		want  error
		names []string
	}{
		"neither":          {EncryptOptions{}, ErrOptions, nil},
		"both":             {EncryptOptions{Luks: cheap(), Plain: plainOf(512)}, ErrOptions, nil},
		"no stdin":         {EncryptOptions{Src: "-", Luks: cheap()}, ErrOptions, []string{"standard input"}},
		"no stdout":        {EncryptOptions{Dst: "-", Luks: cheap()}, ErrOptions, []string{"standard output"}},
		"no cipher":        {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Cipher = "" })}, ErrOptions, []string{"must be given"}},
		"no key":           {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Key = nil })}, ErrOptions, []string{"0 bytes"}},
		"no sector size":   {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.SectorSize = 0 })}, ErrOptions, []string{"must be given"}},
		"unknown cipher":   {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Cipher = "rot13-xts-plain64" })}, ErrUnsupported, []string{"rot13"}},
		"unknown iv":       {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Cipher = "aes-xts-plain63" })}, ErrUnsupported, []string{"plain63"}},
		"key size":         {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Key = make([]byte, 33) })}, ErrOptions, []string{"33 bytes"}},
		"sector size":      {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.SectorSize = 8192 })}, ErrOptions, []string{"8192"}},
		"offset":           {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Offset = 100 })}, ErrOptions, []string{"offset 100"}},
		"negative offset":  {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Offset = -512 })}, ErrOptions, []string{"-512"}},
		"skip in a sector": {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.SectorSize, p.Skip = 4096, 512 })}, ErrOptions, []string{"skip 512"}},
		"negative skip":    {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Skip = -512 })}, ErrOptions, []string{"skip -512"}},
		"size":             {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Size = 100 })}, ErrOptions, []string{"size 100"}},
		"overflow":         {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Offset, p.Size = 1<<62, 1<<62+1<<61 })}, ErrOptions, nil},
		"smaller size":     {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Size = 512 })}, ErrSize, []string{src, "for a volume of 512"}},
		"equal halves":     {EncryptOptions{Plain: plain(func(p *PlainOptions) { p.Key = bytes.Repeat([]byte("k"), 64) })}, nil, []string{"halves"}},
		"luks sector size": {EncryptOptions{Luks: func() *luks.FormatOptions { l := cheap(); l.SectorSize = 513; return l }()}, ErrOptions, []string{"513"}},
		"luks cipher":      {EncryptOptions{Luks: func() *luks.FormatOptions { l := cheap(); l.Cipher = "aes-foo-bar"; return l }()}, ErrUnsupported, []string{"aes-foo-bar"}},
	} {
		if c.e.Src == "" {
			c.e.Src = src
		}
		if c.e.Dst == "" {
			c.e.Dst = src + ".volume"
		}
		_, err := Encrypt(t.Context(), c.e)
		if c.want == nil && err != nil {
			c.want = err
		}
		refused(t, name, err, c.want, c.names...)
		only(t, filepath.Dir(src), "src")
	}
	// From a pipe the limit shows on the way.
	_, err := Encrypt(t.Context(), EncryptOptions{Src: "-", Stdin: bytes.NewReader(noise(1, 1024)), Dst: src + ".volume",
		Plain: plain(func(p *PlainOptions) { p.Size = 512 })})
	refused(t, "a pipe with too much", err, ErrSize, "for a volume of 512")
	only(t, filepath.Dir(src), "src")
}

// A key with two equal halves is refused for new volumes, and opens old ones.
func TestEqualHalvesOpen(t *testing.T) {
	p := plainOf(512)
	p.Key = bytes.Repeat([]byte("k"), 64)
	v, err := Open(t.Context(), write(t, "volume", noise(1, mib)), OpenOptions{Plain: p})
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
}

func TestUnlockErrors(t *testing.T) {
	volume, _ := roundTrip(t, write(t, "src", noise(1, mib)), EncryptOptions{Luks: cheap()}, unlockIt())
	dir := filepath.Dir(volume)
	for name, c := range map[string]struct {
		o    OpenOptions
		src  string
		want error
	}{
		"wrong passphrase":   {OpenOptions{Passphrase: []byte("wrong"), Slot: luks.AnySlot}, volume, luks.ErrWrongPassphrase},
		"empty passphrase":   {OpenOptions{Slot: luks.AnySlot}, volume, luks.ErrWrongPassphrase},
		"wrong key":          {OpenOptions{VolumeKey: noise(1, 32)}, volume, luks.ErrWrongPassphrase},
		"no such slot":       {OpenOptions{Passphrase: passphrase, Slot: 3}, volume, luks.ErrNoKeyslot},
		"not a volume":       {unlockIt(), write(t, "noise", noise(1, mib)), luks.ErrNotLUKS},
		"not the header":     {OpenOptions{Passphrase: passphrase, Slot: luks.AnySlot, Header: write(t, "noise", noise(2, mib))}, volume, luks.ErrNotLUKS},
		"no such header":     {OpenOptions{Passphrase: passphrase, Header: dir + "/none"}, volume, os.ErrNotExist},
		"plain has no slots": {OpenOptions{Plain: plainOf(512), Passphrase: passphrase}, volume, ErrIsLUKS},
	} {
		_, err := Decrypt(t.Context(), DecryptOptions{Src: c.src, Dst: dir + "/out", Open: c.o})
		refused(t, name, err, c.want)
		_, err = Open(t.Context(), c.src, c.o)
		refused(t, name+", open", err, c.want)
		if c.o.Header == "" {
			f, openErr := os.Open(c.src)
			if openErr != nil {
				t.Fatal(openErr)
			}
			_, err = Decrypt(t.Context(), DecryptOptions{Src: "-", Stdin: f, Dst: dir + "/out", Open: c.o})
			refused(t, name+", from a pipe", err, c.want)
			f.Close()
		}
		only(t, dir, "volume", "plain")
	}
}

func TestTruncatedVolume(t *testing.T) {
	data := noise(1, mib)
	volume, _ := roundTrip(t, write(t, "src", data), EncryptOptions{Luks: cheap()}, unlockIt())
	whole := read(t, volume)
	const offset = 160 << 10
	for _, c := range []struct {
		size, left int // bytes of plaintext left; -1: refused
	}{
		{offset, -1}, {offset + 1, -1}, {offset + 511, -1}, {offset + 512, 512}, {offset + 5000, 4608}, {len(whole), mib},
	} {
		path := write(t, "volume", whole[:c.size])
		report, err := Decrypt(t.Context(), DecryptOptions{Src: path, Dst: path + ".plain", Open: unlockIt()})
		var out bytes.Buffer
		piped, pipeErr := Decrypt(t.Context(), DecryptOptions{Src: "-", Stdin: bytes.NewReader(whole[:c.size]), Dst: "-", Stdout: &out, Open: unlockIt()})
		if c.left < 0 {
			refused(t, fmt.Sprint(c.size), err, ErrTruncated)
			refused(t, fmt.Sprint(c.size, " from a pipe"), pipeErr, ErrTruncated)
			only(t, filepath.Dir(path), "volume")
			continue
		}
		if err != nil || pipeErr != nil {
			t.Fatal(err, pipeErr)
		}
		equal(t, fmt.Sprint(c.size), read(t, path+".plain"), data[:c.left])
		equal(t, fmt.Sprint(c.size, " from a pipe"), out.Bytes(), data[:c.left])
		if over := c.size - offset - c.left; over > 0 {
			text := fmt.Sprintf("the last %d bytes are less than a sector", over)
			for _, r := range []Report{report, piped} {
				if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], text) {
					t.Errorf("%d bytes: warnings %q", c.size, r.Warnings)
				}
			}
		}
	}
	// A plain volume's offset is an option.
	p := plainOf(512)
	p.Offset = 4096
	for _, size := range []int{100, 4096, 4100} {
		o := OpenOptions{Plain: p}
		_, err := Open(t.Context(), write(t, "plain", make([]byte, size)), o)
		refused(t, fmt.Sprint("plain, ", size), err, ErrSize)
		_, err = Decrypt(t.Context(), DecryptOptions{Src: "-", Stdin: bytes.NewReader(make([]byte, size)), Dst: "-", Stdout: io.Discard, Open: o})
		refused(t, fmt.Sprint("plain from a pipe, ", size), err, ErrSize)
	}
	_, err := Decrypt(t.Context(), DecryptOptions{Src: "-", Stdin: bytes.NewReader(whole[:3000]), Dst: "-", Stdout: io.Discard, Open: unlockIt()})
	if err == nil || errors.Is(err, luks.ErrWrongPassphrase) {
		t.Errorf("a pipe cut in the header: %v", err)
	}
}

// The 32-bit IV: refused when creating, a warning when reading. The sizes are
// those of sparse files.
func TestPlainIVLimit(t *testing.T) {
	src := write(t, "src", nil)
	for _, c := range []struct {
		size, skip   int64
		sectorSize   int
		large, short bool
	}{
		{2<<40 + 512, 0, 512, false, false},
		{2 << 40, 512, 512, false, false},
		{16<<40 + 4096, 0, 4096, true, false},
		{2<<40 + 4096, 0, 4096, false, false},
		{512, 2 << 40, 512, false, false},
		{512, 2<<40 - 512, 512, false, true},
		{8192, 16<<40 - 8192, 4096, true, true},
		{8192, 16<<40 - 4096, 4096, true, false},
	} {
		// Filesystems differ in how large a file may be.
		if err := os.Truncate(src, c.size); err != nil {
			t.Logf("not tried: %v", err)
			continue
		}
		p := plainOf(c.sectorSize)
		p.Cipher, p.Skip, p.IVLargeSectors = "aes-xts-plain", c.skip, c.large
		_, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: src + ".volume", Plain: p})
		if c.short {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			os.Remove(src + ".volume")
		} else {
			refused(t, fmt.Sprintf("%+v", c), err, ErrPolicy, "aes-xts-plain", "plain64")
			only(t, filepath.Dir(src), "src")
		}
		v, err := Open(t.Context(), src, OpenOptions{Plain: p})
		if err != nil {
			t.Fatal(err)
		}
		if warned := len(v.Warnings) == 1 && strings.Contains(v.Warnings[0], "IVs repeat"); warned == c.short {
			t.Errorf("%+v: warnings %q", c, v.Warnings)
		}
		v.Close()
		p.Cipher = "aes-xts-plain64"
		if v, err = Open(t.Context(), src, OpenOptions{Plain: p}); err != nil || len(v.Warnings) > 0 {
			t.Fatalf("plain64: %v, %v", v, err)
		}
		v.Close()
	}
	// From a pipe the limit shows on the way.
	p := plainOf(512)
	p.Cipher, p.Skip = "aes-xts-plain", 2<<40-512
	_, err := Encrypt(t.Context(), EncryptOptions{Src: "-", Stdin: bytes.NewReader(noise(1, 1024)), Dst: src + ".volume", Plain: p})
	refused(t, "a pipe", err, ErrPolicy, "plain64")
	var out bytes.Buffer
	report, err := Decrypt(t.Context(), DecryptOptions{Src: "-", Stdin: bytes.NewReader(noise(1, 1024)), Dst: "-", Stdout: &out, Open: OpenOptions{Plain: p}})
	if err != nil || len(report.Warnings) != 1 {
		t.Errorf("reading from a pipe: %+v, %v", report, err)
	}
	l := cheap()
	l.Cipher = "aes-xts-plain"
	if os.Truncate(src, 2<<40+512) == nil {
		_, err = Encrypt(t.Context(), EncryptOptions{Src: src, Dst: src + ".volume", Luks: l})
		refused(t, "LUKS", err, ErrPolicy, "plain64")
	}
}

func TestCancelBefore(t *testing.T) {
	src := write(t, "src", noise(1, mib))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(syscall.EINTR)
	_, err := Encrypt(ctx, EncryptOptions{Src: src, Dst: src + ".volume", Luks: cheap()})
	if !errors.Is(err, syscall.EINTR) && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	only(t, filepath.Dir(src), "src")
}
