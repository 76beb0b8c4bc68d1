package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	module = "github.com/shardgen/shardgen"
	root   = "../.."
)

// A sourceFile is one Go file of the repository, whatever its build tags.
type sourceFile struct {
	path      string // from the repository's root, with slashes
	dir       string // "." at the root
	nested    bool   // in a module of its own
	test      bool
	generated bool
	syntax    *ast.File
	fset      *token.FileSet
}

// imports returns the file's import paths.
func (f *sourceFile) imports() []string {
	var paths []string
	for _, spec := range f.syntax.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser accepted it
		}
		paths = append(paths, path)
	}
	return paths
}

// line returns the line on which n begins.
func (f *sourceFile) line(n ast.Node) int { return f.fset.Position(n.Pos()).Line }

// tree parses every Go file of the repository once, except those in testdata folders.
var tree = sync.OnceValues(func() ([]*sourceFile, error) {
	var files []*sourceFile
	var nested []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, slash := d.Name(), filepath.ToSlash(path)
		if d.IsDir() {
			if path == root {
				return nil
			}
			if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				nested = append(nested, slash+"/")
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parseFile(path)
		if err != nil {
			return err
		}
		for _, prefix := range nested {
			f.nested = f.nested || strings.HasPrefix(slash, prefix)
		}
		files = append(files, f)
		return nil
	})
	return files, err
})

func parseFile(path string) (*sourceFile, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	f := &sourceFile{
		path: filepath.ToSlash(rel),
		dir:  filepath.ToSlash(filepath.Dir(rel)),
		test: strings.HasSuffix(path, "_test.go"),
		fset: token.NewFileSet(),
	}
	f.syntax, err = parser.ParseFile(f.fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f.generated = ast.IsGenerated(f.syntax)
	return f, nil
}

func loadTree(t *testing.T) []*sourceFile {
	t.Helper()
	files, err := tree()
	if err != nil {
		t.Fatalf("read the repository: %v", err)
	}
	return files
}

// under reports whether dir is folder or below it.
func under(dir, folder string) bool {
	return dir == folder || strings.HasPrefix(dir, folder+"/")
}
