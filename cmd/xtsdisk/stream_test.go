package main

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIsText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": true, "plain\n": true, "tab\there\r\n": true, "schön €\n": true, "cut \xe2\x82": true,
		"\x00": false, "bell\a": false, "escape\x1b[2J": false, "delete\x7f": false,
		"latin1 \xe9t\xe9\n": false, "lone \x82\n": false, "C1 \u009b2J": false, "\xff\xfe": false,
	} {
		if got := isText([]byte(text)); got != want {
			t.Errorf("isText(%q) = %v", text, got)
		}
	}
}

// Text passes in whatever pieces it comes; the byte that makes it binary stops
// it.
func TestTextOnlyInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("aé€𝄞\n")), 0, 40, -1).Draw(t, "text")
		binary := rapid.Bool().Draw(t, "binary")
		data := text
		if binary {
			data += "\x00" + text
		}
		var out bytes.Buffer
		w := &textOnly{w: &out}
		var err error
		for rest := []byte(data); len(rest) > 0 && err == nil; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			_, err = w.Write(rest[:n])
			rest = rest[n:]
		}
		switch {
		case !binary && (err != nil || out.String() != text):
			t.Errorf("%q came out as %q, %v", text, &out, err)
		case binary && (codeOf(err, nil) != exitRefused || !strings.HasPrefix(text, out.String())):
			t.Errorf("%q came out as %q, %v", data, &out, err)
		}
	})
}
