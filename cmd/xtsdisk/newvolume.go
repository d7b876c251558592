package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

// newVolumeFlags are the options of verbs that make a volume: what it is to
// be, and what opens it.
type newVolumeFlags struct {
	volume volumeFlags
	keys   keyFlags
}

func (n *newVolumeFlags) register(cmd *cobra.Command, plain bool) {
	n.keys.register(cmd.Flags(), false)
	n.volume.registerNew(cmd, plain)
}

// check finds what contradicts; dst is the new volume.
func (n *newVolumeFlags) check(dst string, dataFromStdin bool) error {
	if err := n.volume.check(false); err != nil {
		return err
	}
	if err := checkDescriptor(n.volume.volumeKeyFile); err != nil {
		return err
	}
	if err := checkSpared(dst, append(n.keys.files(), n.volume.volumeKeyFile, n.volume.header)...); err != nil {
		return err
	}
	if !n.volume.plain() {
		if err := n.volume.kdf.check(); err != nil {
			return err
		}
	}
	return n.keys.check(dataFromStdin)
}

// newKeys are the secrets of a volume that is being made.
type newKeys struct{ passphrase, volumeKey *key }

func (k *newKeys) destroy() {
	for _, one := range []*key{k.passphrase, k.volumeKey} {
		if one != nil {
			one.Destroy()
		}
	}
}

// luksKeys asks for the passphrase, reads the volume key if one was given, and
// measures the key derivation.
func (n *newVolumeFlags) luksKeys(ctx context.Context, a *app, m *meter, name string, o *luks.FormatOptions, k *newKeys) (err error) {
	if k.passphrase, err = n.keys.readNew(a, name); err != nil {
		return err
	}
	if n.volume.volumeKeyFile != "" {
		if k.volumeKey, err = readVolumeKey(a, n.volume.volumeKeyFile); err != nil {
			return err
		}
		bytes := o.KeySize
		if bytes == 0 {
			bytes = 64
		}
		if n := k.volumeKey.Len(); n != bytes {
			return usagef("is it the right file?", "%s has %d bytes, a volume key of %d bits (--key-size) needs %d", k.volumeKey.from, n, bytes*8, bytes)
		}
		o.VolumeKey = k.volumeKey.Bytes()
	}
	m.set(volume.Progress{Phase: phaseMeasure})
	o.Passphrase = k.passphrase.Bytes()
	o.KDF, err = n.volume.kdf.choose(ctx, a, n.volume.hash)
	if n.volume.kdf.iterations > 0 {
		o.DigestIterations = 1000 // as cryptsetup: no measuring here either
	}
	return err
}

// explainKey says what to do about a volume key that is not to be used.
func (n *newVolumeFlags) explainKey(err error) error {
	if n.volume.volumeKeyFile == "" || !errors.Is(err, luks.ErrPolicy) {
		return err
	}
	return withHint(err, "make another key, such as by  head -c 64 /dev/urandom > FILE")
}

// readVolumeKey reads the exact bytes of --volume-key-file.
func readVolumeKey(a *app, name string) (*key, error) {
	what := "volume key file " + name
	if name == stdinName {
		return nil, usagef("", "--volume-key-file cannot be standard input")
	}
	f, err := a.open(name, &what)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, plainPathError(err))
	}
	defer closeQuietly(f)
	buf, more, err := readSecret(f, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, plainPathError(err))
	}
	a.tellUnlocked()
	if more {
		buf.Destroy()
		return nil, usagef("is it the right file?", "%s is longer than 8 MiB", what)
	}
	if buf.Len() == 0 {
		buf.Destroy()
		return nil, usagef("is it the right file?", "%s is empty", what)
	}
	return &key{Buffer: buf, from: what, keyFile: true}, nil
}

// checkStdout refuses what cannot go to standard output together with data,
// and data that would garble a terminal.
func (a *app) checkStdout(dst string) error {
	switch {
	case dst != stdinName && namesTerminal(dst):
		return refusef("name a file as the target", "%s is a terminal: the data would garble it", dst)
	case dst != stdinName:
		return nil
	case a.json:
		return usagef("name a file as the target, or leave --json away", "the data goes to standard output, so the report cannot")
	case a.io.outTTY:
		return refusef("name a file as the target, or add  > FILE", "standard output is the terminal: encrypted data would garble it")
	}
	return nil
}

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// explainTarget says what to do about a target that cannot be written.
func explainTarget(a *app, dst string, err error) error {
	var known *failure
	if errors.As(err, &known) {
		return err
	}
	info, statErr := os.Stat(dst)
	folder := filepath.Dir(dst)
	switch {
	case dst == stdinName:
	case errors.Is(err, volume.ErrExists) && statErr == nil && !info.Mode().IsRegular() && !info.IsDir():
		return withHint(err, "everything on it would be lost; if that is meant, add --force")
	case errors.Is(err, volume.ErrExists), errors.Is(err, fs.ErrExist):
		return withHint(err, "name another target, or add --force to replace it")
	case statErr == nil && info.IsDir():
		return withHint(err, "the target is a folder; name a file in it, such as %s", shellQuote(filepath.Join(dst, "disk.luks")))
	case errors.Is(err, volume.ErrSize) && strings.HasPrefix(err.Error(), dst+":"):
		return withHint(err, "name a larger target")
	case errors.Is(err, luks.ErrUnsupported):
		return withHint(err, "LUKS volumes are aes-xts-plain64 and sha256 where --cipher and --hash are left away")
	case errors.Is(err, fs.ErrNotExist) && !exists(folder):
		return withHint(err, "there is no folder %s; make it first:  mkdir -p %s", folder, shellQuote(folder))
	}
	return err
}
