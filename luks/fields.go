package luks

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// fields takes members of JSON objects with the types the specification gives
// them. The first thing that does not fit is kept in err, with the member's
// path, and every later call returns zero values, so that a decoder reads like
// the list of fields that it is.
type fields struct {
	err error
}

func (f *fields) fail(path, format string, args ...any) {
	if f.err == nil {
		f.err = corrupt("JSON "+path+": "+format, args...)
	}
}

// node is an object being decoded, with its path.
type node struct {
	*fields
	path string
	obj  *jsonObject
}

func (n node) at(name string) string {
	if n.path == "" {
		return name
	}
	return n.path + "." + name
}

// get returns a member, which must be there.
func (n node) get(name string) value {
	v, ok := n.obj.fields[name]
	if !ok {
		n.fail(n.at(name), "is missing")
	}
	return v
}

func (n node) has(name string) bool {
	_, ok := n.obj.fields[name]
	return ok
}

// object returns a member as an object; an empty one after an error.
func (n node) object(name string) node {
	return n.asObject(n.at(name), n.get(name))
}

func (f *fields) asObject(path string, v value) node {
	o, ok := v.(*jsonObject)
	if !ok {
		f.fail(path, "is %s, not an object", kindOf(v))
		o = &jsonObject{}
	}
	return node{fields: f, path: path, obj: o}
}

func (n node) string(name string) string {
	v := n.get(name)
	s, ok := v.(string)
	if !ok {
		n.fail(n.at(name), "is %s, not a string", kindOf(v))
	}
	return s
}

// int returns an integer in [least, most].
func (n node) int(name string, least, most int) int {
	v := n.get(name)
	num, ok := v.(json.Number)
	if !ok {
		n.fail(n.at(name), "is %s, not a number", kindOf(v))
		return least
	}
	i, err := strconv.ParseInt(num.String(), 10, 64)
	if err != nil || i < int64(least) || i > int64(most) {
		n.fail(n.at(name), "%s is not an integer from %d to %d", quote(num.String()), least, most)
		return least
	}
	return int(i)
}

// decimal returns a number that is stored as a string of decimal digits, as
// all 64-bit numbers are (specification, section 3). No sign, no
// superfluous zeros.
func (n node) decimal(name string) uint64 {
	s := n.string(name)
	u, ok := parseDecimal(s)
	if !ok {
		n.fail(n.at(name), "%s is not a decimal number", quote(s))
	}
	return u
}

// bytes returns a decimal number that counts bytes, a multiple of unit.
func (n node) bytes(name string, unit int64) int64 {
	u := n.decimal(name)
	if u > math.MaxInt64 || int64(u)%unit != 0 {
		n.fail(n.at(name), "%d is not a multiple of %d bytes below 2^63", u, unit)
		return 0
	}
	return int64(u)
}

func parseDecimal(s string) (uint64, bool) {
	u, err := strconv.ParseUint(s, 10, 64)
	return u, err == nil && strconv.FormatUint(u, 10) == s
}

// base64 returns decoded bytes, at least `least` and at most `most`.
func (n node) base64(name string, least, most int) []byte {
	s := n.string(name)
	if base64.StdEncoding.DecodedLen(len(s)) > most+2 {
		n.fail(n.at(name), "is longer than %d bytes", most)
		return nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	// Go's decoder passes over line ends.
	if err != nil || strings.ContainsAny(s, "\r\n") || len(b) < least || len(b) > most {
		n.fail(n.at(name), "%s is not base64 of %d to %d bytes", quote(s), least, most)
		return nil
	}
	return b
}

// strings returns an array of strings; nil where there is none.
func (n node) strings(name string) []string {
	if !n.has(name) {
		return nil
	}
	v := n.get(name)
	list, ok := v.([]value)
	if !ok {
		n.fail(n.at(name), "is %s, not an array", kindOf(v))
	}
	var out []string
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			n.fail(n.at(name), "holds %s, not only strings", kindOf(e))
		}
		out = append(out, s)
	}
	return out
}

// maxObjects bounds the IDs of keyslots, segments, digests and tokens: 0 to 31.
const maxObjects = 32

func parseID(s string) (int, bool) {
	u, ok := parseDecimal(s)
	return int(u), ok && u < maxObjects
}

// ids returns an array of IDs, which must be there, in ascending order.
func (n node) ids(name string) []int {
	n.get(name)
	var out []int
	for _, s := range n.strings(name) {
		id, ok := parseID(s)
		switch {
		case !ok:
			n.fail(n.at(name), "%s is not an ID from 0 to %d", quote(s), maxObjects-1)
			return nil
		case slices.Contains(out, id):
			n.fail(n.at(name), "ID %d appears twice", id)
			return nil
		}
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// each calls decode for every member of the object called name, in ascending
// order of their IDs.
func (n node) each(name string, decode func(id int, member node)) {
	o := n.object(name)
	names := make(map[int]string, len(o.obj.names))
	var ids []int
	for _, s := range o.obj.names {
		id, ok := parseID(s)
		if !ok {
			n.fail(o.path, "name %s is not an ID from 0 to %d", quote(s), maxObjects-1)
			return
		}
		names[id] = s
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		decode(id, o.object(names[id]))
	}
}
