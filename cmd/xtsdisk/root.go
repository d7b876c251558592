package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xtsdisk/xtsdisk/xts"
)

// The groups of verbs, in the order of --help.
const (
	groupNone    = ""
	groupImages  = "Images"
	groupVolumes = "Volumes"
	groupUse     = "Use"
	groupKeys    = "Keys"
	groupMeasure = "Measure"
)

var verbGroups = []string{groupImages, groupVolumes, groupUse, groupKeys, groupMeasure}

const aboutProgram = "encrypts and decrypts disk images, and makes and opens LUKS volumes,\nin user space: without root and without device-mapper."

// newRoot builds the command tree.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "xtsdisk",
		Long:          "xtsdisk " + aboutProgram,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(a, cmd, args[0])
			}
			if version, _ := cmd.Flags().GetBool("version"); version {
				return a.version()
			}
			return usagef(a.self+" --help lists the verbs; "+a.self+" demo shows what it does", "a verb is missing")
		},
		Args:              cobra.ArbitraryArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.begin(cmd) },
	}
	cobra.EnableCommandSorting = false
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetOut(a.io.out)
	root.SetErr(a.io.err)
	root.SetFlagErrorFunc(flagError(a))
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { a.helpErr = writeHelp(a.io.out, cmd) })
	root.Flags().Bool("version", false, "as the verb version")
	fs := root.PersistentFlags()
	inGroup(fs, flagsRun, func() {
		fs.BoolVarP(&a.quiet, "quiet", "q", false, "no notes, warnings or progress: errors only")
		fs.BoolVarP(&a.verbose, "verbose", "v", false, "say more: costs, choices, memory that could not be locked")
		fs.StringVar(&a.level, "level", "", "`NAME`: force this implementation of AES, as XTSDISK_LEVEL does; the verb version lists them")
	})
	_ = root.RegisterFlagCompletionFunc("level", cobra.FixedCompletions(xts.Levels(), cobra.ShellCompDirectiveNoFileComp))
	for _, v := range verbs {
		cmd := v.make(a)
		if v.group != groupNone {
			cmd.Annotations = map[string]string{groupAnnotation: v.group}
		}
		completeFiles(cmd)
		root.AddCommand(cmd)
	}
	root.SetHelpCommand(&cobra.Command{
		Use: "help [VERB]", Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownVerb(a, root, strings.Join(args, " "))
			}
			return writeHelp(a.io.out, cmd)
		},
	})
	return root
}

// begin runs before every verb: the level is settled first, since the engine
// reads it once.
func (a *app) begin(cmd *cobra.Command) error {
	if err := checkValues(cmd); err != nil {
		return err
	}
	if err := a.readInside(cmd); err != nil {
		return err
	}
	if a.level != "" {
		if err := os.Setenv("XTSDISK_LEVEL", a.level); err != nil {
			return err
		}
	}
	if _, _, err := xts.DefaultLevel(); err != nil {
		return &failure{exitUnsupported, err, a.self + " version lists the levels that run here (with XTSDISK_LEVEL unset)"}
	}
	return nil
}

// path is a command as the user would type it: "go run ./cmd/xtsdisk key test".
func (a *app) path(cmd *cobra.Command) string {
	return a.self + strings.TrimPrefix(cmd.CommandPath(), "xtsdisk")
}

func unknownVerb(a *app, cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	path := a.path(cmd)
	hint := path + " --help lists the verbs"
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = "did you mean " + path + " " + near[0] + "?"
	} else if exists(name) {
		hint = fmt.Sprintf("a verb comes first: %s encrypt %s DST, or %s decrypt %s DST", a.self, shellQuote(name), a.self, shellQuote(name))
	}
	return usagef(hint, "there is no verb %q", name)
}

// exactArgs checks the number of arguments against names, and says which are
// missing or too many.
func exactArgs(a *app, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		usage := strings.TrimSpace("usage: " + a.path(cmd) + " " + strings.Join(names, " "))
		if len(args) < len(names) {
			missing := names[len(args):]
			if len(args) == 0 {
				return usagef(usage, "%s missing", isAre(missing))
			}
			return usagef(usage, "%s missing after %s", isAre(missing), shellQuote(args[len(args)-1]))
		}
		if len(args) > len(names) {
			return usagef(usage, "one argument too many: %s", shellQuote(args[len(names)]))
		}
		for i, arg := range args {
			if arg == "" {
				return usagef(usage, "%s is empty", names[i])
			}
		}
		return nil
	}
}

func isAre(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return joinWords(names, "and") + " are"
}

// leaves returns the commands that do something, in order: "key test", not "key".
func leaves(cmd *cobra.Command) []*cobra.Command {
	if !cmd.HasSubCommands() {
		return []*cobra.Command{cmd}
	}
	var list []*cobra.Command
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			list = append(list, leaves(c)...)
		}
	}
	return list
}

func verbsIn(root *cobra.Command, group string) []*cobra.Command {
	var list []*cobra.Command
	for _, c := range root.Commands() {
		if c.Annotations[groupAnnotation] == group && !c.Hidden && c.Name() != "help" {
			list = append(list, leaves(c)...)
		}
	}
	return list
}

// usageOf is a verb with its arguments: "encrypt SRC DST".
func usageOf(cmd *cobra.Command) string {
	_, args, _ := strings.Cut(cmd.Use, " ")
	return strings.TrimSpace(verbName(cmd) + " " + args)
}

func writeHelp(out io.Writer, cmd *cobra.Command) error {
	w := &bytes.Buffer{}
	if cmd.HasParent() {
		writeVerbHelp(w, cmd)
	} else {
		writeRootHelp(w, cmd)
	}
	_, err := out.Write(w.Bytes())
	return err
}

// topVerbs are the verbs of a group, those that have verbs of their own as one.
func topVerbs(root *cobra.Command, group string) []*cobra.Command {
	var list []*cobra.Command
	for _, c := range root.Commands() {
		if c.Annotations[groupAnnotation] == group && !c.Hidden && c.Name() != "help" {
			list = append(list, c)
		}
	}
	return list
}

// writeVerbLine is a verb in the program's help: a verb that has others below
// it with their names.
func writeVerbLine(w io.Writer, c *cobra.Command) {
	if !c.HasSubCommands() {
		fmt.Fprintf(w, "  %-22s %s\n", usageOf(c), c.Short)
		return
	}
	var names []string
	for _, sub := range leaves(c) {
		names = append(names, sub.Name())
	}
	lines := wrap(strings.Join(names, ", "), 79-25)
	fmt.Fprintf(w, "  %-22s %s\n", c.Name()+" ...", lines[0])
	for _, line := range lines[1:] {
		fmt.Fprintf(w, "  %-22s %s\n", "", line)
	}
}

func writeVerbHelp(w io.Writer, cmd *cobra.Command) {
	fmt.Fprintf(w, "%s\n\nUsage: xtsdisk %s [OPTIONS]\n", cmd.Long, usageOf(cmd))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w)
		for _, c := range leaves(cmd) {
			fmt.Fprintf(w, "  %-22s %s\n", usageOf(c), c.Short)
		}
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, group := range flagGroups {
		if list := flagsIn(cmd, group); len(list) > 0 {
			if group == "" {
				group = "Options"
			}
			fmt.Fprintf(w, "\n%s:\n", group)
			writeFlags(w, list)
		}
	}
}

func writeFlags(w io.Writer, list []*pflag.Flag) {
	const column = 30
	for _, f := range list {
		names, usage := flagLine(f)
		lines := wrap(usage, 79-column-2)
		if len(names)+2 > column {
			fmt.Fprintf(w, "  %s\n", names)
			names = ""
		}
		for _, line := range lines {
			fmt.Fprintf(w, "  %-*s%s\n", column, names, line)
			names = ""
		}
	}
}

// wrap breaks text into lines of at most width bytes where it can.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func writeRootHelp(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, "%s\n\nUsage: xtsdisk VERB [ARGUMENTS] [OPTIONS]\n\n", root.Long)
	for _, group := range verbGroups {
		if list := topVerbs(root, group); len(list) > 0 {
			fmt.Fprintf(w, "%s\n", group)
			for _, c := range list {
				writeVerbLine(w, c)
			}
		}
	}
	var rest []string
	for _, c := range verbsIn(root, groupNone) {
		rest = append(rest, usageOf(c))
	}
	fmt.Fprintf(w, "\nAlso: %s.\n", strings.Join(rest, ", "))
	fmt.Fprint(w, "xtsdisk VERB --help explains a verb, its options and shows examples.\n")
}
