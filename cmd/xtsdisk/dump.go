package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/internal/secret"
	"github.com/xtsdisk/xtsdisk/luks"
)

type dumpVerb struct {
	openFlags
	a         *app
	volumeKey bool
	force     bool
}

func newDump(a *app) *cobra.Command {
	v := &dumpVerb{a: a}
	cmd := &cobra.Command{
		Use:        "dump VOL",
		SuggestFor: []string{"luksDump", "show", "info"},
		Short:      "show what a volume's header says",
		Long: `Shows the LUKS header of VOL as cryptsetup luksDump does: keyslots, segments of
data, digests and tokens. No passphrase is needed, and what this version cannot
open is shown as well. With --json there is one form for LUKS1 and LUKS2.

Of a LUKS2 header there are two copies; which one was used is shown, and what is
wrong with the other one becomes a warning. Nothing is repaired.

--dump-volume-key shows the volume key too, once you have agreed and given a
passphrase. Whoever has seen it can read the volume, whatever becomes of its
passphrases.`,
		Example: `  xtsdisk dump disk.luks
  xtsdisk dump --json --partition 2 disk.img
  xtsdisk dump --dump-volume-key --key-file disk.key disk.luks`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&v.volumeKey, "dump-volume-key", false, "show the volume key, too")
	cmd.Flags().BoolVarP(&v.force, "force", "f", false, "show the volume key without asking")
	registerReport(a, cmd)
	v.openFlags.register(cmd, false)
	return cmd
}

// dumpReport is the JSON report of dump. With --dump-volume-key the field
// "volume_key", in hexadecimal digits, follows.
type dumpReport struct {
	Schema int              `json:"schema"`
	Volume string           `json:"volume"`
	Header luks.Description `json:"header"`
}

func (v *dumpVerb) run(ctx context.Context, name string) error {
	if name == stdinName {
		return usagef("", "dump needs a file or block device: it reads at offsets")
	}
	if !v.volumeKey {
		return v.header(ctx, name)
	}
	if err := v.openFlags.check(); err != nil {
		return err
	}
	if err := v.agree(); err != nil {
		return err
	}
	return v.unlocked(ctx, v.a, name, func(vol *luks.Volume) error { return v.print(name, vol.Header, vol.Key()) })
}

// header shows the header alone.
func (v *dumpVerb) header(ctx context.Context, name string) error {
	given := append(v.keys.given(), v.otherKeys()...)
	if len(given) > 0 {
		return usagef("leave it away, or add --dump-volume-key", "%s opens the volume, and the header is shown without that", given[0])
	}
	o := volume.OpenOptions{Header: v.openFlags.header, Inside: v.a.inside}
	if v.a.json {
		o.Warn = v.a.warn // the text has them at its end
	}
	h, err := volume.ReadHeader(ctx, name, o)
	if err != nil {
		return v.explainSource(v.a, name, "", err)
	}
	return v.print(name, h, nil)
}

// otherKeys lists the options that give a key and are none of keyFlags'.
func (v *dumpVerb) otherKeys() (names []string) {
	for _, name := range []string{"volume-key-file", "key-slot", "token-id"} {
		if v.keys.fs.Changed(name) {
			names = append(names, "--"+name)
		}
	}
	return names
}

// agree asks whether the volume key is to be shown.
func (v *dumpVerb) agree() error {
	const hint = "--force shows it without asking"
	if v.force || v.a.quiet { // -q is cryptsetup's "do not ask"
		return nil
	}
	in, out, err := openTerminal()
	if err != nil {
		return refusef(hint, "there is no terminal to ask whether the volume key is to be shown")
	}
	defer closeQuietly(in)
	if out != in {
		defer closeQuietly(out)
	}
	fmt.Fprint(out, "Whoever sees the volume key can read the volume, whatever becomes of its passphrases.\nShow it? Type yes in capital letters: ")
	answer, err := await(v.a.ctx, func() (string, error) {
		line, err := readLine(in)
		if err != nil {
			return "", err
		}
		defer line.Destroy()
		return string(line.Bytes()), nil
	})
	if err != nil {
		return err
	}
	if answer != "YES" {
		return refusef(hint, "the volume key is not shown")
	}
	return nil
}

// print shows the header, and the volume key unless that is nil. The key is
// not in any buffer that cannot be wiped.
func (v *dumpVerb) print(name string, h *luks.Header, key []byte) error {
	if !v.a.json {
		if _, err := io.WriteString(v.a.io.out, h.Summary()); err != nil || key == nil {
			return err
		}
		return v.printKey(key)
	}
	r := dumpReport{schemaVersion, name, h.Describe()}
	if key == nil {
		return printJSON(v.a.io.out, r)
	}
	var text bytes.Buffer
	if err := printJSON(&text, r); err != nil {
		return err
	}
	line := secret.New(2 * len(key))
	defer line.Destroy()
	hex.Encode(line.Bytes(), key)
	for _, part := range [][]byte{
		bytes.TrimSuffix(text.Bytes(), []byte("\n}\n")), []byte(",\n  \"volume_key\": \""), line.Bytes(), []byte("\"\n}\n"),
	} {
		if _, err := v.a.io.out.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// printKey writes the key in rows of 16 bytes, as cryptsetup does.
func (v *dumpVerb) printKey(key []byte) error {
	if _, err := fmt.Fprintf(v.a.io.out, "MK bits:       \t%d\nMK dump:\t", len(key)*8); err != nil {
		return err
	}
	const row = 16
	line := secret.New(3 * row)
	defer line.Destroy()
	for lead := ""; len(key) > 0; lead = "\t\t" {
		n := min(row, len(key))
		b := line.Bytes()[:3*n]
		for i := range n {
			hex.Encode(b[3*i:], key[i:i+1])
			b[3*i+2] = ' '
		}
		b[3*n-1] = '\n'
		if _, err := io.WriteString(v.a.io.out, lead); err != nil {
			return err
		}
		if _, err := v.a.io.out.Write(b); err != nil {
			return err
		}
		key = key[n:]
	}
	return nil
}
