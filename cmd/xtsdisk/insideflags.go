package main

import (
	"github.com/spf13/cobra"
)

// registerInside adds the options that say where in VOL the volume lies. Their
// values are in app.inside before the verb runs.
func registerInside(cmd *cobra.Command) {
	at := bytesFlag()
	inGroup(cmd.Flags(), flagsVolume, func() {
		cmd.Flags().Var(&at, "at", "where in VOL the volume begins, in bytes: VOL is a disk image that holds more")
		cmd.Flags().Int("partition", 0, "`N`: the volume is this partition of VOL, a disk image or device with a GPT or MBR")
	})
}

// readInside takes the values of registerInside's options.
func (a *app) readInside(cmd *cobra.Command) error {
	fs := cmd.Flags()
	at, partition := fs.Lookup("at"), fs.Lookup("partition")
	if at == nil || partition == nil {
		return nil
	}
	if at.Changed && partition.Changed {
		return usagef("give one of them only", "--at and --partition both say where the volume lies")
	}
	if v, ok := at.Value.(*size); ok {
		a.inside.At = v.bytes
	}
	n, err := fs.GetInt("partition")
	if err != nil {
		return err
	}
	if partition.Changed && n < 1 {
		return usagef(a.self+" identify VOL lists them", "--partition %d: partitions count from 1", n)
	}
	a.inside.Partition = n
	return nil
}
