package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

// editReport is the JSON report of verbs that change a header.
type editReport struct {
	Schema        int     `json:"schema"`
	Volume        string  `json:"volume"`
	Slot          *int    `json:"keyslot,omitempty"`
	Token         *int    `json:"token,omitempty"`
	RemovedTokens []int   `json:"removed_tokens,omitempty"`
	Epoch         uint64  `json:"epoch"` // of the header afterwards; 0: LUKS1 has none
	Time          float64 `json:"kdf_seconds,omitempty"`
}

// tell reports a change: as JSON, or as a note.
func (r *editReport) tell(a *app, h *luks.Header, format string, args ...any) error {
	r.Schema, r.Epoch = schemaVersion, h.SeqID
	if a.json {
		return printJSON(a.io.out, r)
	}
	a.note("%s: "+format, append([]any{r.Volume}, args...)...)
	return nil
}

// editHeader opens the header of a volume, lets job change it, and says what to
// do about errors.
func editHeader(ctx context.Context, a *app, name, header string, job func(*volume.HeaderFile) error) error {
	if err := noStreams(name); err != nil {
		return err
	}
	h, err := volume.EditHeader(ctx, name, volume.OpenOptions{Header: header, Inside: a.inside, Warn: a.warn})
	if err != nil {
		return explainEdit(a, name, err)
	}
	defer closeQuietly(h)
	return explainEdit(a, name, job(h))
}

// explainEdit says what to do about a header that cannot be changed.
func explainEdit(a *app, name string, err error) error {
	var known *failure
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, luks.ErrDamagedCopy):
		return withHint(err, "repair it first:  %s header repair %s", a.self, shellQuote(name))
	case errors.Is(err, luks.ErrNotLUKS):
		return withHint(err, "only LUKS volumes have keyslots; is it the right file?")
	case errors.Is(err, luks.ErrSize):
		return withHint(naming(name, err), "remove a keyslot or token that is no longer needed; %s key list %s shows them", a.self, shellQuote(name))
	case errors.Is(err, luks.ErrPolicy):
		return naming(name, err)
	}
	o := &openFlags{}
	return o.explainSource(a, name, "", naming(name, err))
}

// unlocked opens the volume and lets job use its key.
func (o *openFlags) unlocked(ctx context.Context, a *app, name string, job func(*luks.Volume) error) error {
	var v *luks.Volume
	err := o.open(a, name, func(opts volume.OpenOptions) (err error) {
		v, err = volume.Unlock(ctx, name, opts)
		return err
	})
	if err != nil {
		return o.explainSource(a, name, "", err)
	}
	defer v.Close()
	return job(v)
}

// newSlotFlags are the options of verbs that make a keyslot.
type newSlotFlags struct {
	keys    keyFlags
	kdf     kdfFlags
	hash    string
	cipher  string
	keyBits int
	fs      *pflag.FlagSet
}

// register adds the options; passphrase says that there is a new one.
func (n *newSlotFlags) register(cmd *cobra.Command, passphrase bool) {
	n.fs = cmd.Flags()
	if passphrase {
		n.keys.registerNew(n.fs)
	}
	n.kdf.register(n.fs)
	inGroup(n.fs, flagsKDF, func() {
		n.fs.StringVar(&n.hash, "hash", "", "`HASH`: of the keyslot; sha256 unless given, in LUKS1 the header's")
		n.fs.StringVar(&n.cipher, "keyslot-cipher", "", "`CIPHER`: of the keyslot; the data's unless given, where that is fit for it")
		n.fs.IntVar(&n.keyBits, "keyslot-key-size", 0, "`BITS`: length of the keyslot cipher's key")
	})
	_ = cmd.RegisterFlagCompletionFunc("pbkdf", cobra.FixedCompletions([]string{"argon2id", "argon2i", "pbkdf2"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("hash", cobra.FixedCompletions([]string{"sha256", "sha512"}, cobra.ShellCompDirectiveNoFileComp))
}

// check finds contradictions; old is the passphrase that opens the volume, or
// nil.
func (n *newSlotFlags) check(old *keyFlags) error {
	if n.keyBits%8 != 0 || n.keyBits < 0 {
		return usagef("such as 512", "--keyslot-key-size %d is not a number of whole bytes in bits", n.keyBits)
	}
	if n.fs.Changed("keyslot-key-size") && n.keyBits == 0 {
		return usagef("such as 512", "--keyslot-key-size 0")
	}
	if err := n.kdf.check(); err != nil {
		return err
	}
	if n.keys.fs == nil {
		return nil
	}
	return n.keys.check(old != nil && old.fs != nil && old.usesStdin())
}

// keyslot measures the key derivation and describes the keyslot. h is what it
// is made in; the passphrase is not set.
func (n *newSlotFlags) keyslot(ctx context.Context, a *app, h *luks.Header) (luks.NewKeyslot, error) {
	out := luks.NewKeyslot{Slot: luks.AnySlot, Cipher: n.cipher, KeySize: n.keyBits / 8, Hash: n.hash}
	kdf := n.kdf
	hash := n.hash
	if h.Version == 1 {
		if n.fs.Changed("pbkdf") && n.kdf.kind != luks.KDFPBKDF2 {
			return out, usagef("leave it away", "--pbkdf %s: LUKS1 has only pbkdf2", n.kdf.kind)
		}
		kdf.kind = luks.KDFPBKDF2
		if hash == "" {
			hash = h.Digests[0].KDF.Hash
		}
	}
	if n.kdf.iterations > 0 {
		out.DigestIterations = 1000 // as cryptsetup: no measuring here either
	}
	var err error
	out.KDF, err = kdf.choose(ctx, a, hash)
	return out, err
}

// removed lists tokens for a report and a note, which says what they were for.
func (r *editReport) removed(a *app, tokens []luks.Token, purpose string) {
	for _, t := range tokens {
		r.RemovedTokens = append(r.RemovedTokens, t.ID)
		if !a.json {
			a.note("token %d (%s) was for %s, and is removed too", t.ID, t.Type, purpose)
		}
	}
}

// checkToken refuses numbers that no token has.
func checkToken(id int) error {
	if id < 0 || id > 31 {
		return usagef("", "--token-id %d: tokens are 0 to 31", id)
	}
	return nil
}

// refuseUnbound refuses a keyslot that opens, but not the data.
func refuseUnbound(name string, vol *luks.Volume) error {
	if !vol.Unbound {
		return nil
	}
	return refusef("give a passphrase that opens the data", "%s: keyslot %d is unbound: it does not open the data", name, vol.Slot)
}

// checkSlot refuses numbers that no keyslot has.
func checkSlot(option string, slot int) error {
	if slot < 0 || slot > 31 {
		return usagef("", "%s %d: keyslots are 0 to 31", option, slot)
	}
	return nil
}
