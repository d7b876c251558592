package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/internal/lock"
	"github.com/xtsdisk/xtsdisk/luks"
)

// exitCode is what the program returns: a contract with scripts, described in
// docs/cli.md, which is generated from exitCodes.
type exitCode int

const (
	exitOK          exitCode = 0
	exitOther       exitCode = 1
	exitUsage       exitCode = 2
	exitPassphrase  exitCode = 3
	exitDamaged     exitCode = 4
	exitUnsupported exitCode = 5
	exitRefused     exitCode = 6
	exitIO          exitCode = 7
	exitAuth        exitCode = 8
	exitMemory      exitCode = 9
	exitNotVolume   exitCode = 10
	exitDiffers     exitCode = 11
	exitHangup      exitCode = 129
	exitInterrupted exitCode = 130
	exitClosedPipe  exitCode = 141
	exitTerminated  exitCode = 143
)

// exitCodes names each code, as the JSON reports do, and says what it stands
// for and what cryptsetup returns there ("-": nothing comparable).
var exitCodes = []struct {
	code       exitCode
	name       string
	meaning    string
	cryptsetup string
}{
	{exitOK, "ok", "done", "0"},
	{exitOther, "other", "any other failure", "1"},
	{exitUsage, "usage", "the command line does not fit: options, arguments, sizes, no terminal to ask on", "1"},
	{exitPassphrase, "wrong-passphrase", "wrong passphrase, or no usable keyslot", "2"},
	{exitDamaged, "damaged", "damaged data or header; of an unlock only if every keyslot tried is damaged", "1"},
	{exitUnsupported, "unsupported", "a cipher, hash, format or requirement that this version does not have", "1"},
	{exitRefused, "refused", "in use, would overwrite, against the policy", "1, 5"},
	{exitIO, "io", "reading or writing failed: no such file, no permission, no space, an I/O error", "1, 4"},
	{exitAuth, "authentication", "authentication failure: data was tampered with or damaged", "-"},
	{exitMemory, "no-memory", "not enough memory for the key derivation", "3"},
	{exitNotVolume, "not-a-volume", "no volume of a known format", "1"},
	{exitDiffers, "differs", "the headers differ (header diff)", "-"},
	{exitHangup, "hangup", "SIGHUP", "-"},
	{exitInterrupted, "interrupted", "SIGINT (Ctrl-C)", "-"},
	{exitClosedPipe, "closed-pipe", "the reader of the output went away (SIGPIPE)", "-"},
	{exitTerminated, "terminated", "SIGTERM", "-"},
}

func (c exitCode) name() string {
	for _, e := range exitCodes {
		if e.code == c {
			return e.name
		}
	}
	return "other"
}

// failure is an error that the command line itself found; it knows its code,
// and what the person should do next.
type failure struct {
	code exitCode
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// reported is an exit code whose reason stands in the report on stdout.
type reported struct{ code exitCode }

func (r *reported) Error() string { return "the report says why: " + r.code.name() }

// sentinels maps the decisions of the packages below to codes. The first that
// matches counts, so the narrow ones come first.
var sentinels = []struct {
	err  error
	code exitCode
}{
	{luks.ErrNoMemory, exitMemory},
	{luks.ErrWrongPassphrase, exitPassphrase},
	{luks.ErrNoKeyslot, exitPassphrase},
	{luks.ErrNoKey, exitPassphrase},
	{luks.ErrKeyslotDamaged, exitDamaged},
	{luks.ErrHeaderCorrupt, exitDamaged},
	{luks.ErrDamagedCopy, exitDamaged},
	{volume.ErrTruncated, exitDamaged},
	{volume.ErrUnrecoverable, exitDamaged},
	{luks.ErrNotLUKS, exitNotVolume},
	{luks.ErrUnsupported, exitUnsupported},
	{luks.ErrPolicy, exitRefused},
	{volume.ErrExists, exitRefused},
	{volume.ErrSame, exitRefused},
	{volume.ErrIsLUKS, exitRefused},
	{volume.ErrDetached, exitUsage},
	{volume.ErrTable, exitDamaged},
	{lock.ErrInUse, exitRefused},
	{volume.ErrNoSpace, exitIO},
	{volume.ErrSize, exitUsage},
	{device.ErrPartialUnit, exitUsage},
	{volume.ErrOptions, exitUsage},
	{volume.ErrKind, exitUsage},
	{volume.ErrSourceChanged, exitIO},
	{device.ErrShortSource, exitIO},
	{errors.ErrUnsupported, exitUnsupported},
	{fs.ErrExist, exitRefused},
	{fs.ErrNotExist, exitIO},
	{fs.ErrPermission, exitIO},
}

// codeOf returns the exit code for an error. cause is why the run's context
// was cancelled, or nil: what a signal broke off counts as that signal,
// whatever error it surfaced as.
func codeOf(err, cause error) exitCode {
	var sig *signalError
	if errors.As(cause, &sig) || errors.As(err, &sig) {
		return sig.code()
	}
	if errors.Is(err, syscall.EPIPE) {
		return exitClosedPipe
	}
	var said *reported
	if errors.As(err, &said) {
		return said.code
	}
	var f *failure
	if errors.As(err, &f) && f.code != exitOK {
		return f.code
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.code
		}
	}
	if isIO(err) {
		return exitIO
	}
	return exitOther
}

func isIO(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	var sys *os.SyscallError
	var errno syscall.Errno
	return errors.As(err, &path) || errors.As(err, &link) || errors.As(err, &sys) || errors.As(err, &errno)
}

// cancelled returns the signal that ended ctx, if one did.
func cancelled(ctx context.Context) error {
	var sig *signalError
	if cause := context.Cause(ctx); errors.As(cause, &sig) {
		return sig
	}
	return nil
}
