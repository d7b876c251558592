package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func tree(t *testing.T) *cobra.Command {
	t.Helper()
	return newRoot(&app{ctx: t.Context(), io: stdio{in: strings.NewReader(""), out: os.Stdout, err: os.Stderr}, self: "xtsdisk"})
}

func TestCommandLineDocument(t *testing.T) {
	t.Parallel()
	want, err := cliMarkdown(tree(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/cli.md is not what the program says: run  go run ./cmd/xtsdisk docs docs")
	}
}

func TestHelpFits(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	root := tree(t)
	_ = writeHelp(&help, root)
	if n := strings.Count(help.String(), "\n"); n > 30 {
		t.Errorf("--help has %d lines, at most 30", n)
	}
	for _, group := range verbGroups {
		if len(verbsIn(root, group)) == 0 {
			t.Errorf("group %s has no verbs", group)
		}
	}
	for _, cmd := range allLeaves(root) {
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" && !cmd.Hidden {
			t.Errorf("%s lacks a description or an example", verbName(cmd))
		}
		_ = writeHelp(&help, cmd)
	}
	for line := range strings.Lines(help.String()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
}

func allLeaves(root *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, group := range append(verbGroups, groupNone) {
		list = append(list, verbsIn(root, group)...)
	}
	return list
}

// Examples use options that exist, and as many arguments as the verb takes.
func TestExamplesParse(t *testing.T) {
	t.Parallel()
	program := regexp.MustCompile(`xtsdisk ([a-z][^|<>&]*)`)
	for _, cmd := range allLeaves(tree(t)) {
		text := strings.ReplaceAll(cmd.Example, "\\\n", " ")
		for _, match := range program.FindAllStringSubmatch(text, -1) {
			line, _, _ := strings.Cut(match[1], "\n")
			args := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), ")"))
			root := tree(t)
			found, rest, err := root.Find(args)
			if err != nil {
				t.Errorf("%s: %v", line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v", line, err)
				continue
			}
			if err := found.Args(found, found.Flags().Args()); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

// Every line of a manual page that begins with a dot is a macro of man(7), and
// no option has a hyphen that would not be copied as one.
func TestManualPages(t *testing.T) {
	t.Parallel()
	macro := regexp.MustCompile(`^\.(TH|SH|SS|TP|PP|B|I|nf|fi)( |$)`)
	pages := manPages(tree(t))
	if want := len(allLeaves(tree(t))) + 1; len(pages) != want {
		t.Errorf("%d pages, want %d", len(pages), want)
	}
	for _, p := range pages {
		for line := range strings.Lines(string(p.text)) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, ".") && !macro.MatchString(line) || strings.HasPrefix(line, "'") {
				t.Errorf("%s: %s", p.name, line)
			}
			if strings.Contains(strings.ReplaceAll(line, `\-`, ""), "--") {
				t.Errorf("%s: a bare hyphen in %s", p.name, line)
			}
		}
		if !bytes.Contains(p.text, []byte(".SH EXIT STATUS")) {
			t.Errorf("%s: no exit status", p.name)
		}
	}
}

func TestRoff(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"--key-file": `\-\-key\-file`, `a\b`: `a\eb`, ".dot\n'quote\nx.y": "\\&.dot\n\\&'quote\nx.y",
	} {
		if got := roff(in); got != want {
			t.Errorf("roff(%q) = %q, want %q", in, got, want)
		}
	}
}
