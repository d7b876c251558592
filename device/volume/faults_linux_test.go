package volume

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

// A small file system of its own: what cannot fit is refused before the data,
// and what fills up on the way leaves nothing.
func TestNoSpace(t *testing.T) {
	testenv.Feature(t, os.Geteuid() == 0, "root")
	dir := t.TempDir()
	testenv.Feature(t, unix.Mount("xtsdisk-test", dir, "tmpfs", 0, "size=2m") == nil, "mount")
	defer unix.Unmount(dir, unix.MNT_DETACH) // also if a failure keeps a file open
	src := write(t, "src", noise(1, 4*mib))
	data := false
	progress := func(p Progress) { data = data || p.Phase == PhaseData }
	_, err := Encrypt(t.Context(), EncryptOptions{Src: src, Dst: dir + "/out", Luks: cheap(), Progress: progress})
	refused(t, "encrypt", err, ErrNoSpace, dir)
	if data {
		t.Error("want of space showed only while copying")
	}
	only(t, dir)
	_, err = Decrypt(t.Context(), DecryptOptions{Src: src, Dst: dir + "/out", Open: OpenOptions{Plain: plainOf(512)}})
	refused(t, "decrypt", err, ErrNoSpace, dir)
	only(t, dir)
	_, err = Encrypt(t.Context(), EncryptOptions{Src: "-", Stdin: bytes.NewReader(noise(1, 4*mib)), Dst: dir + "/out", Luks: cheap()})
	refused(t, "encrypt a pipe", err, ErrNoSpace, dir)
	only(t, dir)
}
