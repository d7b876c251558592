package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/internal/lock"
)

type catVerb struct {
	openFlags
	a        *app
	at       byteRange
	force    bool
	progress string
}

func newCat(a *app) *cobra.Command {
	v := &catVerb{a: a, at: byteRange{length: -1}}
	cmd := &cobra.Command{
		Use:        "cat VOL",
		SuggestFor: []string{"read", "dd", "show"},
		Short:      "write a volume's plaintext, or a part of it, to stdout",
		Long: `Writes the plaintext of the volume VOL to standard output, all of it or the
bytes of --range. Binary data is not written to a terminal.`,
		Example: `  xtsdisk cat --range 0:512 disk.luks | hexdump -C
  xtsdisk cat --range 1M: --key-file disk.key disk.luks > rest.img`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().Var(&v.at, "range", "which bytes: START, a colon, LENGTH (with suffixes, or nothing for all that follows)")
	cmd.Flags().BoolVarP(&v.force, "force", "f", false, "read as --type plain although a LUKS header is there")
	inGroup(cmd.Flags(), flagsRun, func() {
		cmd.Flags().StringVar(&v.progress, "progress", progressNone, progressUsage)
	})
	v.openFlags.register(cmd, true)
	return cmd
}

func (v *catVerb) run(ctx context.Context, name string) error {
	if name == stdinName {
		return usagef("to decrypt a stream:  "+v.a.self+" decrypt - -", "cat needs a file or block device: it reads at offsets")
	}
	if f, ok := v.a.io.out.(*os.File); ok {
		// The plaintext would overwrite what is still to be read.
		if same, err := lock.SameOpen(f, name); err == nil && same {
			return fmt.Errorf("%s and standard output: %w", name, volume.ErrSame)
		}
	}
	m, err := newMeter(v.a, v.progress)
	if err != nil {
		return err
	}
	defer m.close()
	err = v.open(v.a, name, func(o volume.OpenOptions) error {
		o.Force = v.force
		vol, err := volume.Open(ctx, name, o)
		if err != nil {
			return err
		}
		defer closeQuietly(vol)
		return v.copyOut(ctx, vol, m)
	})
	if err != nil {
		return v.explainSource(v.a, name, "", err)
	}
	return nil
}

// copyOut writes the range of the open volume to stdout.
func (v *catVerb) copyOut(ctx context.Context, vol *volume.Volume, m *meter) error {
	start, length := v.at.start, v.at.length
	if start > vol.Size() || start == vol.Size() && length > 0 {
		return usagef("", "--range starts at byte %d, behind the volume's end at %d", start, vol.Size())
	}
	if length < 0 {
		length = vol.Size() - start
	}
	if length > vol.Size()-start {
		return usagef(fmt.Sprintf("--range %d: writes all up to the end", start), "--range ends at byte %d, behind the volume's end at %d", start+length, vol.Size())
	}
	part := device.NewSection(vol, start, length)
	_, err := device.Copy(ctx, device.StreamSink(v.a.dataOut()), device.DeviceSource(part), device.CopyOptions{
		Size:     length,
		Progress: func(done int64) { m.set(volume.Progress{Phase: volume.PhaseData, Done: done, Total: length}) },
	})
	return err
}
