package main

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// cryptsetup(8): a bare --offset counts 512-byte sectors; units are powers of
// 1024, with a trailing B powers of 1000.
func TestParseSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		bare int64
		want int64
	}{
		{"0", 512, 0}, {"8", 512, 4096}, {"8", 1, 8}, {"8S", 1, 4096}, {"8s", 1, 4096},
		{"8B", 512, 8}, {"1K", 512, 1024}, {"1k", 512, 1024}, {"1KiB", 512, 1024}, {"1KB", 512, 1000},
		{"3M", 1, 3145728}, {"3MB", 1, 3000000}, {"3mib", 1, 3145728}, {"2G", 1, 2147483648}, {"1T", 1, 1099511627776},
		{"9223372036854775807", 1, math.MaxInt64}, {"8388607T", 1, 8388607 << 40},
	} {
		if got, err := parseSize(c.text, c.bare); err != nil || got != c.want {
			t.Errorf("parseSize(%q, %d) = %d, %v, want %d", c.text, c.bare, got, err, c.want)
		}
	}
	for _, text := range []string{"", "K", "-1", "-1M", "1.5G", "1 G", "0x10", "1E", "1M1", "9223372036854775808", "8388608T", "99999999999999999999", "+1", "1_000", "B", "٣"} {
		if got, err := parseSize(text, 512); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", text, got)
		}
	}
	if _, err := parseSize("36028797018963968", 512); err == nil {
		t.Error("2^55 sectors do not fit into 63 bits of bytes")
	}
}

func TestParseSizeNeverWraps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9]{1,21}(B|K|KB|M|MiB|G|GB|T|TB|S)?`).Draw(t, "text")
		if n, err := parseSize(text, 512); err == nil && n < 0 {
			t.Errorf("parseSize(%q) = %d", text, n)
		}
	})
}

func TestByteRange(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]byteRange{
		"0:512": {0, 512, true}, "1M:": {1 << 20, -1, true}, ":4K": {0, 4096, true}, ":": {0, -1, true},
		"10:0": {10, 0, true}, "4096:1B": {4096, 1, true},
	} {
		var r byteRange
		if err := r.Set(text); err != nil || r != want {
			t.Errorf("%q: %+v, %v, want %+v", text, r, err, want)
		}
	}
	for _, text := range []string{"", "512", "1-2", "-1:2", "1:-2", "a:b", "1:2:3", "9223372036854775807:1", "0:1.5K"} {
		var r byteRange
		if err := r.Set(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, r)
		}
	}
}

func TestFormatSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 268435456: "256 MiB", 1<<40 - 1: "1 TiB",
		math.MaxInt64: "8 EiB", 1<<20 - 1: "1 MiB",
	} {
		if got := formatSize(n); got != want {
			t.Errorf("formatSize(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{1: "1 bytes", 1000: "1000 bytes", 4096: "4 KiB", 4097: "4 KiB (4097 bytes)"} {
		if got := formatExact(n); got != want {
			t.Errorf("formatExact(%d) = %q, want %q", n, got, want)
		}
	}
}
