package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible writes text so that it can do nothing to a terminal but be read:
// names of files, which may hold anything, and text out of headers come this
// way. What cannot be printed becomes an escape as in Go.
func visible(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[n:]
	}
	return b.String()
}

// visibleLines is visible for text that has lines of its own.
func visibleLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = visible(lines[i])
	}
	return lines
}

// oneLine is an error's text without the line breaks of errors.Join.
func oneLine(err error) string {
	if f, ok := err.(*failure); ok {
		return oneLine(f.err)
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err.Error()
	}
	var plain, flat []string
	for _, e := range joined.Unwrap() {
		plain, flat = append(plain, e.Error()), append(flat, oneLine(e))
	}
	if err.Error() != strings.Join(plain, "\n") {
		return err.Error() // it has words of its own around them
	}
	return strings.Join(flat, "; ")
}

// joinWords lists words for reading: "a, b and c".
func joinWords(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// shellQuote writes an argument so that a shell reads it back: in the way of
// POSIX, or, for what cannot be printed, in that of bash, ksh and zsh.
func shellQuote(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r)
	}
	switch {
	case s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0:
		return s
	case visible(s) == s:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + s[:n])
		case visible(s[:n]) == s[:n]:
			b.WriteString(s[:n])
		default:
			for _, c := range []byte(s[:n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		s = s[n:]
	}
	return b.String() + "'"
}
