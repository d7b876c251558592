package luks

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
)

// Text from a header cannot act on a terminal.
func TestSummaryEscapes(t *testing.T) {
	o := smallOptions()
	o.Label = "a\x1b[2Jb\r\nc\u202ed\xffé"
	image, _ := formatted(t, o)
	editJSON(t, image, replace(t, `"tokens":{}`, `"tokens":{"1":{"type":"\u001b]0;x\u0007","keyslots":["0"]}}`))
	h, err := ReadHeader(bytes.NewReader(image), -1)
	if err != nil {
		t.Fatal(err)
	}
	s := h.Summary()
	if i := strings.IndexFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("byte 0x%02x at %d of %q", s[i], i, s)
	}
	for _, want := range []string{`a\x1b[2Jb\x0d\x0ac\x202ed\xfffdé`, `1: \x1b]0;x\x07`} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in %s", want, s)
		}
	}
}
