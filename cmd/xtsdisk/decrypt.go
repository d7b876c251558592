package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
)

type decryptVerb struct {
	openFlags
	jobFlags
	a *app
}

func newDecrypt(a *app) *cobra.Command {
	v := &decryptVerb{a: a}
	cmd := &cobra.Command{
		Use:        "decrypt SRC DST",
		SuggestFor: []string{"dec", "open", "luksOpen", "extract"},
		Short:      "copy a volume's plaintext into an image",
		Long: `Copies the plaintext of the volume SRC, found by its LUKS header or described by
--type plain and its options, into the image or block device DST. SRC is not
changed. DST - is stdout, SRC - is stdin.

A new DST is written under a temporary name, readable only by you, and appears
when it is complete. Zeros become holes: the image takes no space where the
volume is empty.`,
		Example: `  xtsdisk decrypt disk.luks disk.img
  xtsdisk decrypt --key-file disk.key disk.luks - | tar -t
  xtsdisk decrypt --type plain --cipher aes-xts-plain64 --key-size 512 \
      --hash sha512 --sector-size 512 disk.plain disk.img`,
		Args: exactArgs(a, "SRC", "DST"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args[0], args[1]) },
	}
	v.jobFlags.register(a, cmd)
	v.openFlags.register(cmd, true)
	return cmd
}

func (v *decryptVerb) run(ctx context.Context, src, dst string) error {
	if dst != stdinName || v.a.json { // text may go to a terminal
		if err := v.a.checkStdout(dst); err != nil {
			return err
		}
	}
	if src == stdinName && isTerminal(v.a.io.in) {
		return usagef("such as  "+v.a.self+" decrypt - "+shellQuote(dst)+" < VOLUME", "standard input is the terminal: pipe the volume in")
	}
	if err := v.keys.check(src == stdinName); err != nil {
		return err
	}
	if err := checkSpared(dst, append(v.keys.files(), v.volumeKeyFile)...); err != nil {
		return err
	}
	m, err := newMeter(v.a, v.progress)
	if err != nil {
		return err
	}
	var r volume.Report
	err = v.open(v.a, src, func(o volume.OpenOptions) (err error) {
		o.Force, o.Direct = v.force, v.direct
		r, err = volume.Decrypt(ctx, volume.DecryptOptions{
			Src: src, Dst: dst, Open: o, Stdin: v.a.io.in, Stdout: v.a.dataOut(),
			Force: v.force, Direct: v.direct, Progress: m.set, Warn: v.a.warn,
		})
		return err
	})
	m.close()
	if err != nil {
		return v.explain(src, dst, err)
	}
	if v.a.json {
		return printJSON(v.a.io.out, newJobReport(src, dst, r))
	}
	v.a.note("%s", decryptSummary(dst, r))
	return nil
}

func decryptSummary(dst string, r volume.Report) string {
	if dst == stdinName {
		dst = "stdout"
	}
	var zeros string
	if r.ZeroBytes > 0 {
		zeros = formatSize(r.ZeroBytes) + " of zeros became holes"
	}
	return sentence(fmt.Sprintf("%s: decrypted %s", dst, timing(r)), zeros)
}

// explain adds what to do to errors that need the arguments for it.
func (v *decryptVerb) explain(src, dst string, err error) error {
	if src != stdinName && !exists(src) && exists(dst) {
		return withHint(err, "the source comes first; did you mean  %s decrypt %s %s  ?", v.a.self, shellQuote(dst), shellQuote(src))
	}
	if errors.Is(err, volume.ErrExists) && isLUKS(dst) && !isLUKS(src) && src != stdinName {
		return withHint(err, "the source comes first; did you mean  %s decrypt %s FILE  ?", v.a.self, shellQuote(dst))
	}
	return explainTarget(v.a, dst, v.explainSource(v.a, src, dst, err))
}
