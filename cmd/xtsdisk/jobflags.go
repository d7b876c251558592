package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
)

// jobFlags are the options of verbs that copy data.
type jobFlags struct {
	force, direct bool
	progress      string
}

func (j *jobFlags) register(a *app, cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVarP(&j.force, "force", "f", false, "replace an existing target file, overwrite a block device")
	fs.BoolVar(&j.direct, "direct", false, "bypass the page cache (O_DIRECT) where the filesystem can")
	registerReport(a, cmd)
	inGroup(fs, flagsRun, func() {
		fs.StringVar(&j.progress, "progress", progressAuto, progressUsage)
	})
	_ = cmd.RegisterFlagCompletionFunc("progress", cobra.FixedCompletions([]string{progressAuto, progressJSON, progressNone}, cobra.ShellCompDirectiveNoFileComp))
}

const progressUsage = "`HOW`: auto (a bar on a terminal), json (a line a second on stderr) or none"

// registerReport adds --json.
func registerReport(a *app, cmd *cobra.Command) {
	inGroup(cmd.Flags(), flagsRun, func() {
		cmd.Flags().BoolVar(&a.json, "json", false, "report as JSON on stdout, failures too")
	})
}

// jobReport is the JSON report of encrypt, decrypt and format.
type jobReport struct {
	Schema     int      `json:"schema"`
	Source     string   `json:"source,omitempty"`
	Target     string   `json:"target"`
	UUID       string   `json:"uuid,omitempty"`
	Bytes      int64    `json:"bytes"`         // of plaintext
	Holes      int64    `json:"hole_bytes"`    // of those, not read: holes of the source
	Zeros      int64    `json:"zero_bytes"`    // of those, left as holes of the target
	Padding    int64    `json:"padding_bytes"` // of those, added at the end
	SectorSize int      `json:"sector_size"`
	SectorWhy  string   `json:"sector_size_reason,omitempty"` // if it was chosen
	DataOffset int64    `json:"data_offset"`
	KDF        float64  `json:"kdf_seconds"`
	Data       float64  `json:"data_seconds"`
	Sync       float64  `json:"sync_seconds"`
	Warnings   []string `json:"warnings"`
}

func newJobReport(source, target string, r volume.Report) jobReport {
	return jobReport{
		Schema: schemaVersion, Source: source, Target: target,
		Bytes: r.Bytes, Holes: r.HoleBytes, Zeros: r.ZeroBytes, Padding: r.Padding,
		SectorSize: r.SectorSize, SectorWhy: r.SectorReason, DataOffset: r.DataOffset,
		KDF: r.KDFTime.Seconds(), Data: r.DataTime.Seconds(), Sync: r.SyncTime.Seconds(),
		Warnings: append([]string{}, r.Warnings...),
	}
}

// timing is the part of a summary that tells rates and times.
func timing(r volume.Report) string {
	text := fmt.Sprintf("%s in %s", formatSize(r.Bytes), seconds(r.DataTime))
	if r.DataTime > 0 && r.Bytes >= 1<<20 {
		text += fmt.Sprintf(" (%s/s)", formatSize(int64(float64(r.Bytes)/r.DataTime.Seconds())))
	}
	if r.SyncTime >= 10*time.Millisecond {
		text += ", " + seconds(r.SyncTime) + " more until durable"
	}
	if r.KDFTime > 0 {
		text += ", key derivation " + seconds(r.KDFTime)
	}
	return text
}

func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// sentence joins the parts of a summary that are there.
func sentence(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "; ")
}
