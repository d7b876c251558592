package rules

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A rule says what a folder's package may import: folders of this module, and
// modules of others. The standard library is free. Folders below one that has
// a rule and none of their own follow it.
type rule struct {
	own    []string
	others []string
}

// The direction of DESIGN: cmd -> device/volume -> {luks, device} ->
// internal/sector -> {xts, gcm} -> xts/asm. luks and device never meet below
// device/volume, and taking the engine alone costs nothing but x/sys/cpu.
var mayImport = map[string]rule{
	"xts/asm":           {nil, []string{"golang.org/x/sys/cpu"}},
	"xts":               {[]string{"xts/asm"}, []string{"golang.org/x/sys/cpu"}},
	"xts/compat":        {[]string{"xts", "xts/asm"}, nil},
	"gcm":               {[]string{"xts/asm"}, []string{"golang.org/x/sys/cpu"}},
	"internal/sector":   {[]string{"xts", "gcm", "internal/hashes"}, []string{"golang.org/x/crypto", "github.com/aead/serpent", "github.com/dgryski/go-camellia"}},
	"internal/secret":   {nil, []string{"golang.org/x/sys"}},
	"internal/lock":     {nil, []string{"golang.org/x/sys"}},
	"internal/hashes":   {nil, []string{"golang.org/x/crypto"}},
	"internal/probe":    {nil, nil},
	"internal/testenv":  {nil, nil},
	"internal/rules":    {nil, nil},
	"internal/speed":    {[]string{"xts", "gcm", "xts/asm", "xts/compat"}, []string{"golang.org/x/crypto"}},
	"luks":              {[]string{"internal/sector", "internal/secret", "internal/hashes", "internal/probe"}, []string{"golang.org/x/crypto", "golang.org/x/sys"}},
	"device":            {[]string{"internal/sector"}, []string{"golang.org/x/sys"}},
	"device/devicetest": {[]string{"device"}, []string{"pgregory.net/rapid"}},
	"device/volume": {
		[]string{"device", "device/integrity", "device/image", "luks", "internal/sector", "internal/secret", "internal/hashes", "internal/lock", "internal/probe"},
		[]string{"golang.org/x/sys", "golang.org/x/text"},
	},
	"integration": {[]string{"luks", "device", "device/volume", "internal/sector"}, []string{"golang.org/x/sys", "github.com/anatol/luks.go"}},
	"cmd/xtsdisk": {
		[]string{"device", "device/volume", "luks", "xts", "internal/secret", "internal/lock", "internal/probe", "internal/speed"},
		[]string{"github.com/spf13", "github.com/vbauerster/mpb/v8", "golang.org/x/sys", "golang.org/x/term"},
	},
}

// Tests may use these on top of what their package may.
var testsMayImport = rule{
	own:    []string{"internal/testenv", "device/devicetest"},
	others: []string{"golang.org/x/crypto", "golang.org/x/sys", "golang.org/x/term", "pgregory.net/rapid", "github.com/google/go-cmp", "github.com/rogpeppe/go-internal"},
}

func TestImportDirection(t *testing.T) {
	for _, f := range tree(t) {
		r, ok := ruleFor(f.dir)
		if !ok {
			t.Errorf("%s: folder %q has no import rule", f.rel, f.dir)
			continue
		}
		for _, spec := range f.ast.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !allowed(f, r, target) {
				t.Errorf("%s: package %s may not import %s", f.rel, f.dir, target)
			}
		}
	}
}

func ruleFor(dir string) (rule, bool) {
	for d := dir; d != ""; {
		if r, ok := mayImport[d]; ok {
			return r, true
		}
		i := strings.LastIndexByte(d, '/')
		if i < 0 {
			break
		}
		d = d[:i]
	}
	return rule{}, false
}

func allowed(f sourceFile, r rule, target string) bool {
	first, _, _ := strings.Cut(target, "/")
	if target != module && !strings.Contains(first, ".") {
		return true // standard library
	}
	own, others := r.own, r.others
	if f.test {
		own = slices.Concat(own, testsMayImport.own)
		others = slices.Concat(others, testsMayImport.others)
	}
	if rest, ok := strings.CutPrefix(target, module+"/"); ok {
		return rest == f.dir || slices.Contains(own, rest)
	}
	return slices.ContainsFunc(others, func(o string) bool {
		return target == o || strings.HasPrefix(target, o+"/")
	})
}

// The rule itself must be able to refuse: luks and device apart, the engine
// free of everything above it.
func TestImportRuleRefuses(t *testing.T) {
	for _, c := range []struct{ dir, target string }{
		{"luks", module + "/device"},
		{"device", module + "/luks"},
		{"xts", module + "/internal/sector"},
		{"xts", "golang.org/x/crypto/xts"},
		{"xts/asm", module + "/xts"},
		{"internal/probe", module + "/internal/lock"},
		{"device/devicetest", module + "/luks"},
	} {
		r, ok := ruleFor(c.dir)
		if !ok || allowed(sourceFile{dir: c.dir}, r, c.target) {
			t.Errorf("%s may import %s", c.dir, c.target)
		}
	}
}
