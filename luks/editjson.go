package luks

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// jsonNode is one value of a JSON text that is being edited. What is not
// changed keeps its bytes: an object that this package does not know, a number
// written as 1e3, an escape in a string, white space.
//
// The text has been read by parseArea before, so it is valid. The result of
// editing is read by it again before it is written.
type jsonNode struct {
	raw     []byte // the value's text; nil once something in it has changed
	parent  *jsonNode
	members []jsonMember // of an object, once opened
	opened  bool
}

type jsonMember struct {
	key  []byte // as read: with its quotes, the colon, and white space around
	name string
	node *jsonNode
	tail []byte // white space up to the comma or brace
}

// newJSONNode is the root of a text.
func newJSONNode(text []byte) *jsonNode { return &jsonNode{raw: text} }

// child returns the value of a member, or nil.
func (n *jsonNode) child(name string) *jsonNode {
	n.open()
	if i := n.index(name); i >= 0 {
		return n.members[i].node
	}
	return nil
}

// path is child for several names; a missing one gives nil.
func (n *jsonNode) path(names ...string) *jsonNode {
	for _, name := range names {
		if n == nil {
			return nil
		}
		n = n.child(name)
	}
	return n
}

// set gives a member another text, or adds it at the end.
func (n *jsonNode) set(name string, text []byte) {
	n.open()
	v := &jsonNode{raw: text, parent: n}
	if i := n.index(name); i >= 0 {
		n.members[i].node = v
	} else {
		n.members = append(n.members, jsonMember{key: append(encodeJSON(name), ':'), name: name, node: v})
	}
	n.changed()
}

// remove takes a member away, if there is one.
func (n *jsonNode) remove(name string) {
	n.open()
	if i := n.index(name); i >= 0 {
		n.members = append(n.members[:i], n.members[i+1:]...)
		n.changed()
	}
}

// names lists the members.
func (n *jsonNode) names() []string {
	n.open()
	var out []string
	for _, m := range n.members {
		out = append(out, m.name)
	}
	return out
}

// text returns the JSON.
func (n *jsonNode) text() []byte {
	if n.raw != nil {
		return n.raw
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range n.members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(m.key)
		b.Write(m.node.text())
		b.Write(m.tail)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// addID adds an ID to an array of them, unless it is there.
func (n *jsonNode) addID(id int) {
	if ids := n.ids(); !slices.Contains(ids, strconv.Itoa(id)) {
		n.setIDs(append(ids, strconv.Itoa(id)))
	}
}

// removeID removes an ID from an array of them and tells whether it was there.
func (n *jsonNode) removeID(id int) bool {
	var rest []string
	ids := n.ids()
	for _, s := range ids {
		if s != strconv.Itoa(id) {
			rest = append(rest, s)
		}
	}
	if len(rest) == len(ids) {
		return false
	}
	n.setIDs(rest)
	return true
}

func (n *jsonNode) ids() []string {
	var ids []string
	_ = json.Unmarshal(n.text(), &ids) // validated when the header was read
	return ids
}

func (n *jsonNode) setIDs(ids []string) {
	if ids == nil {
		ids = []string{}
	}
	n.raw = encodeJSON(ids)
	n.parent.changed()
}

func (n *jsonNode) changed() {
	for ; n != nil; n = n.parent {
		n.raw = nil
	}
}

func (n *jsonNode) index(name string) int {
	for i, m := range n.members {
		if m.name == name {
			return i
		}
	}
	return -1
}

// open splits an object into its members.
func (n *jsonNode) open() {
	if n.opened {
		return
	}
	n.opened = true
	s := jsonScanner(bytes.TrimSpace(n.raw))
	if len(s) == 0 || s[0] != '{' {
		return
	}
	for s = s[1:]; ; s = s[1:] { // the comma
		start := s
		s.space()
		if len(s) == 0 || s[0] != '"' {
			return
		}
		name := s.value()
		s.space()
		s = s[1:] // the colon
		s.space()
		m := jsonMember{key: start[:len(start)-len(s)], node: &jsonNode{raw: s.value(), parent: n}}
		_ = json.Unmarshal(name, &m.name)
		m.tail = s.space()
		n.members = append(n.members, m)
		if len(s) == 0 || s[0] != ',' {
			return
		}
	}
}

// jsonScanner is the rest of a valid JSON text.
type jsonScanner []byte

// space takes white space off.
func (s *jsonScanner) space() []byte {
	rest := bytes.TrimLeft(*s, " \t\r\n")
	space := (*s)[:len(*s)-len(rest)]
	*s = rest
	return space
}

// value takes the next value off.
func (s *jsonScanner) value() []byte {
	depth, end, text := 0, 0, *s
	for end < len(text) {
		c := text[end]
		switch {
		case c == '"':
			end += stringLength(text[end:])
		case c == '{' || c == '[':
			depth++
			end++
		case c == '}' || c == ']':
			depth--
			end++
		case depth == 0 && strings.IndexByte(" \t\r\n,:}]", c) < 0: // a number or word
			for end < len(text) && strings.IndexByte(" \t\r\n,}]", text[end]) < 0 {
				end++
			}
		default:
			end++
		}
		if depth == 0 {
			break
		}
	}
	*s = text[end:]
	return text[:end:end]
}

// stringLength is the length of the string literal that b begins with.
func stringLength(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// encodeJSON is the JSON of a value that can have one.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("luks: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
