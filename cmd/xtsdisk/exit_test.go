package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/internal/lock"
	"github.com/xtsdisk/xtsdisk/luks"
)

// The numbers are the contract of the design: 0 ok, 1 other, 2 usage, 3 wrong
// passphrase or no usable keyslot, 4 damaged, 5 unsupported, 6 refused, 7 I/O
// or no space, 9 no memory for the KDF, 10 not a volume, 130 and 143
// interrupted, 141 closed pipe.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.New("x"), 1},
		{usagef("", "x"), 2},
		{volume.ErrSize, 2},
		{luks.ErrSize, 2},
		{volume.ErrOptions, 2},
		{luks.ErrWrongPassphrase, 3},
		{luks.ErrNoKeyslot, 3},
		{luks.ErrKeyslotDamaged, 4},
		{luks.ErrHeaderCorrupt, 4},
		{volume.ErrTruncated, 4},
		{volume.ErrKind, 2},
		{errors.ErrUnsupported, 5},
		{luks.ErrUnsupported, 5},
		{volume.ErrUnsupported, 5},
		{refusef("", "x"), 6},
		{volume.ErrExists, 6},
		{volume.ErrSame, 6},
		{volume.ErrIsLUKS, 6},
		{luks.ErrPolicy, 6},
		{lock.ErrInUse, 6},
		{&lock.InUseError{Path: "p", How: "mounted"}, 6},
		{fs.ErrExist, 6},
		{syscall.ENOSPC, 7},
		{device.ErrNoSpace, 7},
		{volume.ErrNoSpace, 7},
		{volume.ErrSourceChanged, 7},
		{device.ErrShortSource, 7},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EIO}, 7},
		{os.ErrNotExist, 7},
		{luks.ErrNoMemory, 9},
		{luks.ErrNotLUKS, 10},
		{syscall.EPIPE, 141},
		{&signalError{syscall.SIGINT}, 130},
		{&signalError{syscall.SIGTERM}, 143},
		{&signalError{syscall.SIGHUP}, 129},
		{&signalError{syscall.SIGPIPE}, 141},
		{withHint(luks.ErrWrongPassphrase, "hint"), 3},
	} {
		for _, err := range []error{c.err, fmt.Errorf("a: %w", fmt.Errorf("b: %w", c.err))} {
			if got := codeOf(err, nil); int(got) != c.want {
				t.Errorf("%v: code %d, want %d", err, got, c.want)
			}
		}
		if exitCode(c.want).name() == "other" && c.want != 1 {
			t.Errorf("code %d has no name", c.want)
		}
	}
	if got := codeOf(errors.New("copy: context canceled"), &signalError{syscall.SIGTERM}); got != 143 {
		t.Errorf("an error after SIGTERM: code %d", got)
	}
}
