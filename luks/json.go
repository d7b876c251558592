package luks

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of this implementation on the JSON area, which the specification
// leaves open: far above any real header, and low enough that a hostile one
// costs little memory and no deep recursion.
const (
	maxJSONDepth  = 32 // also that of cryptsetup's parser
	maxJSONValues = 1 << 13
	maxJSONEscape = 1 << 16 // bytes of a string with escapes
	maxJSONNumber = 1 << 10 // digits
)

// value is one JSON value: nil, bool, json.Number, string, []value, or
// *jsonObject.
type value any

// jsonObject keeps the order of its members and the text it was read from.
type jsonObject struct {
	names  []string
	fields map[string]value
	raw    string
}

// parseJSON reads the one object that the text of a JSON area is: it starts
// with it, and holds nothing behind it.
func parseJSON(text string) (*jsonObject, error) {
	if !strings.HasPrefix(text, "{") {
		return nil, corrupt("JSON area does not start with an object")
	}
	if !utf8.ValidString(text) {
		return nil, corrupt("JSON area is not UTF-8")
	}
	p := &jsonParser{text: text}
	v, err := p.value(0)
	if err == nil && p.at < len(text) {
		// Not even a space may follow: one object, then NUL.
		err = fmt.Errorf("byte 0x%02x behind the object", text[p.at])
	}
	if err != nil {
		return nil, corrupt("JSON area, at offset %d: %w", p.at, err)
	}
	return v.(*jsonObject), nil
}

// jsonParser reads JSON (RFC 8259). Strings are parts of the text, so that a
// hostile header of some MiB costs no more than those. Unlike encoding/json it
// shows duplicate names and the extent of each object.
type jsonParser struct {
	text  string // valid UTF-8, no NUL
	at    int
	count int
}

var (
	errJSONEnd = errors.New("unexpected end of the text")
	errTooDeep = fmt.Errorf("nested more than %d deep", maxJSONDepth)
	errTooMany = fmt.Errorf("more than %d values", maxJSONValues)
	errTooLong = errors.New("string with escapes or number that is too long")
)

// next skips white space and returns the byte that follows, 0 at the end: the
// text has no NUL.
func (p *jsonParser) next() byte {
	for ; p.at < len(p.text); p.at++ {
		for len(p.text)-p.at >= 8 && load64(p.text[p.at:]) == eightSpaces {
			p.at += 8
		}
		if p.at == len(p.text) {
			break
		}
		switch c := p.text[p.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (p *jsonParser) unexpected() error {
	if p.at >= len(p.text) {
		return errJSONEnd
	}
	return fmt.Errorf("unexpected byte 0x%02x", p.text[p.at])
}

// take takes the byte c, which must be next.
func (p *jsonParser) take(c byte) error {
	if p.next() != c {
		return p.unexpected()
	}
	p.at++
	return nil
}

// more tells whether another element follows in an array or object that ends
// with end, of which n have been read, and takes the comma or the end.
func (p *jsonParser) more(n int, end byte) (bool, error) {
	switch c := p.next(); {
	case c == end:
		p.at++
		return false, nil
	case n == 0:
		return true, nil
	default:
		return true, p.take(',')
	}
}

func (p *jsonParser) value(depth int) (value, error) {
	if p.count++; p.count > maxJSONValues {
		return nil, errTooMany
	}
	switch c := p.next(); {
	case c == '{' || c == '[':
		if depth == maxJSONDepth {
			return nil, errTooDeep
		}
		if c == '[' {
			return p.array(depth + 1)
		}
		return p.object(depth + 1)
	case c == '"':
		return p.string()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for word, v := range map[string]value{"null": nil, "true": true, "false": false} {
		if strings.HasPrefix(p.text[p.at:], word) {
			p.at += len(word)
			return v, nil
		}
	}
	return nil, p.unexpected()
}

func (p *jsonParser) array(depth int) (value, error) {
	p.at++
	list := []value{}
	for {
		if more, err := p.more(len(list), ']'); !more || err != nil {
			return list, err
		}
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
}

func (p *jsonParser) object(depth int) (value, error) {
	start := p.at
	p.at++
	o := &jsonObject{fields: map[string]value{}}
	for {
		more, err := p.more(len(o.names), '}')
		if err != nil {
			return nil, err
		}
		if !more {
			o.raw = p.text[start:p.at]
			return o, nil
		}
		if err := p.member(o, depth); err != nil {
			return nil, err
		}
	}
}

func (p *jsonParser) member(o *jsonObject, depth int) error {
	if p.next() != '"' {
		return p.unexpected()
	}
	name, err := p.string()
	if err != nil {
		return err
	}
	if _, ok := o.fields[name]; ok {
		return fmt.Errorf("name %s appears twice", quote(name))
	}
	if err := p.take(':'); err != nil {
		return err
	}
	v, err := p.value(depth)
	if err != nil {
		return err
	}
	o.names = append(o.names, name)
	o.fields[name] = v
	return nil
}

// string reads a string. One with escapes goes through encoding/json.
func (p *jsonParser) string() (string, error) {
	p.at++
	start, escaped := p.at, false
	for {
		n := strings.IndexByte(p.text[p.at:], '"')
		if n < 0 {
			p.at = len(p.text)
			return "", errJSONEnd
		}
		p.at += n + 1
		n = backslashes(p.text[start : p.at-1])
		if n%2 == 0 && n <= maxJSONEscape {
			break
		}
		if escaped = true; p.at-start > maxJSONEscape {
			return "", errTooLong
		}
	}
	s := p.text[start : p.at-1]
	if i := controlAt(s); i >= 0 {
		p.at = start + i
		return "", p.unexpected()
	}
	if !escaped && strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	if len(s) > maxJSONEscape {
		return "", errTooLong
	}
	var out string
	if err := json.Unmarshal([]byte(p.text[start-1:p.at]), &out); err != nil {
		return "", errors.New("bad escape in a string")
	}
	return out, nil
}

// backslashes counts those at the end of s, up to a few more than may be there.
func backslashes(s string) int {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' && n <= maxJSONEscape {
		n++
	}
	return n
}

// load64 returns the first eight bytes of s as one number.
func load64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

const (
	eightOnes   = 0x0101010101010101
	eightSpaces = eightOnes * ' '
)

// controlAt returns where the first control character is in s, or -1.
func controlAt(s string) int {
	i := 0
	// A byte below ' ' borrows from its top bit, where it has none itself.
	for len(s)-i >= 8 {
		x := load64(s[i:])
		if (x-eightSpaces)&^x&(eightOnes<<7) != 0 {
			break
		}
		i += 8
	}
	for ; i < len(s); i++ {
		if s[i] < ' ' {
			return i
		}
	}
	return -1
}

// number reads a number, and keeps it as it was written.
func (p *jsonParser) number() (value, error) {
	start := p.at
	for p.at < len(p.text) && strings.IndexByte("+-.eE0123456789", p.text[p.at]) >= 0 {
		if p.at++; p.at-start > maxJSONNumber {
			return nil, errTooLong
		}
	}
	text := p.text[start:p.at]
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("bad number %s", quote(text))
	}
	return json.Number(text), nil
}

// kindOf names a value's type for messages.
func kindOf(v value) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []value:
		return "an array"
	}
	return "an object"
}
