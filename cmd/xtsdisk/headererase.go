package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

func newHeaderErase(a *app) *cobra.Command {
	v := &headerVerb{a: a}
	cmd := &cobra.Command{
		Use:        "erase VOL",
		SuggestFor: []string{"luksErase", "destroy"},
		Short:      "destroy all keyslots",
		Long: `Overwrites all keyslots of the LUKS volume VOL and takes them out of the header,
which stays. No passphrase opens the volume any more; only its volume key, or a
backup of the header, does. Asks first, on the terminal.`,
		Example: `  xtsdisk header erase disk.luks`,
		Args:    exactArgs(a, "VOL"),
		RunE:    func(cmd *cobra.Command, args []string) error { return v.erase(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVarP(&v.force, "force", "f", false, "do not ask")
	v.register(cmd)
	return cmd
}

func (v *headerVerb) erase(ctx context.Context, name string) error {
	return editHeader(ctx, v.a, name, v.header, func(h *volume.HeaderFile) error {
		n := len(h.Header().Keyslots)
		question := fmt.Sprintf("All %d keyslots of %s (UUID %s) will be destroyed, and its data is lost without the volume key or a header backup.", n, name, h.Header().UUID)
		if err := v.confirm(question); err != nil {
			return err
		}
		orphans, err := h.EraseKeys(ctx)
		if err != nil {
			return err
		}
		r := editReport{Volume: name}
		r.removed(v.a, orphans, "a keyslot")
		return r.tell(v.a, h.Header(), "all keyslots destroyed; no passphrase opens it any more")
	})
}

func newHeaderWipe(a *app) *cobra.Command {
	v := &headerVerb{a: a}
	cmd := &cobra.Command{
		Use:   "wipe VOL",
		Short: "remove the header",
		Long: `Removes the header of the LUKS volume VOL: overwrites the keyslots, then clears
everything in front of the data that a header can be found by. Nothing tells of
a volume afterwards, and its data is lost without a backup of the header. The
encrypted data itself stays as it is. Asks first, on the terminal.`,
		Example: `  xtsdisk header wipe disk.luks`,
		Args:    exactArgs(a, "VOL"),
		RunE:    func(cmd *cobra.Command, args []string) error { return v.wipe(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVarP(&v.force, "force", "f", false, "do not ask")
	v.register(cmd)
	return cmd
}

func (v *headerVerb) wipe(ctx context.Context, name string) error {
	if err := noStreams(name); err != nil {
		return err
	}
	h, err := volume.ReadHeader(ctx, name, volume.OpenOptions{Header: v.header, Inside: v.a.inside, Warn: v.a.warn})
	if err == nil {
		err = v.confirm(fmt.Sprintf("The header of %s (UUID %s) will be removed, and its data is lost without a header backup.", name, h.UUID))
	}
	var c volume.HeaderChange
	if err == nil {
		c, err = volume.WipeHeader(ctx, name, v.options())
	}
	if err != nil {
		return v.explain(name, err)
	}
	return newHeaderReport(name, c.Header).tell(v.a, "the header is gone (it was LUKS%d, UUID %s)", c.Header.Version, c.Header.UUID)
}

// confirm lets the person at the terminal agree, as cryptsetup does.
func (v *headerVerb) confirm(text string) error {
	if v.force {
		return nil
	}
	in, out, err := openTerminal()
	if err != nil {
		return refusef("if that is meant, add --force", "%s There is no terminal to ask on", text)
	}
	defer closeQuietly(in)
	if out != in {
		defer closeQuietly(out)
	}
	fmt.Fprintf(out, "%s\nType YES if that is meant: ", visible(text))
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- line
	}()
	select {
	case <-v.a.ctx.Done():
		return cancelCause(v.a.ctx)
	case line := <-answer:
		if strings.TrimSpace(line) == "YES" {
			return nil
		}
	}
	return refusef("", "nothing was changed: the answer was not YES")
}

func newHeaderDiff(a *app) *cobra.Command {
	v := &headerVerb{a: a}
	cmd := &cobra.Command{
		Use:   "diff VOL",
		Short: "compare the header with a backup or another volume",
		Long: `Lists in what the header of the LUKS volume VOL differs from that in --from
FILE, a backup or another volume: names, keyslots with their key material,
segments, digests, tokens. The exit code is 0 if they are the same and 11 if
they differ.`,
		Example: `  xtsdisk header diff disk.luks --from disk.header`,
		Args:    exactArgs(a, "VOL"),
		RunE:    func(cmd *cobra.Command, args []string) error { return v.diff(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&v.from, "from", "", "`FILE`: the backup or other volume")
	v.register(cmd)
	return cmd
}

// diffReport is the JSON report of header diff.
type diffReport struct {
	Schema int         `json:"schema"`
	Volume string      `json:"volume"`
	From   string      `json:"from"`
	Same   bool        `json:"same"`
	List   []diffEntry `json:"differences"`
}

type diffEntry struct {
	Path string  `json:"path"`
	A    *string `json:"volume"` // null: not there
	B    *string `json:"from"`
}

func (v *headerVerb) diff(ctx context.Context, name string) error {
	if v.from == "" {
		return usagef("name what to compare with:  --from FILE", "--from is missing")
	}
	if err := noStreams(name, v.from); err != nil {
		return err
	}
	list, err := volume.DiffHeaders(ctx, name, v.from, volume.OpenOptions{Header: v.header, Inside: v.a.inside, Warn: v.a.warn})
	if err != nil {
		return v.explain(name, err)
	}
	if v.a.json {
		if err := v.diffJSON(name, list); err != nil {
			return err
		}
	} else if len(list) > 0 {
		err := table(v.a.io.out, "FIELD\tVOLUME\tFROM", func(row func(...any)) {
			for _, d := range list {
				row(d.Path, orDash(d.A), orDash(d.B))
			}
		})
		if err != nil {
			return err
		}
	}
	if len(list) > 0 {
		return &reported{exitDiffers}
	}
	v.a.note("%s and %s have the same header", name, v.from)
	return nil
}

func (v *headerVerb) diffJSON(name string, list []luks.Difference) error {
	r := diffReport{Schema: schemaVersion, Volume: name, From: v.from, Same: len(list) == 0, List: []diffEntry{}}
	for _, d := range list {
		e := diffEntry{Path: d.Path}
		if d.A != "" {
			e.A = &d.A
		}
		if d.B != "" {
			e.B = &d.B
		}
		r.List = append(r.List, e)
	}
	return printJSON(v.a.io.out, r)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
