package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

type formatVerb struct {
	newVolumeFlags
	a      *app
	create size
	usable size
	force  bool
	plan   bool
}

func newFormat(a *app) *cobra.Command {
	v := &formatVerb{a: a, create: bytesFlag(), usable: bytesFlag()}
	cmd := &cobra.Command{
		Use:        "format VOL",
		SuggestFor: []string{"luksFormat", "create", "init", "mkfs"},
		Short:      "make an empty LUKS volume",
		Long: `Writes a new LUKS2 header with one keyslot (or with --type luks1 a LUKS1 header)
to the file or block device VOL, or with --create makes the file. What VOL held
is lost to whoever opens the volume, but not overwritten: only the header's
16 MiB are, of LUKS1 2 MiB. --plan shows beforehand where everything would lie.
With --header the header goes to a new file of its own, and nothing is written
to VOL.`,
		Example: `  xtsdisk format --create 1G new.luks
  xtsdisk format --usable 1G --for vm guest.luks
  xtsdisk format --plan /dev/sdx1
  xtsdisk format --key-file disk.key --force /dev/sdx1`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().Var(&v.create, "create", "make the file, so large: bytes, or a number with suffix")
	cmd.Flags().Var(&v.usable, "usable", "make the file, so large that this much of it is for data")
	cmd.Flags().BoolVarP(&v.force, "force", "f", false, "overwrite what lies there")
	cmd.Flags().BoolVar(&v.plan, "plan", false, "show where everything would lie and how much is usable; write nothing, ask nothing")
	registerReport(a, cmd)
	v.newVolumeFlags.register(cmd, false)
	return cmd
}

func (v *formatVerb) run(ctx context.Context, name string) error {
	if v.volume.plain() {
		return usagef("encrypt --type plain makes one of an image", "a plain volume has nothing to format: it has no header")
	}
	if err := v.check(name, false); err != nil {
		return err
	}
	if name == stdinName {
		return usagef("", "format needs a file or block device, not a stream")
	}
	if v.volume.fs.Changed("create") && v.create.bytes == 0 {
		return usagef("such as --create 1G", "--create 0 leaves no room")
	}
	opts, err := v.volume.luksOptions()
	if err != nil {
		return err
	}
	if err := v.fileSize(*opts); err != nil {
		return explainTarget(v.a, name, err)
	}
	if v.plan {
		return v.showPlan(name, *opts)
	}
	m, err := newMeter(v.a, progressAuto)
	if err != nil {
		return err
	}
	k := &newKeys{}
	defer k.destroy()
	o := volume.FormatOptions{Path: name, Header: v.volume.header, Create: v.create.bytes, Force: v.force, Luks: *opts, Warn: v.a.warn, Progress: m.set}
	o.Prepare = func(ctx context.Context, l *luks.FormatOptions) error { return v.luksKeys(ctx, v.a, m, name, l, k) }
	r, h, err := volume.Format(ctx, o)
	m.close()
	if err != nil {
		return v.explain(name, naming(name, err))
	}
	if v.a.json {
		report := newJobReport("", name, r)
		report.UUID = h.UUID
		return printJSON(v.a.io.out, report)
	}
	v.a.note("%s", sentence(fmt.Sprintf("%s: a LUKS%d volume of %s, UUID %s", name, h.Version, formatExact(r.Bytes), h.UUID), apart(v.volume.header),
		sectors(r, v.volume.use), "key derivation "+seconds(r.KDFTime)))
	return nil
}

func (v *formatVerb) explain(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && v.create.bytes == 0:
		return withHint(err, "to make it:  %s format --create SIZE %s", v.a.self, shellQuote(name))
	case errors.Is(err, volume.ErrSize) && v.create.bytes%max(unitSector, int64(v.volume.sectorSize)) != 0:
		return withHint(err, "sizes are whole sectors")
	case errors.Is(err, volume.ErrSize) && v.volume.offset.set:
		return withHint(err, "it must be larger, or --offset smaller: that is where the data begins")
	case errors.Is(err, volume.ErrSize) && v.volume.kind == typeLUKS1:
		return withHint(err, "it must be larger: a LUKS1 header takes 2 MiB")
	case errors.Is(err, volume.ErrSize):
		return withHint(err, "it must be larger: a header takes 16 MiB, or 1 MiB with --luks2-keyslots-size 256K")
	}
	return explainTarget(v.a, name, v.explainKey(err))
}
