package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
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

	AllLevels []levelReport `json:"all_levels"` // slowest first
}

type levelReport struct {
	Name    string   `json:"name"`
	Runs    bool     `json:"runs"`
	Missing []string `json:"missing"` // what it needs and lacks here
}

func newVersion(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "tell version, and which AES implementation runs here",
		Long: `Tells the version of the program, the implementations of AES-XTS (levels) that
this processor can run, which of them is used, and why; and what the others
lack here.`,
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
		Levels: xts.Levels(), Level: level, Why: why, AllLevels: levelReports(),
	}
	if a.json {
		return printJSON(a.io.out, report)
	}
	_, err = io.WriteString(a.io.out, report.String())
	return err
}

func levelReports() (reports []levelReport) {
	for _, l := range xts.AllLevels() {
		// An empty list, not null, for those that run.
		missing := append([]string{}, l.Missing...)
		reports = append(reports, levelReport{l.Name, len(missing) == 0, missing})
	}
	return reports
}

// String is the report for people.
func (r versionReport) String() string {
	text := fmt.Sprintf("xtsdisk %s (%s, %s/%s)\nAES-XTS   %s: %s\nlevels    %s\n",
		r.Version, r.Go, r.OS, r.Arch, r.Level, r.Why, strings.Join(r.Levels, ", "))
	for i := 0; i < len(r.AllLevels); {
		l := r.AllLevels[i]
		names := []string{l.Name} // and others that lack the same
		for i++; i < len(r.AllLevels) && slices.Equal(r.AllLevels[i].Missing, l.Missing); i++ {
			names = append(names, r.AllLevels[i].Name)
		}
		if !l.Runs {
			text += fmt.Sprintf("missing   %s: for %s\n", strings.Join(l.Missing, ", "), strings.Join(names, ", "))
		}
	}
	return text
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
