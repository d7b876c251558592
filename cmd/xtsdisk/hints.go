package main

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/internal/lock"
	"github.com/xtsdisk/xtsdisk/luks"
)

// hints says what to do about errors from below that need no more context
// than their kind. The verbs add better ones where they know more.
var hints = []struct {
	err  error
	text string
}{
	{luks.ErrNoMemory, "free memory or raise the limit; a volume with a cheaper key derivation is made with --pbkdf-memory KIB"},
	{luks.ErrWrongPassphrase, "mind keyboard layout, caps lock, and a newline at the end of a key file (--passphrase-file drops one)"},
	{luks.ErrKeyslotDamaged, "no passphrase can open it; restore the header from a backup if there is one"},
	{luks.ErrHeaderCorrupt, "restore the header from a backup if there is one"},
	{luks.ErrNoKey, "put it there:  keyctl padd user NAME @u < FILE"},
	{volume.ErrDetached, "name the file that holds the data, and this one with --header"},
	{volume.ErrUnrecoverable, "the rest of the volume reads:  xtsdisk cat --range START:LENGTH"},
	{volume.ErrTruncated, "copy it again from where it came, whole"},
	{volume.ErrKind, "name a regular file or a block device"},
	{errors.ErrUnsupported, "leave --direct away, if it was given: not every filesystem can do it"},
	{volume.ErrSame, "name another target; nothing is encrypted in place"},
	{volume.ErrIsLUKS, "leave --type plain away to open it as LUKS, or add --force if it really is plain"},
	{lock.ErrInUse, "unmount it, detach it or end the program that uses it, then try again"},
	{syscall.EFBIG, "files there cannot be so large, or a limit (ulimit -f) keeps this program from writing such; name a target elsewhere"},
	{syscall.EMFILE, "raise the limit of open files:  ulimit -n 64"},
	{syscall.EROFS, "it can only be read; name a target elsewhere"},
	{volume.ErrNoSpace, "make room, or name a target elsewhere"},
	{syscall.ENOSPC, "make room, or name a target elsewhere"},
	{volume.ErrSourceChanged, "stop what changes the source, and try again"},
	{device.ErrShortSource, "stop what changes the source, and try again"},
	{fs.ErrPermission, "try as a user who may, or make it readable (source) or its folder writable (target)"},
}
