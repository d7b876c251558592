package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

func newToken(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "tokens of a volume: what else opens it",
		Long: `Works with the tokens of a LUKS2 volume: notes in its header that tell programs
where a passphrase comes from. Tokens of every type are kept as they are; this
version opens volumes by those of type luks2-keyring (--token-id).`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(a, cmd, args[0])
			}
			return usagef(a.self+" token --help lists them", "what is to be done with the token is missing")
		},
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(newTokenList(a), newTokenAdd(a), newTokenExport(a), newTokenRemove(a))
	return cmd
}

// tokenVerb is what the verbs share.
type tokenVerb struct {
	a           *app
	header      string
	id          int
	file        string
	description string
	slot        int
	replace     bool
}

func (v *tokenVerb) register(cmd *cobra.Command, id string) {
	registerReport(v.a, cmd)
	if id != "" {
		cmd.Flags().IntVar(&v.id, "token-id", luks.AnyToken, "`N`: "+id)
	}
	registerHeader(cmd, &v.header)
}

func (v *tokenVerb) check(cmd *cobra.Command, needID bool) error {
	changed := cmd.Flags().Changed("token-id")
	if needID && !changed {
		return usagef(v.a.self+" token list VOL shows them", "--token-id N is missing")
	}
	if !changed {
		return nil
	}
	return checkToken(v.id)
}

func newTokenList(a *app) *cobra.Command {
	v := &tokenVerb{a: a}
	cmd := &cobra.Command{
		Use:   "list VOL",
		Short: "list the tokens of a volume",
		Long: `Lists the tokens of the LUKS2 volume VOL: for which keyslots they are, and
whether this version opens the volume by them. A token whose keyslots are all
gone is an orphan; nothing needs it.`,
		Example: `  xtsdisk token list disk.luks`,
		Args:    exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withHeader(cmd.Context(), a, args[0], v.header, func(h *luks.Header) error { return listTokens(a, args[0], h) })
		},
	}
	v.register(cmd, "")
	return cmd
}

type tokenListReport struct {
	Schema int           `json:"schema"`
	Volume string        `json:"volume"`
	Tokens []tokenReport `json:"tokens"`
}

type tokenReport struct {
	ID       int             `json:"id"`
	Type     string          `json:"type"`
	Keyslots []int           `json:"keyslots"`
	Orphan   bool            `json:"orphan"`
	Opens    bool            `json:"supported"`
	JSON     json.RawMessage `json:"token"`
}

// orphan tells whether a token can open nothing: it is for no keyslot. One for
// a key in the keyring may be meant for all of them.
func orphan(t *luks.Token) bool { return len(t.Keyslots) == 0 && t.Type != luks.TokenKeyring }

func listTokens(a *app, name string, h *luks.Header) error {
	r := tokenListReport{Schema: schemaVersion, Volume: name, Tokens: []tokenReport{}}
	for i := range h.Tokens {
		t := &h.Tokens[i]
		slots := append([]int{}, t.Keyslots...)
		r.Tokens = append(r.Tokens, tokenReport{t.ID, t.Type, slots, orphan(t), t.Supported() == nil, t.JSON})
	}
	if a.json {
		return printJSON(a.io.out, r)
	}
	if len(r.Tokens) == 0 {
		a.note("%s has no tokens", name)
		return nil
	}
	return table(a.io.out, "TOKEN\tTYPE\tKEYSLOTS\tOPENS HERE", func(row func(...any)) {
		for i, t := range r.Tokens {
			slots := strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Keyslots), " ", ", "), "[]")
			switch {
			case t.Orphan:
				slots = "none: an orphan"
			case len(t.Keyslots) == 0:
				slots = "any"
			}
			opens := "yes, with --token-id"
			if err := h.Tokens[i].Supported(); err != nil {
				opens = "no, " + err.Error()
			}
			row(t.ID, t.Type, slots, opens)
		}
	})
}

func newTokenAdd(a *app) *cobra.Command {
	v := &tokenVerb{a: a}
	cmd := &cobra.Command{
		Use:        "add VOL",
		SuggestFor: []string{"import"},
		Short:      "add a token to a volume",
		Long: `Adds a token to the LUKS2 volume VOL: its JSON object as it stands in a file,
byte for byte, or with --key-description one that names a key of the kernel's
keyring.`,
		Example: `  xtsdisk token add --json-file token.json disk.luks
  xtsdisk token add --key-description disk-key --key-slot 0 disk.luks`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.add(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&v.file, "json-file", "", "`FILE`: holds the token; - is stdin")
	cmd.Flags().StringVar(&v.description, "key-description", "", "`NAME`: of a key of type user in the kernel's keyring that is the passphrase")
	cmd.Flags().IntVarP(&v.slot, "key-slot", "S", luks.AnySlot, "`N`: the keyslot that it is for, with --key-description; all unless given")
	cmd.Flags().BoolVar(&v.replace, "token-replace", false, "replace the token that has this number")
	v.register(cmd, "its number; the first free one unless given")
	return cmd
}

func (v *tokenVerb) add(cmd *cobra.Command, name string) error {
	if err := v.check(cmd, false); err != nil {
		return err
	}
	fs := cmd.Flags()
	switch {
	case (v.file == "") == (v.description == ""):
		return usagef("", "one of --json-file FILE and --key-description NAME is needed")
	case fs.Changed("key-slot") && v.file != "":
		return usagef("put it into the file's \"keyslots\"", "--key-slot is for --key-description")
	case fs.Changed("key-slot"):
		if err := checkSlot("--key-slot", v.slot); err != nil {
			return err
		}
	case v.replace && v.id == luks.AnyToken:
		return usagef("add --token-id N", "--token-replace needs a number")
	}
	text, err := v.text()
	if err != nil {
		return err
	}
	return editHeader(cmd.Context(), v.a, name, v.header, func(h *volume.HeaderFile) error {
		id, err := h.AddToken(cmd.Context(), v.id, text, v.replace)
		if err != nil {
			return err
		}
		r := editReport{Volume: name, Token: &id}
		return r.tell(v.a, h.Header(), "token %d added", id)
	})
}

// maxTokenFile bounds what is read: the largest JSON area.
const maxTokenFile = 4 << 20

// text is the token's JSON.
func (v *tokenVerb) text() ([]byte, error) {
	if v.description != "" {
		var slots []int
		if v.slot >= 0 {
			slots = []int{v.slot}
		}
		return luks.KeyringToken(v.description, slots), nil
	}
	what := "token file " + v.file
	f, err := v.a.open(v.file, &what)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, plainPathError(err))
	}
	defer closeQuietly(f)
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, plainPathError(err))
	}
	if _, err := luks.CheckToken(text); err != nil {
		return nil, withHint(fmt.Errorf("%s: %w", what, err), `a token is an object such as  {"type":"NAME","keyslots":["0"]}`)
	}
	return text, nil
}

func newTokenExport(a *app) *cobra.Command {
	v := &tokenVerb{a: a}
	cmd := &cobra.Command{
		Use:   "export VOL",
		Short: "write a token to stdout or a file",
		Long: `Writes a token of the LUKS2 volume VOL, its JSON object byte for byte, to
stdout or to a new file.`,
		Example: `  xtsdisk token export --token-id 0 disk.luks
  xtsdisk token export --token-id 0 --json-file token.json disk.luks`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.check(cmd, true); err != nil {
				return err
			}
			return withHeader(cmd.Context(), a, args[0], v.header, func(h *luks.Header) error { return v.export(args[0], h) })
		},
	}
	cmd.Flags().IntVar(&v.id, "token-id", luks.AnyToken, "`N`: its number")
	cmd.Flags().StringVar(&v.file, "json-file", "", "`FILE`: the new file")
	registerHeader(cmd, &v.header)
	return cmd
}

func (v *tokenVerb) export(name string, h *luks.Header) error {
	i := slices.IndexFunc(h.Tokens, func(t luks.Token) bool { return t.ID == v.id })
	if i < 0 {
		return usagef(v.a.self+" token list "+shellQuote(name)+" shows which there are", "%s: there is no token %d", name, v.id)
	}
	text := h.Tokens[i].JSON
	if v.file == "" || v.file == stdinName {
		_, err := v.a.io.out.Write(append(slices.Clip(text), '\n'))
		return err
	}
	dir, err := device.OSDir(filepath.Dir(v.file), device.FileOptions{})
	if err != nil {
		return explainTarget(v.a, v.file, err)
	}
	defer closeQuietly(dir)
	err = writeFile(dir, filepath.Base(v.file), text, device.OutputOptions{CreateOptions: device.CreateOptions{Mode: 0o600}})
	if errors.Is(err, os.ErrExist) {
		return refusef("name another file", "%s exists", v.file)
	}
	return err
}

func newTokenRemove(a *app) *cobra.Command {
	v := &tokenVerb{a: a}
	cmd := &cobra.Command{
		Use:     "remove VOL",
		Short:   "remove a token from a volume",
		Long:    "Removes a token from the LUKS2 volume VOL. The keyslots that it was for stay.",
		Example: `  xtsdisk token remove --token-id 0 disk.luks`,
		Args:    exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.check(cmd, true); err != nil {
				return err
			}
			return v.remove(cmd.Context(), args[0])
		},
	}
	v.register(cmd, "its number")
	return cmd
}

func (v *tokenVerb) remove(ctx context.Context, name string) error {
	return editHeader(ctx, v.a, name, v.header, func(h *volume.HeaderFile) error {
		if err := h.RemoveToken(ctx, v.id); err != nil {
			return err
		}
		r := editReport{Volume: name, Token: &v.id}
		return r.tell(v.a, h.Header(), "token %d removed", v.id)
	})
}
