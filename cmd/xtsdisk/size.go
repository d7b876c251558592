package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// cryptsetup's units: --offset, --skip and --size count 512-byte sectors when
// they are bare numbers; a suffix means bytes. Options that are new here count
// bytes.
const unitSector = 512

// suffixes of sizes, in bytes; longer spellings first where one ends another.
// KB, MB, ... are powers of 1000, as in cryptsetup.
var suffixes = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40},
	{"S", unitSector}, {"B", 1},
}

// parseSize reads a size; bare is how many bytes a number without a suffix
// counts.
func parseSize(s string, bare int64) (int64, error) {
	digits, unit := s, bare
	for _, x := range suffixes {
		if n := len(s) - len(x.name); n >= 0 && strings.EqualFold(s[n:], x.name) {
			digits, unit = s[:n], x.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	switch {
	case err == nil && n > math.MaxInt64/uint64(unit):
		return 0, fmt.Errorf("%q is more than 8 EiB", s)
	case err == nil:
		return int64(n) * unit, nil
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("%q is negative", s)
	}
	return 0, fmt.Errorf("%q is not a size: write a whole number, with B, K, M, G or T for bytes, KiB, MiB, GiB or TiB", s)
}

// size is a flag's value in bytes.
type size struct {
	bytes int64
	bare  int64 // bytes that a number without a suffix counts
	set   bool
}

func (v *size) String() string {
	if v == nil || !v.set {
		return ""
	}
	return strconv.FormatInt(v.bytes, 10) + "B"
}

func (v *size) Set(s string) (err error) {
	v.bytes, err = parseSize(s, v.bare)
	v.set = err == nil
	return err
}

// Type is what the usage text calls the value.
func (v *size) Type() string {
	if v.bare == unitSector {
		return "SECTORS"
	}
	return "SIZE"
}

func sectorsFlag() size { return size{bare: unitSector} }
func bytesFlag() size   { return size{bare: 1} }

// byteRange is the value of --range: START:LENGTH in bytes. Either may be left
// out: the start is then 0, the length all that follows (-1).
type byteRange struct {
	start, length int64
	set           bool
}

func (v *byteRange) String() string {
	switch {
	case v == nil || !v.set:
		return ""
	case v.length < 0:
		return fmt.Sprintf("%d:", v.start)
	}
	return fmt.Sprintf("%d:%d", v.start, v.length)
}

// Type is what the usage text calls the value.
func (v *byteRange) Type() string { return "START:LENGTH" }

func (v *byteRange) Set(s string) (err error) {
	from, count, colon := strings.Cut(s, ":")
	if !colon {
		return fmt.Errorf("%q has no colon: write START:LENGTH, such as 1M:512", s)
	}
	r := byteRange{length: -1, set: true}
	if from != "" {
		if r.start, err = parseSize(from, 1); err != nil {
			return err
		}
	}
	if count != "" {
		if r.length, err = parseSize(count, 1); err != nil {
			return err
		}
		if r.length > math.MaxInt64-r.start {
			return fmt.Errorf("%q ends beyond 8 EiB", s)
		}
	}
	*v = r
	return nil
}

// formatSize shows bytes for reading: "1000 B", "16.0 MiB".
func formatSize(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), 0
	for _, name := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		f, unit = f/1024, unit+1
		if f < 1023.95 || name == "EiB" {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + " " + name
		}
	}
	panic("unreachable")
}

// formatExact is formatSize with the exact number where that was rounded.
func formatExact(n int64) string {
	short := formatSize(n)
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	if back, err := parseSize(strings.ReplaceAll(short, " ", ""), 1); err == nil && back == n {
		return short
	}
	return fmt.Sprintf("%s (%d bytes)", short, n)
}
