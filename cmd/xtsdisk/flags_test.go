package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEditDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"key-file", "keyfile", 1}, {"same", "same", 0}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"disk.img": "disk.img", "/a/b-c_1": "/a/b-c_1", "": "''", "two words": "'two words'", "it's": `'it'\''s'`, "$x": "'$x'", "a;b": "'a;b'", "~": "'~'",
	} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestUnderGoRun(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("GOCACHE", cache)
	for exe, want := range map[string]bool{
		filepath.Join(os.TempDir(), "go-build123", "b001", "exe", "xtsdisk"): true,
		filepath.Join(cache, "ab", "abcd-d", "xtsdisk"):                      true,
		filepath.Join(cache+"2", "xtsdisk"):                                  false,
		"/usr/bin/xtsdisk":                                                   false,
	} {
		if got := underGoRun(exe); got != want {
			t.Errorf("underGoRun(%q) = %v", exe, got)
		}
	}
}
