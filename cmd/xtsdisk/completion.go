package main

import (
	"github.com/spf13/cobra"
)

// shells are those that cobra writes completions for.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "write completions for a shell to stdout",
		Long:  "Writes a script for SHELL (bash, zsh, fish or powershell) that completes verbs,\noptions and their values. bash needs its package bash-completion for that.",
		Example: `  source <(xtsdisk completion bash)
  xtsdisk completion fish > ~/.config/fish/completions/xtsdisk.fish`,
		ValidArgs: shells,
		Args:      exactArgs(a, "SHELL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, w := cmd.Root(), a.io.out
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			case "fish":
				return root.GenFishCompletion(w, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(w)
			}
			return usagef("the shells are "+joinWords(shells, "and"), "no completions for %q", args[0])
		},
	}
}

// completeFiles lets the shell offer file names for a verb's arguments: cobra
// would offer none for verbs that have no ValidArgs of their own.
func completeFiles(cmd *cobra.Command) {
	if cmd.ValidArgs == nil && cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() {
		cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		}
	}
}
