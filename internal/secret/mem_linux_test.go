package secret

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
	"golang.org/x/sys/unix"
)

func checkCoreDumps(t *testing.T) {
	t.Helper()
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &r); err != nil || r.Cur != 0 || r.Max != 0 {
		t.Errorf("RLIMIT_CORE %+v, %v", r, err)
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || n != 0 {
		t.Errorf("dumpable %d, %v", n, err)
	}
}

// The kernel's own view of a buffer: locked, left out of core dumps, not
// copied to child processes. lo, dd and dc are VmFlags of proc_pid_smaps(5).
func TestMapping(t *testing.T) {
	b := New(100)
	defer b.Destroy()
	testenv.Feature(t, showsFlags(t), "smaps")
	flags := vmFlags(&b.Bytes()[0])
	for want, ok := range map[string]bool{"dd": true, "dc": true, "lo": b.Locked()} {
		if strings.Contains(flags+" ", " "+want+" ") != ok {
			t.Errorf("flags %q: %s should be %v", flags, want, ok)
		}
	}
}

// showsFlags tells whether the system shows what madvise did; an emulator of
// another processor does not.
func showsFlags(t *testing.T) bool {
	t.Helper()
	p, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(p)
	return unix.Madvise(p, unix.MADV_DONTDUMP) == nil && strings.Contains(vmFlags(&p[0])+" ", " dd ")
}

// vmFlags returns the flags of the mapping that holds p, or "" where the
// system does not tell.
func vmFlags(p *byte) string {
	addr := uintptr(unsafe.Pointer(p))
	smaps, _ := os.ReadFile("/proc/self/smaps")
	inside := false
	for line := range strings.Lines(string(smaps)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= addr && addr < to
		}
		if flags, ok := strings.CutPrefix(strings.TrimSpace(line), "VmFlags:"); ok && inside {
			return flags
		}
	}
	return ""
}

// Where the system gives no pages, plain memory serves, and is not given back
// to the system.
func TestMapRefused(t *testing.T) {
	defer func() { mmap = unix.Mmap }()
	mmap = func(int, int64, int, int, int) ([]byte, error) { return nil, unix.ENOMEM }
	b := New(9)
	if b.Locked() || b.own || len(b.Bytes()) != 9 {
		t.Errorf("Locked %v, own %v, %d bytes", b.Locked(), b.own, len(b.Bytes()))
	}
	memory := b.Bytes()
	copy(memory, "hunter2")
	b.Destroy()
	if !bytes.Equal(memory, make([]byte, 9)) {
		t.Errorf("left as %q", memory)
	}
}

// Without the right to lock memory a buffer works all the same, and says so.
func TestLockRefused(t *testing.T) {
	defer func(old func([]byte) error) { lock = old }(lock)
	lock = func([]byte) error { return unix.ENOMEM }
	b := New(9)
	defer b.Destroy()
	if b.Locked() || !Unlocked() {
		t.Errorf("Locked %v, Unlocked %v", b.Locked(), Unlocked())
	}
	copy(b.Bytes(), "hunter2")
	if !bytes.Equal(b.Bytes(), []byte("hunter2\x00\x00")) {
		t.Error("does not hold what is written")
	}
}
