package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/xts"
)

// versionReport is the JSON report of version.
type versionReport struct {
	Schema  int      `json:"schema"`
	Version string   `json:"version"`
	Commit  string   `json:"commit,omitempty"`
	Go      string   `json:"go"`
	OS      string   `json:"os"`
	Arch    string   `json:"arch"`
	Levels  []string `json:"levels"` // that run here, slowest first
	Level   string   `json:"level"`  // the one in use
	Why     string   `json:"why"`
}

func newVersion(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "tell version, and which AES implementation runs here",
		Long: `Tells the version of the program, the implementations of AES-XTS (levels) that
this processor can run, which of them is used, and why.`,
		Example: `  xtsdisk version --json
  xtsdisk version --level generic`,
		Args: exactArgs(a),
		RunE: func(*cobra.Command, []string) error { return a.version() },
	}
	registerReport(a, cmd)
	return cmd
}

func (a *app) version() error {
	level, why, err := xts.DefaultLevel()
	if err != nil {
		return err
	}
	version, commit := buildVersion()
	report := versionReport{
		Schema: schemaVersion, Version: version, Commit: commit,
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Levels: xts.Levels(), Level: level, Why: why,
	}
	if a.json {
		return printJSON(a.io.out, report)
	}
	_, err = fmt.Fprintf(a.io.out, "xtsdisk %s (%s, %s/%s)\nAES-XTS   %s: %s\nlevels    %s\n",
		version, report.Go, report.OS, report.Arch, level, why, strings.Join(report.Levels, ", "))
	return err
}

// buildVersion is what the Go command recorded of the program: the module's
// version, or "devel" for a build from a working tree, and the commit.
func buildVersion() (version, commit string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel", ""
	}
	version = info.Main.Version
	if version == "" || version == "(devel)" {
		version = "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return version, commit
}
