package luks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Bounds of this implementation on the JSON area, which the specification
// leaves open: far above any real header, and low enough that a hostile one
// costs little memory and no deep recursion.
const (
	maxJSONDepth  = 32 // also that of cryptsetup's parser
	maxJSONValues = 1 << 16
)

// value is one JSON value: nil, bool, json.Number, string, []value, or
// *jsonObject.
type value any

// jsonObject keeps the order of its members and the text it was read from.
type jsonObject struct {
	names  []string
	fields map[string]value
	raw    []byte
}

// parseArea reads the one object of a JSON area. The area starts with it, and
// holds nothing behind it but NULs, of which there is at least one.
func parseArea(area []byte) (*jsonObject, error) {
	if len(area) == 0 || area[0] != '{' {
		return nil, corrupt("JSON area does not start with an object")
	}
	end := bytes.IndexByte(area, 0)
	if end < 0 {
		return nil, corrupt("JSON area has no final NUL")
	}
	for i, c := range area[end:] {
		if c != 0 {
			return nil, corrupt("JSON area has byte 0x%02x behind its final NUL, at offset %d", c, end+i)
		}
	}
	text := area[:end]
	if !utf8.Valid(text) {
		return nil, corrupt("JSON area is not UTF-8")
	}
	p := &jsonParser{text: text, dec: json.NewDecoder(bytes.NewReader(text))}
	p.dec.UseNumber()
	v, err := p.value(0)
	if err == nil {
		err = p.atEnd()
	}
	if err != nil {
		return nil, corrupt("JSON area, at offset %d: %w", p.dec.InputOffset(), err)
	}
	return v.(*jsonObject), nil
}

// jsonParser builds values from encoding/json's tokens, which makes duplicate
// names and the extent of each object visible.
type jsonParser struct {
	text  []byte
	dec   *json.Decoder
	count int
}

var (
	errTooDeep = fmt.Errorf("nested more than %d deep", maxJSONDepth)
	errTooMany = fmt.Errorf("more than %d values", maxJSONValues)
)

func (p *jsonParser) value(depth int) (value, error) {
	tok, err := p.token()
	if err != nil {
		return nil, err
	}
	if p.count++; p.count > maxJSONValues {
		return nil, errTooMany
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return tok, nil
	}
	if depth++; depth > maxJSONDepth {
		return nil, errTooDeep
	}
	if delim == '[' {
		return p.array(depth)
	}
	return p.object(depth)
}

func (p *jsonParser) array(depth int) (value, error) {
	list := []value{}
	for p.dec.More() {
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := p.token()
	return list, err
}

func (p *jsonParser) object(depth int) (value, error) {
	start := p.dec.InputOffset() - 1
	o := &jsonObject{fields: map[string]value{}}
	for p.dec.More() {
		tok, err := p.token()
		if err != nil {
			return nil, err
		}
		name := tok.(string) // the decoder takes nothing else here
		if _, ok := o.fields[name]; ok {
			return nil, fmt.Errorf("name %s appears twice", quote(name))
		}
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		o.names = append(o.names, name)
		o.fields[name] = v
	}
	if _, err := p.token(); err != nil {
		return nil, err
	}
	o.raw = p.text[start:p.dec.InputOffset()]
	return o, nil
}

func (p *jsonParser) token() (json.Token, error) {
	tok, err := p.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return tok, err
}

// atEnd makes sure that the object is followed by nothing, not even a space:
// cryptsetup takes no byte but NUL there.
func (p *jsonParser) atEnd() error {
	if rest := p.text[p.dec.InputOffset():]; len(rest) > 0 {
		return fmt.Errorf("byte 0x%02x behind the object", rest[0])
	}
	return nil
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
