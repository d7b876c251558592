package main

import (
	"slices"
	"testing"

	"github.com/xtsdisk/xtsdisk/xts"
)

// Levels that lack the same share a line; those that run have none.
func TestVersionText(t *testing.T) {
	r := versionReport{Version: "v1", Go: "go1", OS: "linux", Arch: "amd64", Levels: []string{"generic"}, Level: "generic", Why: "Because.", AllLevels: []levelReport{
		{"generic", true, nil}, {"one", false, []string{"AES-NI"}}, {"two", false, []string{"AES-NI"}}, {"three", false, []string{"AES-NI", "AVX"}},
	}}
	const want = `xtsdisk v1 (go1, linux/amd64)
AES-XTS   generic: Because.
levels    generic
missing   AES-NI: for one, two
missing   AES-NI, AVX: for three
`
	if r.String() != want {
		t.Errorf("%s\nwant\n%s", r, want)
	}
	for _, l := range levelReports() {
		if l.Runs != (len(l.Missing) == 0) || l.Missing == nil || l.Runs != slices.Contains(xts.Levels(), l.Name) {
			t.Errorf("%+v", l)
		}
	}
}
