package main

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/internal/secret"
	"github.com/xtsdisk/xtsdisk/luks"
)

// keyAdd is the verb key add.
type keyAdd struct {
	openFlags
	new     newSlotFlags
	newSlot int
	unbound bool
	keyBits int
	a       *app
}

func newKeyAdd(a *app) *cobra.Command {
	v := &keyAdd{a: a}
	cmd := &cobra.Command{
		Use:        "add VOL",
		SuggestFor: []string{"luksAddKey"},
		Short:      "add a passphrase to a volume",
		Long: `Adds a keyslot with a new passphrase to the LUKS volume VOL, which is opened by
a passphrase that it has, or by its volume key.

As with cryptsetup --key-slot is the number of the new keyslot, unless
--new-key-slot is given too: then it is the one that is opened. With --unbound
the keyslot holds another key, random or from --volume-key-file, which opens no
data; nothing is opened for it.`,
		Example: `  xtsdisk key add disk.luks
  xtsdisk key add --key-file old.key --new-keyfile new.key disk.luks
  xtsdisk key add --volume-key-file disk.volume-key --new-key-slot 3 disk.luks`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args[0]) },
	}
	registerReport(a, cmd)
	v.openFlags.register(cmd, false)
	v.new.register(cmd, true)
	inGroup(cmd.Flags(), flagsNewKey, func() {
		cmd.Flags().IntVar(&v.newSlot, "new-key-slot", luks.AnySlot, "`N`: number of the new keyslot; the first free one unless given")
		cmd.Flags().BoolVar(&v.unbound, "unbound", false, "the keyslot is to hold a key of its own, which opens no data")
		cmd.Flags().IntVarP(&v.keyBits, "key-size", "s", 512, "`BITS`: length of that key")
	})
	return cmd
}

// check settles which keyslot is which.
func (v *keyAdd) check() error {
	fs := v.keys.fs
	if !fs.Changed("new-key-slot") {
		v.newSlot, v.slot, v.slotIsNew = v.slot, luks.AnySlot, true
	}
	for option, slot := range map[string]int{"--new-key-slot": v.newSlot, "--key-slot": v.slot} {
		if slot != luks.AnySlot {
			if err := checkSlot(option, slot); err != nil {
				return err
			}
		}
	}
	if fs.Changed("key-slot") && v.newSlot < 0 {
		return checkSlot("--key-slot", v.newSlot)
	}
	switch given := v.keys.given(); {
	case v.unbound && len(given) > 0:
		return usagef("the new passphrase is given by --new-keyfile and the like", "--unbound opens nothing: %s has no use", given[0])
	case !v.unbound && fs.Changed("key-size"):
		return usagef("add --unbound, or leave it away", "--key-size is for --unbound: the volume key has its length")
	case v.keyBits <= 0 || v.keyBits%8 != 0 || v.keyBits > 4096:
		return usagef("such as 512", "--key-size %d is not a number of whole bytes in bits, up to 4096", v.keyBits)
	}
	if err := v.openFlags.check(); err != nil {
		return err
	}
	return v.new.check(&v.keys)
}

func (v *keyAdd) run(ctx context.Context, name string) error {
	if err := v.check(); err != nil {
		return err
	}
	return editHeader(ctx, v.a, name, v.header, func(h *volume.HeaderFile) error {
		if slices.ContainsFunc(h.Header().Keyslots, func(k luks.Keyslot) bool { return k.ID == v.newSlot }) {
			return usagef(v.a.self+" key list "+shellQuote(name)+" shows which are free", "%s: keyslot %d is in use", name, v.newSlot)
		}
		if v.unbound {
			return v.addUnbound(ctx, name, h)
		}
		return v.unlocked(ctx, v.a, name, func(vol *luks.Volume) error { return v.add(ctx, name, h, vol, nil) })
	})
}

func (v *keyAdd) addUnbound(ctx context.Context, name string, h *volume.HeaderFile) error {
	if v.volumeKeyFile != "" {
		k, err := readVolumeKey(v.a, v.volumeKeyFile)
		if err != nil {
			return err
		}
		defer k.Destroy()
		return v.add(ctx, name, h, nil, k.Bytes())
	}
	k := secret.New(v.keyBits / 8)
	defer k.Destroy()
	_, _ = rand.Read(k.Bytes()) // never fails
	return v.add(ctx, name, h, nil, k.Bytes())
}

// add asks for the new passphrase and adds the keyslot. key is an unbound one,
// or nil.
func (v *keyAdd) add(ctx context.Context, name string, h *volume.HeaderFile, vol *luks.Volume, key []byte) error {
	pass, err := v.new.keys.readNew(v.a, name)
	if err != nil {
		return err
	}
	defer pass.Destroy()
	n, err := v.new.keyslot(ctx, v.a, h.Header())
	if err != nil {
		return err
	}
	n.Slot, n.Passphrase, n.Key = v.newSlot, pass.Bytes(), key
	slot, err := h.AddKey(ctx, vol, n)
	if err != nil {
		return err
	}
	r := editReport{Volume: name, Slot: &slot}
	return r.tell(v.a, h.Header(), "keyslot %d added (%s)", slot, describeKDF(n.KDF))
}

// keyChange are the verbs key change and key convert.
type keyChange struct {
	openFlags
	new     newSlotFlags
	convert bool // same passphrase
	a       *app
}

func newKeyChange(a *app) *cobra.Command {
	v := &keyChange{a: a}
	cmd := &cobra.Command{
		Use:        "change VOL",
		SuggestFor: []string{"luksChangeKey", "passwd"},
		Short:      "replace a passphrase by another",
		Long: `Replaces the passphrase of a keyslot of the LUKS volume VOL: of the one that
the old passphrase opens, or of --key-slot. The new keyslot is written beside
the old one, which then is overwritten, so a crash leaves one of them, or both.
It keeps its number, except in LUKS1.`,
		Example: `  xtsdisk key change disk.luks
  xtsdisk key change --key-file old.key --new-keyfile new.key disk.luks`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args[0]) },
	}
	registerReport(a, cmd)
	v.openFlags.register(cmd, false)
	v.new.register(cmd, true)
	return cmd
}

func newKeyConvert(a *app) *cobra.Command {
	v := &keyChange{a: a, convert: true}
	cmd := &cobra.Command{
		Use:        "convert VOL",
		SuggestFor: []string{"luksConvertKey"},
		Short:      "give a keyslot another key derivation or cipher",
		Long: `Writes a keyslot of the LUKS volume VOL anew under the same passphrase, with
the key derivation and keyslot cipher that the options name, or what they are
by default.`,
		Example: `  xtsdisk key convert --pbkdf argon2id --pbkdf-memory 65536 disk.luks
  xtsdisk key convert --key-file disk.key --pbkdf pbkdf2 disk.luks`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args[0]) },
	}
	registerReport(a, cmd)
	v.openFlags.register(cmd, false)
	v.new.register(cmd, false)
	return cmd
}

func (v *keyChange) run(ctx context.Context, name string) error {
	if v.volumeKeyFile != "" {
		return usagef("give the passphrase that it has; key add takes the volume key", "a keyslot is found by its passphrase, not by --volume-key-file")
	}
	if err := v.openFlags.check(); err != nil {
		return err
	}
	if v.convert && v.keys.fs.Changed("token-id") {
		return usagef("give the passphrase itself", "key convert needs the passphrase, which --token-id keeps to itself")
	}
	if err := v.new.check(&v.keys); err != nil {
		return err
	}
	return editHeader(ctx, v.a, name, v.header, func(h *volume.HeaderFile) error {
		vol, old, err := v.openSlot(ctx, v.a, name)
		if err != nil {
			return err
		}
		defer vol.Close()
		defer old.destroy()
		return v.change(ctx, name, h, vol, old)
	})
}

func (v *keyChange) change(ctx context.Context, name string, h *volume.HeaderFile, vol *luks.Volume, old *opening) error {
	pass := old.key
	if !v.convert {
		var err error
		if pass, err = v.new.keys.readNew(v.a, name); err != nil {
			return err
		}
		defer pass.Destroy()
	}
	n, err := v.new.keyslot(ctx, v.a, h.Header())
	if err != nil {
		return err
	}
	n.Passphrase = pass.Bytes()
	slot, err := h.ChangeKey(ctx, vol, vol.Slot, n)
	if errors.Is(err, luks.ErrSize) {
		return withHint(naming(name, err), "the new keyslot is written before the old one is given up: remove one that is not needed")
	}
	if err != nil {
		return err
	}
	r := editReport{Volume: name, Slot: &slot}
	if slot != vol.Slot {
		return r.tell(v.a, h.Header(), "keyslot %d changed: it is keyslot %d now (%s)", vol.Slot, slot, describeKDF(n.KDF))
	}
	return r.tell(v.a, h.Header(), "keyslot %d changed (%s)", slot, describeKDF(n.KDF))
}

// openSlot unlocks the volume and keeps the passphrase. The caller closes and
// destroys them.
func (o *openFlags) openSlot(ctx context.Context, a *app, name string) (vol *luks.Volume, used *opening, err error) {
	err = o.openKept(a, name, func(opts volume.OpenOptions, k *opening) (err error) {
		if vol, err = volume.Unlock(ctx, name, opts); err == nil {
			used = k
		}
		return err
	})
	if err != nil {
		return nil, nil, o.explainSource(a, name, "", err)
	}
	return vol, used, nil
}
