package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
)

type doctorVerb struct {
	openFlags
	a        *app
	ask      bool
	mistakes bool
	maxRuns  int
}

func newDoctor(a *app) *cobra.Command {
	v := &doctorVerb{a: a}
	cmd := &cobra.Command{
		Use:        "doctor VOL",
		SuggestFor: []string{"check", "diagnose", "fsck"},
		Short:      "find out why a volume does not open",
		Long: `Examines the LUKS volume VOL and tells apart what other programs call a wrong
passphrase: damaged keyslots (whose bytes cannot be encrypted data), a damaged
or old copy of the header, a cipher or feature that this version does not have,
a file that ends too early. Nothing is written.

With a passphrase, from a file or with --ask from the terminal, it is tried on
every keyslot. If one opens, the data is searched for what is known (ext4, xfs,
vfat, GPT and others) as the header says and under other sector sizes and IVs.
If none opens, --try-mistakes tries what may have been meant: another line end,
Unicode's composed and decomposed forms, the same keys on the layouts us, de
and fr, caps lock. How many key derivations that takes is said before.

The exit code is 0 if nothing keeps the volume from opening, else that of the
first such finding.`,
		Example: `  xtsdisk doctor disk.luks
  xtsdisk doctor --ask --try-mistakes disk.luks
  xtsdisk doctor --key-file disk.key --json disk.luks`,
		Args: exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&v.ask, "ask", false, "ask for the passphrase on the terminal")
	cmd.Flags().BoolVar(&v.mistakes, "try-mistakes", false, "if the passphrase is wrong, try what it may have been meant to be")
	cmd.Flags().IntVar(&v.maxRuns, "max-runs", 100, "`N`: run no more key derivations than this")
	registerReport(a, cmd)
	v.openFlags.register(cmd, false)
	return cmd
}

func (v *doctorVerb) run(ctx context.Context, name string) error {
	if name == stdinName {
		return usagef("", "doctor needs a file or block device: it reads at offsets")
	}
	if err := v.check(); err != nil {
		return err
	}
	policy, err := v.policy.policy()
	if err != nil {
		return err
	}
	o := volume.DoctorOptions{Mistakes: v.mistakes, MaxRuns: v.maxRuns, Plan: v.tellPlan}
	o.Open = volume.OpenOptions{Slot: v.slot, Header: v.header, Inside: v.a.inside, Policy: policy}
	k := &opening{}
	defer func() { k.destroy() }()
	if v.ask || len(v.keys.given()) > 0 || len(v.otherKeys()) > 0 {
		if k, err = v.prepare(v.a, name, &o.Open); err != nil {
			return err
		}
	}
	d, err := volume.Examine(ctx, name, o)
	if err != nil {
		return v.explainSource(v.a, name, "", err)
	}
	return v.report(name, d)
}

func (v *doctorVerb) check() error {
	if err := v.openFlags.check(); err != nil {
		return err
	}
	given := append(v.keys.given(), v.otherKeys()...)
	switch {
	case v.ask && len(given) > 0:
		return usagef("give one of them only", "--ask and %s contradict each other", given[0])
	case v.mistakes && !v.ask && len(v.keys.given()) == 0:
		return usagef("--ask asks for one", "--try-mistakes needs a passphrase")
	case v.maxRuns < 1:
		return usagef("", "--max-runs %d: at least 1", v.maxRuns)
	}
	return nil
}

// otherKeys lists the options that open the volume without a passphrase.
func (v *doctorVerb) otherKeys() (names []string) {
	for _, name := range []string{"volume-key-file", "token-id"} {
		if v.keys.fs.Changed(name) {
			names = append(names, "--"+name)
		}
	}
	return names
}

func (v *doctorVerb) tellPlan(runs int, estimate time.Duration) {
	v.a.note("at most %d key derivations follow, about %s on a fast machine", runs, seconds(estimate))
}

// doctorReport is the JSON report of doctor.
type doctorReport struct {
	Schema   int          `json:"schema"`
	Volume   string       `json:"volume"`
	Verdict  string       `json:"verdict"` // the name of the exit code
	Code     int          `json:"code"`
	Findings []findingRow `json:"findings"`
	Copies   []copyRow    `json:"header_copies"`
	Areas    []areaRow    `json:"keyslot_areas"`
	Runs     int          `json:"key_derivations"`
}

type findingRow struct {
	Kind     string `json:"kind"`
	Severity string `json:"severity"` // "good", "note", "warning", "bad"
	Text     string `json:"text"`
	Keyslot  *int   `json:"keyslot,omitempty"`
	Offset   *int64 `json:"offset,omitempty"`
	Size     int64  `json:"size,omitempty"`
}

type copyRow struct {
	Copy   string `json:"copy"`
	Offset int64  `json:"offset"`
	Epoch  uint64 `json:"epoch"`
	Whole  bool   `json:"whole"`
	Error  string `json:"error,omitempty"`
}

type areaRow struct {
	Keyslot int        `json:"keyslot"`
	Offset  int64      `json:"offset"`
	Sectors int        `json:"sectors"`
	Bad     int        `json:"damaged_sectors"`
	Damaged []rangeRow `json:"damaged"`
	Missing int64      `json:"missing"`
	MaxChi2 float64    `json:"max_chi2"`
	Entropy float64    `json:"entropy"` // bits a byte
}

type rangeRow struct {
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
}

func (v *doctorVerb) report(name string, d *volume.Diagnosis) error {
	code := exitOK
	if err := d.Err(); err != nil {
		code = codeOf(err, nil)
	}
	var err error
	if v.a.json {
		err = printJSON(v.a.io.out, newDoctorReport(name, code, d))
	} else {
		_, err = io.WriteString(v.a.io.out, doctorText(name, d))
	}
	if err != nil || code == exitOK {
		return err
	}
	return &reported{code}
}

func newDoctorReport(name string, code exitCode, d *volume.Diagnosis) doctorReport {
	r := doctorReport{schemaVersion, name, code.name(), int(code), []findingRow{}, []copyRow{}, []areaRow{}, d.Runs}
	for _, f := range d.Findings {
		row := findingRow{Kind: string(f.Kind), Severity: string(f.Severity), Text: f.Text, Size: f.Size}
		if f.Keyslot >= 0 {
			row.Keyslot = &f.Keyslot
		}
		if f.Offset >= 0 {
			row.Offset = &f.Offset
		}
		r.Findings = append(r.Findings, row)
	}
	for _, c := range d.Copies {
		row := copyRow{Copy: c.Copy.String(), Offset: c.Offset, Epoch: c.Epoch, Whole: c.Err == nil}
		if c.Err != nil {
			row.Error = c.Err.Error()
		}
		r.Copies = append(r.Copies, row)
	}
	for _, a := range d.Areas {
		row := areaRow{a.Slot, a.Offset, a.Sectors, a.Bad, []rangeRow{}, a.Missing, a.MaxChi2, a.Entropy}
		for _, one := range a.Damaged {
			row.Damaged = append(row.Damaged, rangeRow(one))
		}
		r.Areas = append(r.Areas, row)
	}
	return r
}

// doctorText is the report for people: a line for each finding, the bad ones
// first.
func doctorText(name string, d *volume.Diagnosis) string {
	var b strings.Builder
	if h := d.Header; h != nil {
		fmt.Fprintf(&b, "%s: LUKS%d, UUID %s", visible(name), h.Version, visible(h.UUID))
		if h.Version > 1 {
			fmt.Fprintf(&b, ", %s header of epoch %d", h.Copy, h.SeqID)
		}
		b.WriteString("\n")
	} else {
		fmt.Fprintf(&b, "%s:\n", visible(name))
	}
	for _, s := range []volume.Severity{volume.Bad, volume.Warning, volume.Note, volume.Good} {
		for _, f := range d.Findings {
			if f.Severity == s {
				fmt.Fprintf(&b, "  %-8s %s\n", s+":", visible(f.Text))
			}
		}
	}
	for _, a := range d.Areas {
		if a.Bad == 0 && a.Missing == 0 {
			fmt.Fprintf(&b, "  %-8s the area of keyslot %d is evenly spread: %d bytes at byte %d, %.4f bits a byte, χ² of a sector up to %.0f\n",
				volume.Good+":", a.Slot, a.Measured, a.Offset, a.Entropy, a.MaxChi2)
		}
	}
	return b.String()
}
