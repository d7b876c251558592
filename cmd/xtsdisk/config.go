package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

type configVerb struct {
	a                *app
	label, subsystem string
	flags, header    string
}

func newConfig(a *app) *cobra.Command {
	v := &configVerb{a: a}
	cmd := &cobra.Command{
		Use:   "config VOL",
		Short: "change a volume's label, subsystem and flags",
		Long: `Changes what the header of the LUKS2 volume VOL says besides keys. The flags
are those that device-mapper gets whenever the volume is activated:
allow-discards, same-cpu-crypt, submit-from-crypt-cpus, no-journal,
no-read-workqueue, no-write-workqueue. An empty text removes what was there.`,
		Example: `  xtsdisk config --label backup disk.luks
  xtsdisk config --flags allow-discards,no-read-workqueue disk.luks`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&v.label, "label", "", "`TEXT`: to find the volume by")
	cmd.Flags().StringVar(&v.subsystem, "subsystem", "", "`TEXT`: names what uses the volume")
	cmd.Flags().StringVar(&v.flags, "flags", "", "`LIST`: all flags that are to be set, with commas between them")
	registerReport(a, cmd)
	registerHeader(cmd, &v.header)
	return cmd
}

func (v *configVerb) run(cmd *cobra.Command, name string) error {
	var c luks.ConfigChange
	fs := cmd.Flags()
	if fs.Changed("label") {
		c.Label = &v.label
	}
	if fs.Changed("subsystem") {
		c.Subsystem = &v.subsystem
	}
	if fs.Changed("flags") {
		c.Flags = strings.FieldsFunc(v.flags, func(r rune) bool { return r == ',' || r == ' ' })
		if c.Flags == nil {
			c.Flags = []string{}
		}
	}
	if c.Label == nil && c.Subsystem == nil && c.Flags == nil {
		return usagef("--label, --subsystem or --flags", "there is nothing to change")
	}
	return v.set(cmd.Context(), name, c)
}

func (v *configVerb) set(ctx context.Context, name string, c luks.ConfigChange) error {
	return editHeader(ctx, v.a, name, v.header, func(h *volume.HeaderFile) error {
		if err := h.SetConfig(ctx, c); err != nil {
			return err
		}
		r := editReport{Volume: name}
		return r.tell(v.a, h.Header(), "header changed")
	})
}
