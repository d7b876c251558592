package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

type encryptVerb struct {
	newVolumeFlags
	jobFlags
	a   *app
	pad bool
}

func newEncrypt(a *app) *cobra.Command {
	v := &encryptVerb{a: a}
	cmd := &cobra.Command{
		Use:        "encrypt SRC DST",
		SuggestFor: []string{"enc", "crypt", "reencrypt"},
		Short:      "copy an image into a new encrypted volume",
		Long: `Copies the disk image or block device SRC into the new encrypted volume DST:
LUKS2, which cryptsetup opens too, with --type luks1 the older LUKS1, or with
--type plain one without a header. SRC is not changed. SRC - is stdin,
DST - is stdout.

A new DST is written under a temporary name and appears when it is complete.
A block device DST needs --force. Holes of SRC become encrypted zeros, so the
volume is as large as the image looks, and does not show what was empty.`,
		Example: `  xtsdisk encrypt disk.img disk.luks
  xtsdisk encrypt --key-file disk.key --label backup disk.img disk.luks
  tar -c folder | xtsdisk encrypt --pad - folder.luks
  xtsdisk encrypt --type plain --cipher aes-xts-plain64 --key-size 512 \
      --hash sha512 --sector-size 512 disk.img disk.plain`,
		Args: exactArgs(a, "SRC", "DST"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args[0], args[1]) },
	}
	cmd.Flags().BoolVar(&v.pad, "pad", false, "fill the last sector with zeros if SRC ends inside it")
	v.jobFlags.register(a, cmd)
	v.newVolumeFlags.register(cmd, true)
	return cmd
}

func (v *encryptVerb) run(ctx context.Context, src, dst string) error {
	if err := v.check(dst, src == stdinName); err != nil {
		return err
	}
	if err := v.a.checkStdout(dst); err != nil {
		return err
	}
	if src == stdinName && isTerminal(v.a.io.in) {
		return usagef("such as  tar -c FOLDER | "+v.a.self+" encrypt --pad - "+shellQuote(dst), "standard input is the terminal: pipe the data in")
	}
	m, err := newMeter(v.a, v.progress)
	if err != nil {
		return err
	}
	o := volume.EncryptOptions{
		Src: src, Dst: dst, Header: v.volume.header, Stdin: v.a.io.in, Stdout: v.a.io.out,
		Pad: v.pad, Force: v.force, Direct: v.direct,
		Progress: m.set, Warn: v.a.warn,
	}
	k, err := v.prepare(m, dst, &o)
	if err != nil {
		m.close()
		return err
	}
	defer k.destroy()
	r, err := volume.Encrypt(ctx, o)
	m.close()
	if err != nil {
		return v.explain(src, dst, err)
	}
	if v.a.json {
		return printJSON(v.a.io.out, newJobReport(src, dst, r))
	}
	v.a.note("%s", encryptSummary(dst, v.volume.header, v.volume.use, r))
	return nil
}

// prepare fills in the kind of volume, and arranges for passphrase and costs
// to be settled once the checks have passed.
func (v *encryptVerb) prepare(m *meter, dst string, o *volume.EncryptOptions) (*newKeys, error) {
	k := &newKeys{}
	if !v.volume.plain() {
		opts, err := v.volume.luksOptions()
		if err != nil {
			return nil, err
		}
		o.Luks = opts
		o.Prepare = func(ctx context.Context, opts *luks.FormatOptions, _ *volume.PlainOptions) error {
			return v.luksKeys(ctx, v.a, m, dst, opts, k)
		}
		return k, nil
	}
	opts, err := v.volume.plainOptions(&v.keys)
	if err != nil {
		return nil, err
	}
	o.Plain = opts
	o.Prepare = func(_ context.Context, _ *luks.FormatOptions, opts *volume.PlainOptions) (err error) {
		if k.passphrase, err = v.keys.readNew(v.a, dst); err != nil {
			return err
		}
		opts.Key, err = v.volume.plainKey(v.a, k.passphrase)
		return err
	}
	return k, nil
}

func encryptSummary(dst, header, use string, r volume.Report) string {
	if dst == stdinName {
		dst = "stdout"
	}
	var holes, padding string
	if r.HoleBytes > 0 {
		holes = formatSize(r.HoleBytes) + " of holes became encrypted zeros"
	}
	if r.Padding > 0 {
		padding = fmt.Sprintf("%d bytes of zeros added at the end", r.Padding)
	}
	return sentence(fmt.Sprintf("%s: encrypted %s", dst, timing(r)), apart(header), sectors(r, use), holes, padding)
}

// explain adds what to do to errors that need the arguments for it.
func (v *encryptVerb) explain(src, dst string, err error) error {
	info, statErr := os.Stat(src)
	switch {
	case src == stdinName:
	case errors.Is(err, volume.ErrExists) && isLUKS(src):
		return withHint(err, "%s is a LUKS volume; did you mean  %s decrypt %s FILE  ?", src, v.a.self, shellQuote(src))
	case errors.Is(statErr, fs.ErrNotExist) && exists(dst):
		return withHint(err, "the source comes first; did you mean  %s encrypt %s %s  ?", v.a.self, shellQuote(dst), shellQuote(src))
	case errors.Is(statErr, fs.ErrNotExist):
		return withHint(err, "check the name of the source: there is no %s", src)
	case statErr == nil && info.IsDir():
		return withHint(err, "images and block devices can be encrypted; for a folder:  tar -c %s | %s encrypt --pad - %s", shellQuote(src), v.a.self, shellQuote(dst))
	case errors.Is(err, volume.ErrSize) && statErr == nil && info.Mode().IsRegular() && info.Size() == 0:
		return withHint(err, "an empty image has nothing to encrypt; an empty volume is made by  %s format --create SIZE %s", v.a.self, shellQuote(dst))
	}
	if errors.Is(err, volume.ErrSize) && !strings.HasPrefix(err.Error(), dst+":") {
		if src == stdinName {
			return withHint(err, "--pad fills a last sector that is not whole with zeros; nothing at all cannot be encrypted")
		}
		if v.volume.size.set {
			return withHint(err, "--size is the most that the source may have; --pad fills the last sector with zeros")
		}
		return withHint(err, "--pad fills the last sector with zeros; --sector-size 512 needs the least")
	}
	return explainTarget(v.a, dst, v.explainKey(err))
}
