package luks

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// activationFlags are the persistent flags that cryptsetup knows
// (specification, section 3.5, and its additions).
var activationFlags = []string{
	"allow-discards", "same-cpu-crypt", "submit-from-crypt-cpus", "no-journal", "no-read-workqueue", "no-write-workqueue",
}

// ConfigChange says what to change of a header's names and flags; nil leaves it
// as it is.
type ConfigChange struct {
	Label, Subsystem *string  // up to 47 bytes; empty: none
	Flags            []string // all that are to be set; empty but not nil: none
}

// SetConfig changes names and flags at once. LUKS2 only. Errors wrap ErrOption
// (too long, an unknown flag) and those of Edit.
func (e *Editor) SetConfig(ctx context.Context, c ConfigChange) error {
	for name, s := range map[string]*string{"label": c.Label, "subsystem": c.Subsystem} {
		if s != nil {
			if err := checkName(name, *s); err != nil {
				return err
			}
		}
	}
	for i, f := range c.Flags {
		if !slices.Contains(activationFlags, f) {
			return fmt.Errorf("%w: flag %s is none of %s", ErrOption, quote(f), strings.Join(activationFlags, ", "))
		}
		if slices.Contains(c.Flags[:i], f) {
			return fmt.Errorf("%w: flag %s appears twice", ErrOption, f)
		}
	}
	return e.edit(ctx, func(h *Header, root *jsonNode) error {
		if c.Label != nil {
			h.Label = *c.Label
		}
		if c.Subsystem != nil {
			h.Subsystem = *c.Subsystem
		}
		switch config := root.child("config"); {
		case c.Flags == nil:
		case len(c.Flags) == 0:
			config.remove("flags")
		default:
			config.set("flags", encodeJSON(c.Flags))
		}
		return nil
	})
}

// SetLabel is SetConfig for the label.
func (e *Editor) SetLabel(ctx context.Context, label string) error {
	return e.SetConfig(ctx, ConfigChange{Label: &label})
}

// SetSubsystem is SetConfig for the subsystem.
func (e *Editor) SetSubsystem(ctx context.Context, subsystem string) error {
	return e.SetConfig(ctx, ConfigChange{Subsystem: &subsystem})
}

// SetFlags is SetConfig for the persistent activation flags.
func (e *Editor) SetFlags(ctx context.Context, flags []string) error {
	return e.SetConfig(ctx, ConfigChange{Flags: append([]string{}, flags...)})
}

// checkName checks a label or subsystem: bytes of the binary header, a NUL
// behind them.
func checkName(name, s string) error {
	if len(s) >= labelSize || strings.ContainsRune(s, 0) {
		return fmt.Errorf("%w: %s %s has more than %d bytes or a NUL", ErrOption, name, quote(s), labelSize-1)
	}
	return nil
}
