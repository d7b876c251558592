package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/internal/secret"
	"github.com/xtsdisk/xtsdisk/luks"
)

type keyRecovery struct {
	openFlags
	newSlot int
	a       *app
}

func newKeyRecovery(a *app) *cobra.Command {
	v := &keyRecovery{a: a}
	cmd := &cobra.Command{
		Use:   "recovery VOL",
		Short: "add a recovery key to write down",
		Long: `Makes a random recovery key of 256 bits for the LUKS volume VOL, in the form
that systemd-cryptenroll uses: eight groups of eight letters, a passphrase like
any other. It is shown once and must be typed back before it counts: on the
terminal, or without one on stdout and stdin.`,
		Example: `  xtsdisk key recovery disk.luks
  xtsdisk key recovery --key-file disk.key disk.luks`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args[0]) },
	}
	registerReport(a, cmd)
	v.openFlags.register(cmd, false)
	inGroup(cmd.Flags(), flagsNewKey, func() {
		cmd.Flags().IntVar(&v.newSlot, "new-key-slot", luks.AnySlot, "`N`: number of the new keyslot; the first free one unless given")
	})
	return cmd
}

func (v *keyRecovery) run(ctx context.Context, name string) error {
	if v.keys.fs.Changed("new-key-slot") {
		if err := checkSlot("--new-key-slot", v.newSlot); err != nil {
			return err
		}
	}
	if err := v.openFlags.check(); err != nil {
		return err
	}
	return editHeader(ctx, v.a, name, v.header, func(h *volume.HeaderFile) error {
		if findSlot(h.Header(), v.newSlot) != nil {
			return usagef(v.a.self+" key list "+shellQuote(name)+" shows which are free", "%s: keyslot %d is in use", name, v.newSlot)
		}
		return v.unlocked(ctx, v.a, name, func(vol *luks.Volume) error {
			if err := refuseUnbound(name, vol); err != nil {
				return err
			}
			return v.add(ctx, name, h, vol)
		})
	})
}

func (v *keyRecovery) add(ctx context.Context, name string, h *volume.HeaderFile, vol *luks.Volume) error {
	key := luks.NewRecoveryKey()
	defer key.Destroy()
	if err := v.confirm(key, name); err != nil {
		return err
	}
	n := luks.NewKeyslot{Slot: v.newSlot, Passphrase: key.Bytes(), KDF: luks.RecoveryKDF}
	if h.Header().Version == 1 {
		n.KDF.Hash = h.Header().Digests[0].KDF.Hash
	}
	slot, err := h.AddKey(ctx, vol, n)
	if err != nil {
		return err
	}
	r := editReport{Volume: name, Slot: &slot}
	if h.Header().Version != 1 {
		id, err := h.AddToken(ctx, luks.AnyToken, luks.RecoveryToken(slot), false)
		if err != nil {
			v.a.warn(fmt.Sprintf("the recovery key works, but no token marks its keyslot %d: %v", slot, err))
		} else {
			r.Token = &id
		}
	}
	return r.tell(v.a, h.Header(), "keyslot %d opens with the recovery key", slot)
}

// confirm shows the key and reads it back.
func (v *keyRecovery) confirm(key *secret.Buffer, name string) error {
	in, out, err := openTerminal()
	if err == nil {
		closeQuietly(in)
		if out != in {
			defer closeQuietly(out)
		}
		return v.onTerminal(key, name)
	}
	if v.a.json {
		return usagef("leave --json away: the key goes to stdout", "there is no terminal to show the recovery key on")
	}
	if v.keys.usesStdin() {
		return usagef("give the passphrase by a file", "the recovery key is typed back on standard input")
	}
	if err := writeSecretLine(v.a.io.out, key); err != nil {
		return err
	}
	back, _, err := readSecret(interruptible{v.a.ctx, v.a.io.in}, maxTyped)
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	defer back.Destroy()
	return compareRecovery(key, back)
}

const recoveryTries = 3

// onTerminal lets the person try again.
func (v *keyRecovery) onTerminal(key *secret.Buffer, name string) error {
	if err := showOnTerminal(key); err != nil {
		return err
	}
	for try := 1; ; try++ {
		back, err := prompt(v.a, "Write it down and type it back, for "+name+": ")
		if err != nil {
			return err
		}
		err = compareRecovery(key, back)
		back.Destroy()
		if err == nil || try == recoveryTries {
			return err
		}
		v.a.note("that is not the key; once more")
	}
}

// showOnTerminal writes the key where it is not redirected anywhere.
func showOnTerminal(key *secret.Buffer) error {
	in, out, err := openTerminal()
	if err != nil {
		return err
	}
	defer closeQuietly(in)
	if out != in {
		defer closeQuietly(out)
	}
	if _, err := fmt.Fprint(out, "\nThe recovery key, which is not shown again:\n\n    "); err != nil {
		return err
	}
	if err := writeSecretLine(out, key); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out)
	return err
}

// writeSecretLine writes a secret and a newline without a copy on the heap.
func writeSecretLine(w io.Writer, s *secret.Buffer) error {
	line := secret.New(s.Len() + 1)
	defer line.Destroy()
	copy(line.Bytes(), s.Bytes())
	line.Bytes()[s.Len()] = '\n'
	_, err := w.Write(line.Bytes())
	return err
}

// compareRecovery returns nil if the key was typed back right.
func compareRecovery(key, typed *secret.Buffer) error {
	back, err := luks.ParseRecoveryKey(typed.Bytes())
	if err == nil {
		defer back.Destroy()
		if bytes.Equal(back.Bytes(), key.Bytes()) {
			return nil
		}
		err = errors.New("the letters differ")
	}
	return &failure{exitRefused, fmt.Errorf("the recovery key was not typed back, so it does not count: %w", err), "start again; a new one will be shown"}
}
