package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "disk.img": "disk.img", "Größe 6×9 → 日本": "Größe 6×9 → 日本",
		"a\nb\r\t":            `a\nb\r\t`,
		"\x1b[31mred\x07\x7f": `\x1b[31mred\a\x7f`,
		"\u009b31m":           `\u009b31m`, // the one-byte form of ESC [
		"a\u202etxt.exe":      `a\u202etxt.exe`,
		"bad\xff\xfe":         `bad\xff\xfe`,
		"\ufffd":              "\ufffd",
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	for _, x := range []struct {
		err  error
		want string
	}{
		{a, "a"},
		{errors.Join(a, b), "a; b"},
		{errors.Join(errors.Join(a, b), c), "a; b; c"},
		{withHint(errors.Join(a, b), "hint"), "a; b"},
		{fmt.Errorf("%w, then %w", a, b), "a, then b"},
	} {
		if got := oneLine(x.err); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

// What shellQuote makes of any name, a shell reads back.
func TestShellQuoteReadBack(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	for _, name := range []string{
		"plain", "two words", "it's", "a$b`c", "line\nbreak", "\x1b[31m'x'\\n", "bad\xff\xfe0", "\u202etxt", "tab\t", "\x010", "ü\x07ü",
	} {
		out, err := exec.Command(bash, "-c", "printf %s "+shellQuote(name)).Output()
		if err != nil || string(out) != name {
			t.Errorf("%s gives %q, %v, want %q", shellQuote(name), out, err, name)
		}
		if q := shellQuote(name); visible(q) != q {
			t.Errorf("%q can do something to a terminal", q)
		}
	}
	if got := shellQuote("plain words"); !strings.HasPrefix(got, "'") {
		t.Errorf("%s: not in the way of POSIX", got)
	}
}
