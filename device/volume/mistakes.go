package volume

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// variant is what a passphrase may have been meant to be.
type variant struct {
	name string // what differs, as the end of a sentence that begins with "the passphrase"
	text *secret.Buffer
}

func wipeVariants(list []variant) {
	for _, v := range list {
		v.text.Destroy()
	}
}

// maxMistake bounds the passphrases whose mistakes are looked for, in bytes: a
// longer one is a key file, and nobody typed it.
const maxMistake = 512

// variants returns what p may have been meant to be, most likely first, each
// once and never p itself. The caller wipes them.
func variants(p []byte) []variant {
	var list []variant
	add := func(name string, make func([]byte) []byte) {
		// What is made has its place beforehand, and no copy is left on the heap:
		// no rune becomes longer than 3 times UTF-8's longest in NFD (UAX 15).
		room := secret.New(18*len(p) + 8)
		defer room.Destroy()
		made := make(room.Bytes()[:0])
		if made == nil || bytes.Equal(made, p) || slices.ContainsFunc(list, func(v variant) bool { return bytes.Equal(v.text.Bytes(), made) }) {
			return
		}
		v := variant{name, secret.New(len(made))}
		copy(v.text.Bytes(), made)
		list = append(list, v)
	}
	addLineEnds(p, add)
	if utf8.Valid(p) && len(p) <= maxMistake {
		add("in Unicode's composed form (NFC)", func(b []byte) []byte { return norm.NFC.Append(b, p...) })
		add("in Unicode's decomposed form (NFD)", func(b []byte) []byte { return norm.NFD.Append(b, p...) })
		for _, to := range layouts {
			for _, from := range layouts {
				if from != to {
					add("as the same keys give it on the layout "+to.name+" instead of "+from.name,
						func(b []byte) []byte { return retype(b, p, from, to) })
				}
			}
		}
		add("with upper and lower case exchanged (caps lock)", func(b []byte) []byte { return swapCase(b, p) })
	}
	return list
}

func addLineEnds(p []byte, add func(string, func([]byte) []byte)) {
	for _, end := range []struct{ name, text string }{{"a newline", "\n"}, {"a carriage return and a newline", "\r\n"}} {
		if bytes.HasSuffix(p, []byte(end.text)) {
			add("without "+end.name+" at its end", func(b []byte) []byte { return append(b, p[:len(p)-len(end.text)]...) })
		}
		add("with "+end.name+" at its end", func(b []byte) []byte { return append(b, p...)[:len(p)+copy(b[len(p):cap(b)], end.text)] })
	}
	if len(p) > maxMistake {
		return
	}
	add("with line ends of Unix", func(b []byte) []byte {
		for i, c := range p {
			if c != '\r' || i+1 < len(p) && p[i+1] != '\n' {
				b = append(b, c)
			}
		}
		return b
	})
	add("with line ends of Windows", func(b []byte) []byte {
		for i, c := range p {
			if c == '\n' && (i == 0 || p[i-1] != '\r') {
				b = append(b, '\r')
			}
			b = append(b, c)
		}
		return b
	})
}

func swapCase(b, p []byte) []byte {
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		p = p[n:]
		if up := unicode.ToUpper(r); up != r {
			r = up
		} else {
			r = unicode.ToLower(r)
		}
		b = utf8.AppendRune(b, r)
	}
	return b
}

// layout is what the keys of a keyboard give: the same place in each text is
// the same key. Rows from top to bottom, then the key beside the left shift
// key; a space where there is nothing.
type layout struct {
	name         string
	plain, shift []rune
	third        []rune // with AltGr; a space gives what the key gives without
	index        map[rune]int
}

// The layouts as X11's xkeyboard-config has them (symbols us, de and fr).
var layouts = []*layout{
	newLayout("us",
		"`1234567890-= qwertyuiop[] asdfghjkl;'\\ zxcvbnm,./ <",
		"~!@#$%^&*()_+ QWERTYUIOP{} ASDFGHJKL:\"| ZXCVBNM<>? >",
		"                                                    "),
	newLayout("de",
		"^1234567890ß´ qwertzuiopü+ asdfghjklöä# yxcvbnm,.- <",
		"°!\"§$%&/()=?` QWERTZUIOPÜ* ASDFGHJKLÖÄ' YXCVBNM;:_ >",
		"       {[]}\\  @ €        ~                    µ    |"),
	newLayout("fr",
		"²&é\"'(-è_çà)= azertyuiop^$ qsdfghjklmù* wxcvbn,;:! <",
		"~1234567890°+ AZERTYUIOP¨£ QSDFGHJKLM%µ WXCVBN?./§ >",
		"  ~#{[|`\\^@]}   €                                   "),
}

func newLayout(name, plain, shift, third string) *layout {
	l := &layout{name: name, plain: []rune(plain), shift: []rune(shift), third: []rune(third), index: map[rune]int{}}
	last := len(l.plain) - 1 // the key beside the shift key, which not all keyboards have
	add := func(from, to int) {
		for level, keys := range [][]rune{l.plain, l.shift, l.third} {
			for i := from; i < to; i++ {
				if _, ok := l.index[keys[i]]; !ok && keys[i] != ' ' {
					l.index[keys[i]] = i + level*len(l.plain)
				}
			}
		}
	}
	add(0, last)
	add(last, last+1)
	return l
}

// retype writes to b what the keys that give p on one layout give on another;
// nil if a character is not on a key. Spaces and control characters stay.
func retype(b, p []byte, from, to *layout) []byte {
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		p = p[n:]
		if r <= ' ' {
			b = append(b, byte(r))
			continue
		}
		at, ok := from.index[r]
		if !ok {
			return nil
		}
		key := at % len(from.plain)
		got := [][]rune{to.plain, to.shift, to.third}[at/len(from.plain)][key]
		if got == ' ' { // nothing on the third level
			got = to.plain[key]
		}
		b = utf8.AppendRune(b, got)
	}
	return b
}
