package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/xtsdisk/xtsdisk/luks"
)

// headerText is what a volume says about itself, indented.
func headerText(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer closeQuietly(f)
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	h, err := luks.ReadHeader(f, info.Size())
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for line := range strings.Lines(h.Summary()) {
		fmt.Fprintln(&text, strings.TrimRight("  "+line, " \n"))
	}
	return text.String(), nil
}

// results prints the throughput, and three commands that run as they stand.
func (d *demo) results(w io.Writer) error {
	var b strings.Builder
	best := ""
	if d.rounds > 1 {
		best = fmt.Sprintf(", best of %d", d.rounds)
	}
	fmt.Fprintf(&b, "\n%-26s %7s %14s %13s\n", "Throughput"+best, "time", "rate", "of the copy")
	for _, row := range []struct {
		what string
		time time.Duration
	}{{"plain copy", d.copy}, {"encrypt", d.enc}, {"decrypt", d.dec}} {
		rate := d.rate(row.time)
		fmt.Fprintf(&b, "  %-24s %7s %12s/s %13.2f\n", row.what, seconds(row.time), formatSize(int64(rate)), rate/d.rate(d.copy))
	}
	name, why := level()
	text := fmt.Sprintf("Not in these figures: the passphrase took %s to set and %s to try, which slows guessing down. AES runs at the level %s. %s",
		seconds(d.made), seconds(d.opened), name, why)
	fmt.Fprintln(&b, strings.Join(wrap(text, 79), "\n"))
	fmt.Fprintf(&b, "\nTry next:\n")
	for _, command := range nextCommands(d.a.self) {
		fmt.Fprintf(&b, "  %s\n", command)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rate is bytes a second.
func (d *demo) rate(t time.Duration) float64 {
	return float64(d.plan.size) / max(t.Seconds(), 1e-9)
}

// nextCommands make an image, encrypt it and decrypt it again, under names that
// are free, in the working folder or, where that is the program's source or
// cannot be written, in the one for temporary files.
func nextCommands(self string) []string {
	dir := ""
	if strings.HasPrefix(self, "go ") || !writable(".") {
		dir = os.TempDir()
	}
	base := "demo"
	for n := 2; exists(filepath.Join(dir, base+".img")) || exists(filepath.Join(dir, base+".luks")) || exists(filepath.Join(dir, base+"-back.img")); n++ {
		base = fmt.Sprintf("demo%d", n)
	}
	name := func(suffix string) string { return shellQuote(filepath.Join(dir, base+suffix)) }
	return []string{
		fmt.Sprintf("%s demo --image %s --image-size 64M", self, name(".img")),
		fmt.Sprintf("%s encrypt %s %s", self, name(".img"), name(".luks")),
		fmt.Sprintf("%s decrypt %s %s", self, name(".luks"), name("-back.img")),
	}
}

func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".xtsdisk-")
	if err != nil {
		return false
	}
	closeQuietly(f)
	return os.Remove(f.Name()) == nil
}

// demoJSON is the JSON report of demo.
type demoJSON struct {
	Schema  int        `json:"schema"`
	Bytes   int64      `json:"bytes"`
	Shrunk  string     `json:"shrunk,omitempty"` // why it is smaller than asked
	Level   string     `json:"level"`
	Sector  int        `json:"sector_size"`
	Rounds  int        `json:"rounds"`      // of which the best times count
	KDF     [2]float64 `json:"kdf_seconds"` // encrypting, decrypting
	Copy    demoRate   `json:"copy"`
	Encrypt demoRate   `json:"encrypt"`
	Decrypt demoRate   `json:"decrypt"`
	Equal   bool       `json:"equal"`
}

type demoRate struct {
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"bytes_per_second"`
}

func (d *demo) report() demoJSON {
	rate := func(t time.Duration) demoRate { return demoRate{t.Seconds(), d.rate(t)} }
	name, _ := level()
	return demoJSON{
		Schema: schemaVersion, Bytes: d.plan.size, Shrunk: d.plan.why, Level: name, Sector: d.sector, Rounds: d.rounds,
		KDF:  [2]float64{d.made.Seconds(), d.opened.Seconds()},
		Copy: rate(d.copy), Encrypt: rate(d.enc), Decrypt: rate(d.dec),
		Equal: true, // a difference is an error
	}
}
