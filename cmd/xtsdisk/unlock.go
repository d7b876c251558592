package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

// openFlags are the options of verbs that open a volume.
type openFlags struct {
	volume        volumeFlags
	keys          keyFlags
	volumeKeyFile string
	header        string
	slot          int
	token         int
	policy        policyFlags
	slotIsNew     bool // --key-slot was that of a keyslot to be made
	withoutHeader bool // the verb knows --type plain
}

// register adds the options; plain says that the verb also opens plain volumes.
func (o *openFlags) register(cmd *cobra.Command, plain bool) {
	fs := cmd.Flags()
	o.keys.register(fs, true)
	inGroup(fs, flagsKeys, func() {
		fs.StringVar(&o.volumeKeyFile, "volume-key-file", "", "`FILE`: holds the volume key, instead of a passphrase")
		fs.IntVarP(&o.slot, "key-slot", "S", luks.AnySlot, "`N`: try this keyslot only")
		fs.IntVar(&o.token, "token-id", luks.AnyToken, "`N`: take the passphrase from this token's key in the kernel's keyring")
		fs.StringVar(&o.header, "header", "", "`FILE`: holds the LUKS header, if it is detached")
	})
	registerInside(cmd)
	o.policy.register(fs)
	o.withoutHeader = plain
	if plain {
		o.volume.registerOpen(cmd)
	}
}

func (o *openFlags) check() error {
	if o.withoutHeader {
		if err := o.volume.check(true); err != nil {
			return err
		}
	}
	if fs := o.keys.fs; fs.Changed("key-slot") && !o.slotIsNew && (o.slot < 0 || o.slot > 31) {
		return usagef("", "--key-slot %d: keyslots are 0 to 31", o.slot)
	}
	if err := checkDescriptor(o.volumeKeyFile); err != nil {
		return err
	}
	if err := o.checkToken(); err != nil {
		return err
	}
	if given := o.keys.given(); o.volumeKeyFile != "" && len(given) > 0 {
		return usagef("give one of them only", "--volume-key-file and %s contradict each other", given[0])
	}
	return o.keys.check(false)
}

// checkToken checks --token-id.
func (o *openFlags) checkToken() error {
	if !o.keys.fs.Changed("token-id") {
		return nil
	}
	if err := checkToken(o.token); err != nil {
		return err
	}
	other := o.keys.given()
	if o.volumeKeyFile != "" {
		other = append(other, "--volume-key-file")
	}
	if len(other) > 0 {
		return usagef("give one of them only", "--token-id and %s contradict each other", other[0])
	}
	return nil
}

// open runs job, which opens the volume name with the options it is given. A
// wrong passphrase typed on the terminal is asked for again.
func (o *openFlags) open(a *app, name string, job func(volume.OpenOptions) error) error {
	return o.openKept(a, name, func(opts volume.OpenOptions, k *opening) error {
		err := job(opts)
		if err == nil {
			k.destroy()
		}
		return err
	})
}

// openKept is open for a job that needs the secret itself, which is the job's
// to destroy if it succeeds.
func (o *openFlags) openKept(a *app, name string, job func(volume.OpenOptions, *opening) error) error {
	if err := o.check(); err != nil {
		return err
	}
	policy, err := o.policy.policy()
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		opts := volume.OpenOptions{Slot: o.slot, Version: o.volume.openVersion(), Header: o.header, Inside: a.inside, Policy: policy, Warn: a.warn}
		k, err := o.prepare(a, name, &opts)
		if err != nil {
			return err
		}
		if err = job(opts, k); err == nil {
			return nil
		}
		typed := k.key != nil && k.key.typed()
		again := typed && try < o.keys.tries && errors.Is(err, luks.ErrWrongPassphrase)
		if !again {
			err = k.explain(a, err)
		}
		k.destroy()
		if !again {
			return err
		}
		a.note("wrong passphrase; try again")
	}
}

// opening is the secret of one attempt; it is filled in when it is asked for.
type opening struct{ key, volumeKey *key }

func (k *opening) destroy() {
	for _, one := range []*key{k.key, k.volumeKey} {
		if one != nil {
			one.Destroy()
		}
	}
}

func (o *openFlags) prepare(a *app, name string, opts *volume.OpenOptions) (*opening, error) {
	k := &opening{}
	if o.withoutHeader && o.volume.plain() {
		plain, err := o.volume.plainOptions(&o.keys)
		if err != nil {
			return nil, err
		}
		opts.Plain = plain
		opts.Ask = func(context.Context, *luks.Header) (_ []byte, err error) {
			if k.key, err = o.keys.read(a, name, false); err != nil {
				return nil, err
			}
			return o.volume.plainKey(a, k.key)
		}
		return k, nil
	}
	if o.keys.fs.Changed("token-id") {
		opts.Token = &o.token
		return k, nil
	}
	if o.volumeKeyFile != "" {
		var err error
		if k.volumeKey, err = readVolumeKey(a, o.volumeKeyFile); err != nil {
			return nil, err
		}
		opts.VolumeKey = k.volumeKey.Bytes()
		return k, nil
	}
	opts.Ask = func(context.Context, *luks.Header) (_ []byte, err error) {
		if k.key, err = o.keys.read(a, name, false); err != nil {
			return nil, err
		}
		return k.key.Bytes(), nil
	}
	return k, nil
}

// explain adds to a wrong passphrase what is known of where it came from.
func (k *opening) explain(a *app, err error) error {
	if !errors.Is(err, luks.ErrWrongPassphrase) {
		return explainPolicy(err)
	}
	switch {
	case k.volumeKey != nil:
		return withHint(err, "%s is not this volume's key; is it the right file?", k.volumeKey.from)
	case k.key == nil:
		return err
	case k.key.typed():
		return withHint(err, "mind the keyboard layout and caps lock; a passphrase that was stored in a file may end with a newline")
	case k.key.Len() == 0:
		return withHint(err, "%s is empty", k.key.from)
	case k.key.newline:
		return withHint(err, "%s ends with a newline, which counts; --passphrase-file drops it", k.key.from)
	case k.key.keyFile:
		return withHint(err, "is %s the right one, with the right --keyfile-offset and --keyfile-size?", k.key.from)
	}
	hint := fmt.Sprintf("is %s the right one? One newline at its end does not count; with --key-file it would", k.key.from)
	if b := k.key.Bytes(); b[len(b)-1] == '\r' {
		hint = k.key.from + " has Windows line ends: the carriage return before the newline counts"
	}
	return withHint(err, "%s", hint)
}

// isLUKS tells whether a file or device begins with a LUKS header.
func isLUKS(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeDevice {
		return false // opening anything else could block
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer closeQuietly(f)
	_, found := luks.Detect(f)
	return found
}

// explainSource says what to do about a volume that cannot be opened. dst is
// the target where the verb has one.
func (o *openFlags) explainSource(a *app, name, dst string, err error) error {
	var known *failure
	info, statErr := os.Stat(name)
	switch {
	case errors.As(err, &known):
	case errors.Is(err, luks.ErrNotLUKS) && name == stdinName:
		return withHint(err, "a plain volume, which has no header, needs --type plain and its options")
	case name == stdinName:
	case errors.Is(statErr, fs.ErrNotExist):
		return withHint(err, "check the name of the volume: there is no %s", name)
	case statErr == nil && info.IsDir():
		return withHint(err, "%s is a folder; name a volume in it", name)
	case errors.Is(err, volume.ErrSize) && strings.HasPrefix(err.Error(), name+":"):
		return withHint(err, "is it the right file, whole, with the right --offset and --size?")
	case errors.Is(err, luks.ErrUnsupported) && strings.Contains(err.Error(), `requirement "online-reencrypt`):
		return withHint(err, "finish its reencryption first:  cryptsetup reencrypt --resume-only %s", shellQuote(name))
	case errors.Is(err, luks.ErrUnsupported):
		return withHint(err, "this version cannot open it; cryptsetup may, where there is device-mapper")
	case errors.Is(err, luks.ErrNotLUKS) && !o.withoutHeader:
		return withHint(err, "only LUKS volumes have keyslots; is it the right file?")
	case errors.Is(err, luks.ErrNotLUKS):
		if dst == "" {
			dst = name + ".luks"
		}
		return withHint(err, "to encrypt it:  %s encrypt %s %s\nif it is a plain volume, which has no header, add --type plain and its options", a.self, shellQuote(name), shellQuote(dst))
	}
	return err
}
