package rules

import (
	"go/ast"
	"strings"
	"testing"
)

const (
	maxFileLines     = 500
	maxFunctionLines = 45 // of nine functions in ten
)

func TestFileLengths(t *testing.T) {
	for _, f := range tree(t) {
		if lines := strings.Count(f.text, "\n"); !f.generated && lines > maxFileLines {
			t.Errorf("%s: %d lines, at most %d: split it by concept", f.rel, lines, maxFileLines)
		}
	}
}

func TestFunctionLengths(t *testing.T) {
	var long []string
	total := 0
	for _, f := range tree(t) {
		if f.generated || f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			total++
			start, end := f.fset.Position(fn.Pos()), f.fset.Position(fn.End())
			if end.Line-start.Line+1 > maxFunctionLines {
				long = append(long, start.String()+" "+fn.Name.Name)
			}
		}
	}
	if len(long)*10 > total {
		t.Errorf("%d of %d functions are over %d lines, at most a tenth may be:\n%s",
			len(long), total, maxFunctionLines, strings.Join(long, "\n"))
	}
}
