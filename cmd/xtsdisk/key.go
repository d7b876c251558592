package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

func newKey(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "passphrases and keys of a volume",
		Long: `Works with the keyslots and the volume key of a LUKS volume. A header is
changed so that a crash leaves it as it was or as it is to be, under the lock
that cryptsetup takes too.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(a, cmd, args[0])
			}
			return usagef(a.self+" key --help lists them", "what is to be done with the key is missing")
		},
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(newKeyList(a), newKeyAdd(a), newKeyChange(a), newKeyRemove(a), newKeyKill(a), newKeyPriority(a),
		newKeyConvert(a), newKeyTest(a), newKeyExport(a), newKeyRecovery(a))
	return cmd
}

type keyVerb struct {
	openFlags
	a *app
}

func newKeyTest(a *app) *cobra.Command {
	v := &keyVerb{a: a}
	cmd := &cobra.Command{
		Use:   "test VOL",
		Short: "tell whether a passphrase or key opens a volume",
		Long: `Tries the passphrase or key on the LUKS volume VOL and says which keyslot it
opens. The exit code is 0 if one opens and 3 if none does.`,
		Example: `  xtsdisk key test disk.luks
  xtsdisk key test --key-file disk.key --key-slot 1 --json disk.luks`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.test(cmd.Context(), args[0]) },
	}
	registerReport(a, cmd)
	v.openFlags.register(cmd, false)
	return cmd
}

// testReport is the JSON report of key test.
type testReport struct {
	Schema int     `json:"schema"`
	Volume string  `json:"volume"`
	Slot   *int    `json:"keyslot"` // null: by volume key
	KDF    string  `json:"kdf,omitempty"`
	Time   float64 `json:"kdf_seconds"`
}

func (v *keyVerb) test(ctx context.Context, name string) error {
	vol, err := v.unlock(ctx, name)
	if err != nil {
		return err
	}
	defer vol.Close()
	report := testReport{Schema: schemaVersion, Volume: name, Time: vol.KDFTime.Seconds()}
	text := "the volume key is right"
	if vol.Slot >= 0 {
		report.Slot = &vol.Slot
		text = fmt.Sprintf("keyslot %d opens", vol.Slot)
		for _, s := range vol.Header.Keyslots {
			if s.ID == vol.Slot {
				report.KDF = s.KDF.Type
				text += fmt.Sprintf(" (%s, %s)", describeKDF(s.KDF), seconds(vol.KDFTime))
			}
		}
	}
	if v.a.json {
		return printJSON(v.a.io.out, report)
	}
	_, err = fmt.Fprintf(v.a.io.out, "%s: %s\n", visible(name), text)
	return err
}

func (v *keyVerb) unlock(ctx context.Context, name string) (vol *luks.Volume, err error) {
	if err := noStreams(name); err != nil {
		return nil, err
	}
	err = v.open(v.a, name, func(o volume.OpenOptions) (err error) {
		vol, err = volume.Unlock(ctx, name, o)
		return err
	})
	if err != nil {
		return nil, v.explainSource(v.a, name, "", err)
	}
	return vol, nil
}

func newKeyExport(a *app) *cobra.Command {
	v := &keyVerb{a: a}
	cmd := &cobra.Command{
		Use:   "export VOL FILE",
		Short: "write the volume key to a file",
		Long: `Writes the volume key of the LUKS volume VOL to the new file FILE, readable
only by you. Who has this file can read the volume, whatever becomes of its
passphrases; --volume-key-file takes it.`,
		Example: `  xtsdisk key export disk.luks disk.volume-key
  xtsdisk decrypt --volume-key-file disk.volume-key disk.luks disk.img`,
		Args: exactArgs(a, "VOL", "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.export(cmd.Context(), args[0], args[1]) },
	}
	registerReport(a, cmd)
	v.openFlags.register(cmd, false)
	return cmd
}

// exportReport is the JSON report of key export.
type exportReport struct {
	Schema int    `json:"schema"`
	Volume string `json:"volume"`
	File   string `json:"file"`
	Bytes  int    `json:"bytes"`
}

func (v *keyVerb) export(ctx context.Context, name, file string) error {
	if file == stdinName {
		return refusef("name a file; it is made readable only by you", "a volume key does not go to standard output")
	}
	if _, err := os.Lstat(file); err == nil {
		return refusef("name another file: a key is never written over a file", "%s exists", file)
	}
	if !exists(filepath.Dir(file)) {
		return explainTarget(v.a, file, fmt.Errorf("%s: %w", file, fs.ErrNotExist))
	}
	vol, err := v.unlock(ctx, name)
	if err != nil {
		return err
	}
	defer vol.Close()
	n := len(vol.Key())
	if err := writeKey(file, vol.Key()); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return refusef("name another file: a key is never written over a file", "%s exists", file)
		}
		return explainTarget(v.a, file, err)
	}
	if v.a.json {
		return printJSON(v.a.io.out, exportReport{schemaVersion, name, file, n})
	}
	v.a.note("%s: volume key of %s, %d bits; whoever has it can read the volume", file, name, n*8)
	return nil
}

// writeKey makes a new file with these bytes, readable by its owner.
func writeKey(file string, key []byte) error {
	dir, err := device.OSDir(filepath.Dir(file), device.FileOptions{})
	if err != nil {
		return err
	}
	defer closeQuietly(dir)
	return writeFile(dir, filepath.Base(file), key, device.OutputOptions{CreateOptions: device.CreateOptions{Mode: 0o600}})
}

// writeFile makes a file that is there whole or not at all.
func writeFile(dir device.Dir, name string, contents []byte, o device.OutputOptions) (err error) {
	o.Size = int64(len(contents))
	out, err := device.NewOutput(dir, name, o)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = out.Abort()
		}
	}()
	if _, err := out.Device().WriteAt(contents, 0); err != nil {
		return err
	}
	return out.Commit()
}

// describeKDF is a key derivation in a few words.
func describeKDF(k luks.KDF) string {
	if k.MemoryKiB > 0 {
		return fmt.Sprintf("%s, %s, %d passes, %d threads", k.Type, formatSize(int64(k.MemoryKiB)<<10), k.Iterations, k.Threads)
	}
	return fmt.Sprintf("%s-%s, %d iterations", k.Type, k.Hash, k.Iterations)
}
