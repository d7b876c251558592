package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

// keyRemove are the verbs key remove and key kill.
type keyRemove struct {
	openFlags
	last, unchecked bool
	a               *app
}

const lastUsage = "remove the last keyslot too: the data is lost without the volume key"

func newKeyRemove(a *app) *cobra.Command {
	v := &keyRemove{a: a}
	cmd := &cobra.Command{
		Use:        "remove VOL",
		SuggestFor: []string{"luksRemoveKey"},
		Short:      "remove a passphrase from a volume",
		Long: `Destroys the keyslot of the LUKS volume VOL that the passphrase opens. Its key
material is overwritten; what a disk or filesystem keeps of old contents, and
backups of the header, still open with it.`,
		Example: `  xtsdisk key remove disk.luks
  xtsdisk key remove --key-file old.key disk.luks`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.remove(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&v.last, "force-last", false, lastUsage)
	registerReport(a, cmd)
	v.openFlags.register(cmd, false)
	return cmd
}

func newKeyKill(a *app) *cobra.Command {
	v := &keyRemove{a: a}
	cmd := &cobra.Command{
		Use:        "kill VOL SLOT",
		SuggestFor: []string{"luksKillSlot"},
		Short:      "destroy a keyslot by its number",
		Long: `Destroys keyslot SLOT of the LUKS volume VOL, whose passphrase need not be
known. A passphrase of another keyslot, or the volume key, shows that the
volume can be opened afterwards; --unchecked does without, as cryptsetup's -q.
A volume's last keyslot goes with --force-last only, and nothing is asked for.`,
		Example: `  xtsdisk key kill disk.luks 1
  xtsdisk key kill --key-file disk.key disk.luks 1
  xtsdisk key kill --unchecked disk.luks 1`,
		Args: exactArgs(a, "VOL", "SLOT"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.kill(cmd.Context(), args[0], args[1]) },
	}
	cmd.Flags().BoolVar(&v.last, "force-last", false, lastUsage)
	cmd.Flags().BoolVar(&v.unchecked, "unchecked", false, "do not ask for a passphrase of another keyslot")
	registerReport(a, cmd)
	v.openFlags.register(cmd, false)
	return cmd
}

func (v *keyRemove) remove(ctx context.Context, name string) error {
	if v.volumeKeyFile != "" {
		return usagef(v.a.self+" key kill removes a keyslot by its number", "a keyslot is found by its passphrase, not by --volume-key-file")
	}
	if err := v.openFlags.check(); err != nil {
		return err
	}
	return editHeader(ctx, v.a, name, v.header, func(h *volume.HeaderFile) error {
		return v.unlocked(ctx, v.a, name, func(vol *luks.Volume) error { return v.destroy(ctx, name, h, vol.Slot) })
	})
}

// destroy removes the keyslot.
func (v *keyRemove) destroy(ctx context.Context, name string, h *volume.HeaderFile, slot int) error {
	orphans, err := h.RemoveKey(ctx, slot, v.last)
	if errors.Is(err, luks.ErrPolicy) {
		return withHint(naming(name, err), "add another passphrase first; --force-last gives the data up")
	}
	if err != nil {
		return err
	}
	r := editReport{Volume: name, Slot: &slot}
	r.removed(v.a, orphans, "that keyslot only")
	return r.tell(v.a, h.Header(), "keyslot %d removed", slot)
}

// parseSlot is a keyslot's number as an argument.
func parseSlot(text string) (int, error) {
	slot, err := strconv.Atoi(text)
	if err != nil || slot < 0 || slot > 31 {
		return 0, usagef("", "SLOT %s: keyslots are numbers from 0 to 31", strconv.Quote(text))
	}
	return slot, nil
}

func (v *keyRemove) kill(ctx context.Context, name, text string) error {
	slot, err := parseSlot(text)
	if err != nil {
		return err
	}
	if err := v.openFlags.check(); err != nil {
		return err
	}
	if v.slot == slot {
		return usagef("name another one", "--key-slot %d is the keyslot to be destroyed", slot)
	}
	return editHeader(ctx, v.a, name, v.header, func(h *volume.HeaderFile) error {
		k := findSlot(h.Header(), slot)
		if k == nil {
			return noSlot(v.a, name, slot)
		}
		if v.unchecked || v.last {
			return v.destroy(ctx, name, h, slot)
		}
		return v.unlocked(ctx, v.a, name, func(vol *luks.Volume) error {
			if vol.Slot == slot {
				return refusef(fmt.Sprintf("give a passphrase of another keyslot, or use  %s key remove %s", v.a.self, shellQuote(name)),
					"%s: the passphrase is that of keyslot %d itself", name, slot)
			}
			if err := refuseUnbound(name, vol); err != nil {
				return err
			}
			return v.destroy(ctx, name, h, slot)
		})
	})
}

func findSlot(h *luks.Header, slot int) *luks.Keyslot {
	i := slices.IndexFunc(h.Keyslots, func(k luks.Keyslot) bool { return k.ID == slot })
	if i < 0 {
		return nil
	}
	return &h.Keyslots[i]
}

// noSlot is the error of a keyslot that does not exist.
func noSlot(a *app, name string, slot int) error {
	return withHint(fmt.Errorf("%s: %w: there is no keyslot %d", name, luks.ErrNoKeyslot, slot),
		"%s key list %s shows which there are", a.self, shellQuote(name))
}

// priorities are the words of cryptsetup's --priority.
var priorities = []string{"ignore", "normal", "prefer"}

func newKeyPriority(a *app) *cobra.Command {
	var header string
	cmd := &cobra.Command{
		Use:   "priority VOL SLOT PRIORITY",
		Short: "say in which order keyslots are tried",
		Long: `Gives keyslot SLOT of the LUKS2 volume VOL a priority: prefer (tried first),
normal, or ignore (tried only by its number, --key-slot).`,
		Example: `  xtsdisk key priority disk.luks 1 prefer`,
		Args:    exactArgs(a, "VOL", "SLOT", "PRIORITY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setPriority(cmd.Context(), a, args[0], header, args[1], args[2])
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 2 {
				return priorities, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	registerReport(a, cmd)
	registerHeader(cmd, &header)
	return cmd
}

func registerHeader(cmd *cobra.Command, header *string) {
	inGroup(cmd.Flags(), flagsVolume, func() {
		cmd.Flags().StringVar(header, "header", "", "`FILE`: holds the LUKS header, if it is detached")
	})
	registerInside(cmd)
}

func setPriority(ctx context.Context, a *app, name, header, slotText, priority string) error {
	slot, err := parseSlot(slotText)
	if err != nil {
		return err
	}
	p := slices.Index(priorities, priority)
	if p < 0 {
		return usagef("the priorities are "+strings.Join(priorities, ", "), "PRIORITY %s is not known", strconv.Quote(priority))
	}
	return editHeader(ctx, a, name, header, func(h *volume.HeaderFile) error {
		if findSlot(h.Header(), slot) == nil {
			return noSlot(a, name, slot)
		}
		if err := h.SetPriority(ctx, slot, luks.Priority(p)); err != nil {
			return err
		}
		r := editReport{Volume: name, Slot: &slot}
		return r.tell(a, h.Header(), "keyslot %d has priority %s", slot, priority)
	})
}
