package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// manPage is one manual page in man(7) macros.
type manPage struct {
	name string // "xtsdisk-key-test.1"
	text []byte
}

// manPages makes the pages from the same tables as --help and docs/cli.md.
// They carry no date, so that the same program makes the same bytes.
func manPages(root *cobra.Command) []manPage {
	pages := []manPage{overviewPage(root)}
	for _, group := range append(verbGroups, groupNone) {
		for _, cmd := range verbsIn(root, group) {
			pages = append(pages, verbPage(cmd))
		}
	}
	return pages
}

func overviewPage(root *cobra.Command) manPage {
	var b strings.Builder
	manHead(&b, "xtsdisk", "encrypted disk images and LUKS volumes in user space")
	section(&b, "synopsis")
	fmt.Fprintf(&b, ".B xtsdisk\n.I VERB\n[ARGUMENTS] [OPTIONS]\n")
	section(&b, "description")
	paragraphs(&b, root.Long)
	var see []string
	for _, group := range append(verbGroups, groupNone) {
		list := verbsIn(root, group)
		if len(list) == 0 {
			continue
		}
		if group == groupNone {
			group = "Setting up"
		}
		fmt.Fprintf(&b, ".SS %s\n", group)
		for _, cmd := range list {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(usageOf(cmd)), roff(cmd.Short))
			see = append(see, pageName(cmd)+"(1)")
		}
	}
	manExits(&b)
	section(&b, "environment")
	fmt.Fprintf(&b, ".TP\n.B XTSDISK_LEVEL\n%s\n", roff("forces an implementation of AES, as --level does; xtsdisk version lists them"))
	section(&b, "see also")
	b.WriteString(roff(strings.Join(append(see, "cryptsetup(8)"), ", ")) + "\n")
	return manPage{"xtsdisk.1", []byte(b.String())}
}

func verbPage(cmd *cobra.Command) manPage {
	var b strings.Builder
	name := pageName(cmd)
	manHead(&b, name, cmd.Short)
	section(&b, "synopsis")
	fmt.Fprintf(&b, ".B xtsdisk %s\n%s\n", roff(verbName(cmd)), roff(strings.TrimSpace(strings.TrimPrefix(usageOf(cmd), verbName(cmd))+" [OPTIONS]")))
	section(&b, "description")
	paragraphs(&b, cmd.Long)
	section(&b, "options")
	for _, group := range flagGroups {
		list := flagsIn(cmd, group)
		if len(list) > 0 && group != "" {
			fmt.Fprintf(&b, ".SS %s\n", roff(group))
		}
		for _, f := range list {
			names, usage := flagLine(f)
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(names)), roff(usage))
		}
	}
	if cmd.Example != "" {
		section(&b, "examples")
		fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roff(unindent(cmd.Example)))
	}
	manExits(&b)
	section(&b, "see also")
	b.WriteString("xtsdisk(1), cryptsetup(8)\n")
	return manPage{name + ".1", []byte(b.String())}
}

func pageName(cmd *cobra.Command) string {
	return "xtsdisk-" + strings.ReplaceAll(verbName(cmd), " ", "-")
}

func manHead(b *strings.Builder, name, short string) {
	fmt.Fprintf(b, ".TH %s 1 \"\" xtsdisk \"User Commands\"\n", roff(strings.ToUpper(name)))
	section(b, "name")
	fmt.Fprintf(b, "%s \\- %s\n", roff(name), roff(short))
}

func manExits(b *strings.Builder) {
	section(b, "exit status")
	for _, e := range exitCodes {
		fmt.Fprintf(b, ".TP\n.B %d\n%s\n", e.code, roff(e.meaning))
	}
}

func section(b *strings.Builder, name string) {
	fmt.Fprintf(b, ".SH %s\n", strings.ToUpper(name))
}

func paragraphs(b *strings.Builder, text string) {
	fmt.Fprintf(b, "%s\n", strings.ReplaceAll(roff(text), "\n\n", "\n.PP\n"))
}

// roff escapes text: backslashes, hyphens (so that options can be copied), and
// lines that would be taken for requests.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
