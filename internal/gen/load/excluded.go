package load

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// An Excluded is an entity's directive in a file that the build constraints leave out.
type Excluded struct {
	Pos        token.Position
	Constraint string // "special && !windows"
}

// String names the directive and the build constraint of its file.
func (e Excluded) String() string {
	return fmt.Sprintf("%v is built when %s", e.Pos, e.Constraint)
}

func directiveIn(name string) (pos token.Position, file *ast.File, found bool) {
	src, err := os.ReadFile(name)
	if err != nil || !slices.ContainsFunc(entityDirectives, func(d string) bool { return bytes.Contains(src, []byte("//shard:"+d)) }) {
		return token.Position{}, nil, false
	}
	fset := token.NewFileSet()
	file, err = parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return token.Position{}, nil, false
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if d, ok := ast.ParseDirective(c.Slash, c.Text); ok && d.Tool == "shard" && slices.Contains(entityDirectives, d.Name) {
				return fset.Position(c.Slash), file, true
			}
		}
	}
	return token.Position{}, nil, false
}

func excludedIn(p *packages.Package) (list []Excluded) {
	for _, name := range p.IgnoredFiles {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		pos, file, found := directiveIn(name)
		if !found {
			continue
		}
		if c := constraintOf(name, file); c != "" {
			list = append(list, Excluded{pos, c})
		}
	}
	return list
}

// testDirectives reports entities in test files, whose types generated code cannot name.
func testDirectives(r *report, dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return
	}
	for _, name := range names {
		if pos, _, found := directiveIn(name); found {
			r.list = append(r.list, Diagnostic{
				pos, CodeMisplaced, "an entity in a test file: generated code is built without it", "move it to a file whose name does not end in _test.go, or to a package of its own",
			})
		}
	}
}
