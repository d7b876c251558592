package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device"
)

// docs/cli.md is this template with the command table, the options and the
// exit codes filled in, so that it cannot say anything else than --help.
//
//go:embed cli.md.tmpl
var cliTemplate string

func newDocs(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "docs DIR",
		Short:  "write cli.md, the description of the command line",
		Long:   "Writes cli.md, the description of the command line, to the folder DIR, over the\none that is there.",
		Hidden: true,
		Args:   exactArgs(a, "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := cliMarkdown(cmd.Root())
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(args[0], "cli.md"), text, 0o644)
		},
	}
}

func newMan(a *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "man DIR",
		Short: "write the manual pages to a folder",
		Long:  "Writes the manual pages, xtsdisk.1 and one for each verb, to the folder DIR.",
		Example: `  xtsdisk man /usr/local/share/man/man1
  mkdir pages && xtsdisk man pages && man pages/xtsdisk-encrypt.1`,
		Args: exactArgs(a, "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.writePages(cmd.Root(), args[0], force) },
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "replace pages that are there")
	return cmd
}

func (a *app) writePages(root *cobra.Command, name string, force bool) error {
	dir, err := device.OSDir(name, device.FileOptions{})
	if errors.Is(err, fs.ErrNotExist) {
		return withHint(err, "make the folder first:  mkdir -p %s", shellQuote(name))
	}
	if err != nil {
		return err
	}
	defer closeQuietly(dir)
	pages := manPages(root)
	for _, p := range pages {
		err := writeFile(dir, p.name, p.text, device.OutputOptions{Replace: force, CreateOptions: device.CreateOptions{Mode: 0o644}})
		if errors.Is(err, fs.ErrExist) {
			return withHint(err, "add --force to replace the pages that are there")
		}
		if err != nil {
			return err
		}
	}
	a.note("%d pages in %s", len(pages), name)
	return nil
}

// cliMarkdown returns docs/cli.md.
func cliMarkdown(root *cobra.Command) ([]byte, error) {
	t, err := template.New("cli.md").Parse(cliTemplate)
	if err != nil {
		return nil, err
	}
	var overview, verbs, codes strings.Builder
	for _, group := range append(verbGroups, groupNone) {
		list := verbsIn(root, group)
		if group == groupNone {
			group = "Setting up"
		}
		for _, cmd := range list {
			fmt.Fprintf(&overview, "| %s | [`%s`](#%s) | %s |\n", group, usageOf(cmd), anchor(verbName(cmd)), cmd.Short)
			markdownVerb(&verbs, cmd)
			group = ""
		}
	}
	for _, e := range exitCodes {
		fmt.Fprintf(&codes, "| %d | `%s` | %s | %s |\n", e.code, e.name, e.meaning, e.cryptsetup)
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]string{
		"Overview": overview.String(), "Verbs": verbs.String(), "Codes": codes.String(),
		"Common": markdownFlags(root.Commands()[0], flagsRun, func(name string) bool { return root.PersistentFlags().Lookup(name) != nil }),
	})
	return out.Bytes(), err
}

func anchor(heading string) string { return strings.ReplaceAll(heading, " ", "-") }

func markdownVerb(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "### %s\n\n    xtsdisk %s [OPTIONS]\n\n%s\n\n", verbName(cmd), usageOf(cmd), cmd.Long)
	if cmd.Example != "" {
		fmt.Fprintf(b, "```\n%s\n```\n\n", unindent(cmd.Example))
	}
	own := func(name string) bool { return cmd.Root().PersistentFlags().Lookup(name) == nil }
	for _, group := range flagGroups {
		b.WriteString(markdownFlags(cmd, group, own))
	}
}

// markdownFlags is the table of a group's flags, "" if there are none.
func markdownFlags(cmd *cobra.Command, group string, want func(name string) bool) string {
	var b strings.Builder
	for _, f := range flagsIn(cmd, group) {
		if !want(f.Name) {
			continue
		}
		if b.Len() == 0 {
			title := group
			if title == "" {
				title = "Options"
			}
			fmt.Fprintf(&b, "| %s | |\n|-|-|\n", title)
		}
		names, usage := flagLine(f)
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.TrimSpace(names), strings.ReplaceAll(usage, "|", "\\|"))
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

func unindent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}
