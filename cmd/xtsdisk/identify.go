package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

func newIdentify(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "identify PATH...",
		SuggestFor: []string{"isLuks", "blkid", "probe", "detect"},
		Short:      "tell what files and devices are",
		Long: `Tells of each PATH whether it is a volume that opens here, one of a known format
that this version cannot open, and why, or no volume. Of a disk image with a
partition table the partitions are listed; --partition looks into one of them.
Nothing is asked for and nothing is written.

The exit code is 0 if every PATH opens here. Else it is that of the first PATH
that does not: 10 if it is not a volume, 5 if something in it is not supported,
6 if it hides little or costs too much to open, 4 if its header is damaged, 7 if
it cannot be read. A plain volume has no header: it is not recognised.`,
		Example: `  xtsdisk identify disk.luks
  xtsdisk identify --json *.img
  xtsdisk identify --partition 2 disk.img`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("usage: "+a.path(cmd)+" PATH...", "PATH is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return identify(cmd.Context(), a, args) },
	}
	registerReport(a, cmd)
	registerInside(cmd)
	return cmd
}

// identifyReport is the JSON report of identify.
type identifyReport struct {
	Schema  int           `json:"schema"`
	Results []identityRow `json:"results"`
}

type identityRow struct {
	Path       string         `json:"path"`
	Verdict    string         `json:"verdict"` // "opens", "not-a-volume", "unsupported", "refused", "damaged", or the name of another exit code
	Code       int            `json:"code"`    // the exit code for this path alone
	Reason     string         `json:"reason,omitempty"`
	Format     string         `json:"format,omitempty"`
	UUID       string         `json:"uuid,omitempty"`
	Label      string         `json:"label,omitempty"`
	Detached   bool           `json:"detached"` // a header whose data is elsewhere
	Copy       string         `json:"header_copy,omitempty"`
	Found      []string       `json:"found"` // signatures of what is no volume
	Table      string         `json:"table,omitempty"`
	Partitions []partitionRow `json:"partitions"`
	Warnings   []string       `json:"warnings"`
}

type partitionRow struct {
	Number int    `json:"number"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
	Type   string `json:"type"`
	Name   string `json:"name,omitempty"`
	Holds  string `json:"holds,omitempty"`
}

func identify(ctx context.Context, a *app, names []string) error {
	report := identifyReport{Schema: schemaVersion}
	code := exitOK
	for _, name := range names {
		row := identifyOne(ctx, a, name)
		if err := cancelled(ctx); err != nil {
			return err
		}
		if code == exitOK {
			code = exitCode(row.Code)
		}
		report.Results = append(report.Results, row)
		if !a.json {
			if _, err := io.WriteString(a.io.out, row.text()); err != nil {
				return err
			}
		}
	}
	if a.json {
		if err := printJSON(a.io.out, report); err != nil {
			return err
		}
	}
	if code != exitOK {
		return &reported{code}
	}
	return nil
}

func identifyOne(ctx context.Context, a *app, name string) identityRow {
	row := identityRow{Path: name, Verdict: "opens", Found: []string{}, Partitions: []partitionRow{}, Warnings: []string{}}
	if name == stdinName {
		return row.failed(usagef("", "a file or device is needed, not a stream"))
	}
	id, err := volume.Identify(ctx, name, volume.OpenOptions{Inside: a.inside})
	if err != nil {
		return row.failed(err)
	}
	row.Format, row.Table = id.Format, id.Table
	row.Found, row.Warnings = append(row.Found, id.Found...), append(row.Warnings, id.Warnings...)
	for _, p := range id.Partitions {
		row.Partitions = append(row.Partitions, partitionRow{p.Number, p.Off, p.Size, p.Type, p.Name, p.Holds})
	}
	if h := id.Header; h != nil {
		row.UUID, row.Label, row.Detached = h.UUID, h.Label, h.Detached()
		row.Copy = h.Describe().HeaderCopy
	}
	if id.Reason != nil {
		return row.failed(id.Reason)
	}
	return row
}

// failed sets the verdict by an error.
func (r identityRow) failed(err error) identityRow {
	code := codeOf(err, nil)
	r.Verdict, r.Code, r.Reason = code.name(), int(code), oneLine(err)
	if errors.Is(err, luks.ErrNotLUKS) {
		r.Reason = "" // the format and what was found say it
	}
	return r
}

// text is the row for people: one line, and one for each partition.
func (r *identityRow) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", visible(r.Path), visible(r.summary()))
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", visible(w))
	}
	for _, p := range r.Partitions {
		fmt.Fprintf(&b, "  partition %d: %s at byte %d: %s", p.Number, formatSize(p.Size), p.Offset, orNone(p.Holds, "nothing that is known"))
		if p.Name != "" {
			fmt.Fprintf(&b, " (%s)", visible(p.Name))
		}
		if strings.HasPrefix(p.Holds, "luks") {
			fmt.Fprintf(&b, "; --partition %d opens it", p.Number)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (r *identityRow) summary() string {
	kind := strings.ToUpper(strings.TrimPrefix(r.Format, "dm-"))
	if r.Format == "dm-integrity" {
		kind = r.Format
	}
	if r.UUID != "" {
		kind += ", UUID " + r.UUID
	}
	if r.Label != "" {
		kind += fmt.Sprintf(", label %q", r.Label)
	}
	if r.Detached {
		kind += ", a detached header"
	}
	switch {
	case r.Code == int(exitOK):
		return kind + "; opens here"
	case r.Code == int(exitNotVolume):
		return "not a volume: " + orNone(strings.Join(r.Found, ", "), "nothing that is known")
	case r.Format != "":
		return kind + "; does not open here: " + strings.TrimPrefix(r.Reason, r.Path+": ")
	}
	return strings.TrimPrefix(r.Reason, r.Path+": ")
}

func orNone(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
