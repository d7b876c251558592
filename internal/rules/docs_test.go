package rules

import (
	"go/ast"
	"strings"
	"testing"
)

// Every exported name that another module can reach has a doc comment that
// begins with the name, as go doc expects it.
func TestExportsDocumented(t *testing.T) {
	packages := map[string]bool{}
	for _, f := range tree(t) {
		if !f.public() {
			continue
		}
		packages[f.dir] = packages[f.dir] || f.ast.Doc != nil
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
					t.Errorf("%s: %s has no doc comment", f.fset.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				undocumented(t, f, d)
			}
		}
	}
	for dir, documented := range packages {
		if !documented {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	name, ok := typ.(*ast.Ident)
	return ok && name.IsExported()
}

func undocumented(t *testing.T, f sourceFile, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
				t.Errorf("%s: type %s has no doc comment", f.fset.Position(s.Pos()), s.Name.Name)
			}
			if s.Name.IsExported() {
				undocumentedFields(t, f, s)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					t.Errorf("%s: %s has no doc comment", f.fset.Position(name.Pos()), name.Name)
				}
			}
		}
	}
}

// undocumentedFields asks for a comment on each exported field or method of a
// struct or interface; a run of fields may share the comment above its first.
func undocumentedFields(t *testing.T, f sourceFile, s *ast.TypeSpec) {
	t.Helper()
	var fields *ast.FieldList
	switch typ := s.Type.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields = typ.Methods
	default:
		return
	}
	covered, last := false, -1
	for _, field := range fields.List {
		line := f.fset.Position(field.Pos()).Line
		if field.Doc != nil || field.Comment != nil {
			covered = true
		} else if line != last+1 {
			covered = false // a blank line ends the run that a comment covers
		}
		last = f.fset.Position(field.End()).Line
		for _, name := range field.Names {
			if name.IsExported() && !covered {
				t.Errorf("%s: %s.%s has no doc comment", f.fset.Position(field.Pos()), s.Name.Name, name.Name)
			}
		}
	}
}

// No file names a path of the machine on which it was written.
func TestNoMachinePaths(t *testing.T) {
	for _, f := range tree(t) {
		for _, bad := range []string{"/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/user/"} {
			if strings.Contains(f.text, bad) {
				t.Errorf("%s: names the machine path %s", f.rel, bad)
			}
		}
	}
}
