package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/xtsdisk/xtsdisk"

// A sourceFile is one Go file of the tree, build tags ignored, so that a rule
// holds on every system and not just on the one that runs the test.
type sourceFile struct {
	rel       string // slash-separated, from the module's root
	dir       string // its folder, "" for the root
	test      bool
	generated bool
	text      string
	fset      *token.FileSet
	ast       *ast.File
}

// tree parses every Go file of the module. Folders that begin with "_" or "."
// hold other modules (the assembly generators) or nothing of ours.
func tree(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			files = append(files, parse(t, name, filepath.ToSlash(rel)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d Go files found: the walk is broken", len(files))
	}
	return files
}

func parse(t *testing.T, name, rel string) sourceFile {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	dir := path.Dir(rel)
	if dir == "." {
		dir = ""
	}
	return sourceFile{
		rel:       rel,
		dir:       dir,
		test:      strings.HasSuffix(rel, "_test.go"),
		generated: ast.IsGenerated(file),
		text:      string(text),
		fset:      fset,
		ast:       file,
	}
}

// public tells whether other modules may import the folder's package.
func (f sourceFile) public() bool {
	return !strings.HasPrefix(f.dir, "internal/") && f.ast.Name.Name != "main" && !f.test
}
