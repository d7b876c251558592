package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Flags are shown in groups: in --help, in the manual pages and in docs/cli.md.
// The order of the groups is the order here; flags without a group are the
// verb's own and come first.
const (
	flagsKeys   = "Passphrase and keys"
	flagsNewKey = "The new passphrase"
	flagsVolume = "The volume"
	flagsKDF    = "Cost of the passphrase (keyslot)"
	flagsPlain  = "Only for --type plain"
	flagsRun    = "Messages and speed"
)

var flagGroups = []string{"", flagsKeys, flagsNewKey, flagsVolume, flagsKDF, flagsPlain, flagsRun}

const groupAnnotation = "xtsdisk-group"

// inGroup puts the flags that add registers into a group.
func inGroup(fs *pflag.FlagSet, group string, add func()) {
	before := map[string]bool{}
	fs.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	add()
	fs.VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] {
			_ = fs.SetAnnotation(f.Name, groupAnnotation, []string{group})
		}
	})
}

// groupOf returns a flag's group, "" for the verb's own.
func groupOf(f *pflag.Flag) string {
	if g := f.Annotations[groupAnnotation]; len(g) > 0 {
		return g[0]
	}
	return ""
}

// flagsIn returns the visible flags of a group in their order of definition.
func flagsIn(cmd *cobra.Command, group string) []*pflag.Flag {
	var list []*pflag.Flag
	add := func(f *pflag.Flag) {
		if groupOf(f) == group && !f.Hidden && f.Name != "help" {
			list = append(list, f)
		}
	}
	cmd.InheritedFlags() // makes Flags hold those too
	cmd.Flags().SortFlags = false
	cmd.Flags().VisitAll(add)
	return list
}

// flagLine returns a flag's left column ("-d, --key-file FILE") and what it
// does, with its default.
func flagLine(f *pflag.Flag) (names, usage string) {
	value, usage := pflag.UnquoteUsage(f)
	usage = strings.TrimPrefix(usage, value+": ") // "`FILE`: what it is for"
	names = "    --" + f.Name
	if f.Shorthand != "" {
		names = "-" + f.Shorthand + ", --" + f.Name
	}
	if value != "" {
		names += " " + value
	}
	switch {
	case slices.Contains([]string{"", "false", "0", "-1", "0s"}, f.DefValue):
	default:
		usage += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	return names, usage
}

// mayBeEmpty are the options for which an empty text is a value.
var mayBeEmpty = []string{"label", "subsystem", "flags", "level"}

// checkValues refuses options that are there without a value, as a script's
// variable that is not set makes them: taken for left away they would make
// another volume than the one that was meant.
func checkValues(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && !slices.Contains(mayBeEmpty, f.Name) {
			err = usagef("give it a value, or leave it away", "--%s is empty", f.Name)
		}
	})
	return err
}

// flagError turns pflag's complaint into ours, with the nearest option that
// exists.
func flagError(a *app) func(*cobra.Command, error) error {
	return func(cmd *cobra.Command, err error) error {
		message := err.Error()
		if name, ok := strings.CutPrefix(message, "unknown flag: --"); ok {
			name, _, _ = strings.Cut(name, "=")
			return usagef(unknownFlagHint(a, cmd, name), "there is no option --%s", name)
		}
		if _, rest, ok := strings.Cut(message, "unknown shorthand flag: "); ok {
			letter, _, _ := strings.Cut(rest, " in ")
			return usagef("", "there is no option -%s", strings.Trim(letter, "'"))
		}
		if rest, ok := strings.CutPrefix(message, "flag needs an argument: "); ok {
			if _, long, inShort := strings.Cut(rest, " in "); inShort {
				rest = long
			}
			return usagef("", "option %s needs a value", rest)
		}
		if rest, ok := strings.CutPrefix(message, "invalid argument "); ok {
			// `"x" for "-l, --keyfile-size" flag: reason`
			if _, tail, ok := strings.Cut(rest, ` for "`); ok {
				if names, reason, ok := strings.Cut(tail, `" flag: `); ok {
					return usagef("", "%s: %s", names[strings.LastIndex(names, " ")+1:], numberReason(reason))
				}
			}
		}
		return usagef("", "%s", message)
	}
}

// numberReason rewords what strconv says of a flag's value.
func numberReason(reason string) string {
	if rest, ok := strings.CutPrefix(reason, "strconv."); ok {
		_, rest, _ = strings.Cut(rest, ": parsing ")
		value, why, _ := strings.Cut(rest, ": ")
		if why == "value out of range" {
			return value + " is out of range"
		}
		if strings.HasPrefix(reason, "strconv.ParseBool") {
			return value + " is neither true nor false"
		}
		return value + " is not a whole number"
	}
	return reason
}

func unknownFlagHint(a *app, cmd *cobra.Command, name string) string {
	best, distance := "", len(name)/3+2
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		d := editDistance(name, f.Name)
		if strings.ReplaceAll(name, "-", "") == strings.ReplaceAll(f.Name, "-", "") {
			d = 0
		}
		if d < distance && !f.Hidden {
			best, distance = f.Name, d
		}
	})
	if best != "" {
		return "did you mean --" + best + "?"
	}
	if !cmd.HasParent() {
		return "options come after the verb:  " + a.path(cmd) + " VERB --help  lists them"
	}
	return a.path(cmd) + " --help lists the options"
}

// editDistance is Levenshtein's.
func editDistance(s, t string) int {
	row := make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(s) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(t) {
			cost := diagonal
			if s[i] != t[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(t)]
}
