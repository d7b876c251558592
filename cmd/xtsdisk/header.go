package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

func newHeader(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "header",
		Short: "the header of a volume as a whole",
		Long: `Works with the whole header of a LUKS volume: what is in front of the data, with
all keyslots. Without it the data cannot be read by anyone, so a backup is worth
having; who has the backup and a passphrase that was good when it was made can
read the volume, whatever is changed later.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(a, cmd, args[0])
			}
			return usagef(a.self+" header --help lists them", "what is to be done with the header is missing")
		},
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(newHeaderBackup(a), newHeaderRestore(a), newHeaderRepair(a), newHeaderErase(a), newHeaderWipe(a),
		newHeaderConvert(a), newHeaderDiff(a))
	return cmd
}

// headerVerb is a verb that works with a whole header.
type headerVerb struct {
	a            *app
	header, from string
	keep         string
	kind         string
	force        bool
}

// headerReport is the JSON report of these verbs.
type headerReport struct {
	Schema   int      `json:"schema"`
	Volume   string   `json:"volume"`
	Version  int      `json:"version"` // of LUKS; after a change: now
	UUID     string   `json:"uuid"`
	Epoch    uint64   `json:"epoch"`
	File     string   `json:"file,omitempty"`     // that header backup made
	Bytes    int64    `json:"bytes,omitempty"`    // of it
	Kept     string   `json:"kept,omitempty"`     // the file with what was there before
	Repaired string   `json:"repaired,omitempty"` // the copy: primary, secondary, or both (from a backup)
	Lost     []string `json:"lost,omitempty"`     // what a conversion dropped
}

func newHeaderReport(name string, h *luks.Header) *headerReport {
	return &headerReport{Schema: schemaVersion, Volume: name, Version: h.Version, UUID: h.UUID, Epoch: h.SeqID}
}

// tell reports as JSON, or as a note.
func (r *headerReport) tell(a *app, format string, args ...any) error {
	if a.json {
		return printJSON(a.io.out, r)
	}
	a.note("%s: "+format, append([]any{r.Volume}, args...)...)
	return nil
}

func (v *headerVerb) options() volume.HeaderOptions {
	return volume.HeaderOptions{Header: v.header, Inside: v.a.inside, Keep: v.keep, Force: v.force, Warn: v.a.warn}
}

func (v *headerVerb) register(cmd *cobra.Command) {
	registerReport(v.a, cmd)
	registerHeader(cmd, &v.header)
}

// registerKeep adds the option of verbs that keep a file of what they replace.
func (v *headerVerb) registerKeep(cmd *cobra.Command) {
	cmd.Flags().StringVar(&v.keep, "keep", "", "`FILE`: what was there goes into this new file; VOL.header-TIME.backup unless given")
}

func newHeaderBackup(a *app) *cobra.Command {
	v := &headerVerb{a: a}
	cmd := &cobra.Command{
		Use:        "backup VOL FILE",
		SuggestFor: []string{"luksHeaderBackup", "save"},
		Short:      "copy the header to a file",
		Long: `Copies the header of the LUKS volume VOL, with its keyslots, to the new file
FILE, which only you can read: the same bytes as cryptsetup luksHeaderBackup
writes. Keep it apart from the volume, and as safe as a key: a passphrase that
is removed from the volume later still opens the backup.`,
		Example: `  xtsdisk header backup disk.luks disk.header`,
		Args:    exactArgs(a, "VOL", "FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return v.backup(cmd.Context(), args[0], args[1]) },
	}
	v.register(cmd)
	return cmd
}

func (v *headerVerb) backup(ctx context.Context, name, file string) error {
	if name == stdinName || file == stdinName {
		return usagef("name files", "a header's backup is made from a volume, in a file")
	}
	h, n, err := volume.BackupHeader(ctx, name, file, volume.OpenOptions{Header: v.header, Inside: v.a.inside, Warn: v.a.warn})
	if errors.Is(err, volume.ErrExists) {
		return withHint(err, "name another file: a backup is never written over a file")
	}
	if err != nil {
		if folder := filepath.Dir(file); errors.Is(err, fs.ErrNotExist) && exists(name) && !exists(folder) {
			return explainTarget(v.a, file, err)
		}
		return v.explain(name, err)
	}
	r := newHeaderReport(name, h)
	r.File, r.Bytes = file, n
	return r.tell(v.a, "header of %s in %s; who has it can try passphrases on it", formatSize(n), file)
}

// explain says what to do about a header that cannot be worked with.
func (v *headerVerb) explain(name string, err error) error {
	var known *failure
	self, vol := v.a.self, shellQuote(name)
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, luks.ErrNotLUKS):
		return withHint(err, "is it the right file? If its header was lost, a backup gives it back:  %s header repair %s --from FILE", self, vol)
	case errors.Is(err, luks.ErrHeaderCorrupt):
		return withHint(err, "a backup of the header helps:  %s header repair %s --from FILE", self, vol)
	}
	o := &openFlags{}
	return o.explainSource(v.a, name, "", naming(name, err))
}

// explainChange is explain for verbs that replace a header.
func (v *headerVerb) explainChange(name string, err error) error {
	switch {
	case errors.Is(err, luks.ErrPolicy):
		return withHint(naming(name, err), "with another header the data may be lost to you; if that is meant, add --force")
	case errors.Is(err, volume.ErrExists):
		return withHint(err, "name another file with --keep: what is replaced is never written over a file")
	case errors.Is(err, volume.ErrSame):
		return withHint(err, "name the backup")
	}
	return v.explain(name, err)
}

// noStreams refuses "-" where a header or a whole volume is needed.
func noStreams(names ...string) error {
	for _, name := range names {
		if name == stdinName {
			return usagef("", "a volume is needed, not a stream")
		}
	}
	return nil
}

func newHeaderRestore(a *app) *cobra.Command {
	v := &headerVerb{a: a}
	cmd := &cobra.Command{
		Use:        "restore VOL",
		SuggestFor: []string{"luksHeaderRestore"},
		Short:      "replace the header by a backup",
		Long: `Replaces the header of the LUKS volume VOL, with all keyslots, by the one in the
backup --from FILE, which is checked first. What was there is kept in a file,
whose name is printed; so an interrupted restore is finished, or undone, by
header repair --from. A backup with another UUID, LUKS version, data offset or
key length than the volume's is written with --force only, and so is one over
what is no LUKS volume.`,
		Example: `  xtsdisk header restore disk.luks --from disk.header`,
		Args:    exactArgs(a, "VOL"),
		RunE:    func(cmd *cobra.Command, args []string) error { return v.restore(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&v.from, "from", "", "`FILE`: the backup")
	cmd.Flags().BoolVarP(&v.force, "force", "f", false, "although the backup does not fit the header that is there")
	v.registerKeep(cmd)
	v.register(cmd)
	return cmd
}

func (v *headerVerb) restore(ctx context.Context, name string) error {
	if v.from == "" {
		return usagef("name the backup:  --from FILE", "--from is missing")
	}
	if err := noStreams(name, v.from); err != nil {
		return err
	}
	c, err := volume.RestoreHeader(ctx, name, v.from, v.options())
	if err != nil {
		return v.explainChange(name, err)
	}
	r := newHeaderReport(name, c.Header)
	r.Kept = c.Kept
	return r.tell(v.a, "header restored from %s; what was there is in %s", v.from, c.Kept)
}

func newHeaderRepair(a *app) *cobra.Command {
	v := &headerVerb{a: a}
	cmd := &cobra.Command{
		Use:   "repair VOL",
		Short: "make a damaged header whole",
		Long: `Writes the damaged or older one of the two copies of a LUKS2 header from the
other. Where no copy is whole, and in LUKS1, which has only one, the backup
--from FILE is written instead, and what was there is kept in a file; this also
finishes a header restore or convert that was interrupted. A header that is
whole stays as it is.`,
		Example: `  xtsdisk header repair disk.luks
  xtsdisk header repair disk.luks --from disk.header`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.repair(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&v.from, "from", "", "`FILE`: a backup of the header, for when no copy is whole")
	cmd.Flags().BoolVarP(&v.force, "force", "f", false, "although VOL starts as something else, or the backup has another UUID")
	v.registerKeep(cmd)
	v.register(cmd)
	return cmd
}

func (v *headerVerb) repair(ctx context.Context, name string) error {
	if err := noStreams(name, v.from); err != nil {
		return err
	}
	c, err := volume.RepairHeader(ctx, name, v.from, v.options())
	if err != nil {
		return v.explainChange(name, err)
	}
	r := newHeaderReport(name, c.Header)
	switch r.Kept = c.Kept; {
	case c.Copy != nil:
		r.Repaired = c.Copy.String()
		return r.tell(v.a, "the %s header was written anew from the other copy", c.Copy)
	case c.Kept != "":
		r.Repaired = "both"
		return r.tell(v.a, "header written from %s; what was there is in %s", v.from, c.Kept)
	case v.from != "":
		return r.tell(v.a, "the header is whole; nothing was changed (header restore replaces it)")
	}
	return r.tell(v.a, "the header is whole; nothing was changed")
}

func newHeaderConvert(a *app) *cobra.Command {
	v := &headerVerb{a: a}
	cmd := &cobra.Command{
		Use:   "convert VOL",
		Short: "turn a LUKS1 header into LUKS2, or back",
		Long: `Makes the header of the LUKS volume VOL one of another version: the same
passphrases and keyslots for the same data. To luks1 only what it can describe
is converted: pbkdf2 keyslots 0 to 7 with one hash, 512-byte sectors, no tokens.
What was there is kept in a file, whose name is printed; an interrupted
conversion is undone with it by header repair --from.`,
		Example: `  xtsdisk header convert old.luks --type luks2
  xtsdisk header convert disk.luks --type luks1`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.convert(cmd.Context(), args[0]) },
	}
	inGroup(cmd.Flags(), flagsVolume, func() {
		cmd.Flags().StringVarP(&v.kind, "type", "M", "", "`TYPE`: luks1 or luks2")
	})
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions([]string{typeLUKS1, typeLUKS2}, cobra.ShellCompDirectiveNoFileComp))
	v.registerKeep(cmd)
	v.register(cmd)
	return cmd
}

func (v *headerVerb) convert(ctx context.Context, name string) error {
	version := map[string]int{typeLUKS1: 1, typeLUKS2: 2}[v.kind]
	if version == 0 {
		return usagef("--type luks1 or --type luks2", "what it is to become is missing")
	}
	if err := noStreams(name); err != nil {
		return err
	}
	c, err := volume.ConvertHeader(ctx, name, version, v.options())
	switch {
	case errors.Is(err, luks.ErrUnsupported):
		return withHint(err, "change what is in the way first; %s key convert --pbkdf pbkdf2 changes a keyslot", v.a.self)
	case errors.Is(err, luks.ErrPolicy):
		return withHint(err, "decrypt it, and encrypt it again with another cipher")
	case errors.Is(err, luks.ErrSize):
		return withHint(err, "there is no room in front of the data for the other header; nothing was changed")
	case err != nil:
		return v.explainChange(name, err)
	}
	r := newHeaderReport(name, c.Header)
	r.Kept, r.Lost = c.Kept, c.Lost
	if len(c.Lost) > 0 {
		v.a.warn(name + ": LUKS1 has no place for " + strings.Join(c.Lost, "; "))
	}
	return r.tell(v.a, "%s", sentence(fmt.Sprintf("now a LUKS%d volume", version), "what was there is in "+c.Kept))
}
