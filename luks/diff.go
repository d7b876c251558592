package luks

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Difference is one value in which two headers differ.
type Difference struct {
	Path string // "uuid", "keyslots.1.kdf.time", "keyslots.1.area.contents"
	A, B string // the value in each, as JSON has it; "" where there is none
}

// Diff lists in what the headers a and b differ: the fields of the binary
// headers, every value of the JSON, whether known here or not, and whether the
// areas of keyslots that are described alike hold the same bytes (by their
// SHA-256). LUKS1 headers are compared as the LUKS2 header that says the same.
// ra and rb are what they were read from. The list is in the order of paths;
// it is empty for headers that do not differ.
func Diff(a, b *Header, ra, rb io.ReaderAt) ([]Difference, error) {
	fa, err := a.flat()
	if err != nil {
		return nil, err
	}
	fb, err := b.flat()
	if err != nil {
		return nil, err
	}
	var list []Difference
	for path, va := range fa {
		if vb := fb[path]; va != vb {
			list = append(list, Difference{path, va, vb})
		}
	}
	for path, vb := range fb {
		if _, ok := fa[path]; !ok {
			list = append(list, Difference{path, "", vb})
		}
	}
	for _, k := range a.Keyslots {
		other := b.keyslot(k.ID)
		if other == nil {
			continue
		}
		d, err := diffArea(k.Area, other.Area, ra, rb)
		if err != nil {
			return nil, fmt.Errorf("keyslot %d: %w", k.ID, err)
		}
		if d != nil {
			d.Path = fmt.Sprintf("keyslots.%d.area.contents", k.ID)
			list = append(list, *d)
		}
	}
	slices.SortFunc(list, func(a, b Difference) int { return comparePaths(a.Path, b.Path) })
	return list, nil
}

// diffArea compares what two areas hold, if they are of one size.
func diffArea(a, b Area, ra, rb io.ReaderAt) (*Difference, error) {
	if a.Size != b.Size {
		return nil, nil
	}
	sumA, errA := areaSum(a, ra)
	sumB, errB := areaSum(b, rb)
	if err := errors.Join(errA, errB); err != nil || sumA == sumB {
		return nil, err
	}
	return &Difference{A: sumA, B: sumB}, nil
}

// areaSum is the SHA-256 of what an area holds, up to the end of the file.
func areaSum(a Area, r io.ReaderAt) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(r, a.Offset, a.Size)); err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil)), nil
}

// flat is the header as paths and values.
func (h *Header) flat() (map[string]string, error) {
	m := map[string]string{
		"version":   strconv.Itoa(h.Version),
		"uuid":      h.UUID,
		"label":     h.Label,
		"subsystem": h.Subsystem,
		"epoch":     strconv.FormatUint(h.SeqID, 10),
		"size":      strconv.FormatInt(h.Size, 10),
	}
	o := h.json
	if o == nil {
		text, err := h.encodeNew()
		if err != nil {
			return nil, err
		}
		if o, err = parseJSON(string(text)); err != nil {
			return nil, err
		}
	}
	flatten(m, "", o)
	return m, nil
}

func flatten(m map[string]string, path string, v value) {
	switch v := v.(type) {
	case *jsonObject:
		if len(v.names) == 0 && strings.Contains(path, ".") {
			m[path] = "{}"
		}
		for _, name := range v.names {
			flatten(m, strings.TrimPrefix(path+"."+name, "."), v.fields[name])
		}
	case []value:
		var items []string
		for i, item := range v {
			sub := map[string]string{}
			flatten(sub, "", item)
			if text, ok := sub[""]; ok {
				items = append(items, text)
				continue
			}
			for name, text := range sub {
				m[fmt.Sprintf("%s.%d.%s", path, i, name)] = text
			}
		}
		m[path] = strings.Join(items, ", ")
	case string:
		m[path] = v
	case json.Number:
		m[path] = v.String()
	default:
		m[path] = fmt.Sprint(v)
	}
}

// comparePaths sorts what is a number by number.
func comparePaths(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		x, errX := strconv.Atoi(a)
		y, errY := strconv.Atoi(b)
		if errX == nil && errY == nil {
			return cmp.Compare(x, y)
		}
		return strings.Compare(a, b)
	})
}
