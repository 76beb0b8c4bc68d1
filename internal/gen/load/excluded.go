package load

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// An Excluded is an entity's directive in a file that is not built here.
type Excluded struct {
	Pos        token.Position
	Constraint string // "special && !windows"
}

// String names the directive and what its file waits for.
func (e Excluded) String() string {
	return fmt.Sprintf("%v is built when %s", e.Pos, e.Constraint)
}

// directiveIn finds the first directive of an entity in a file's text.
func directiveIn(name string, src []byte) (pos token.Position, found bool) {
	line := 0
	for text := range strings.Lines(string(src)) {
		line++
		for _, d := range entityDirectives {
			if rest, ok := strings.CutPrefix(text, "//shard:"+d); ok && strings.TrimLeft(rest, " \t\r\n") != rest {
				return token.Position{Filename: name, Line: line, Column: 1}, true
			}
		}
	}
	return token.Position{}, false
}

// excludedIn finds entities in the files of a package that the build leaves out.
func excludedIn(p *packages.Package) (list []Excluded) {
	for _, name := range p.IgnoredFiles {
		src, err := os.ReadFile(name)
		if err != nil || strings.HasSuffix(name, "_test.go") {
			continue
		}
		pos, found := directiveIn(name, src)
		if !found {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			continue
		}
		if c := constraintOf(name, file); c != "" {
			list = append(list, Excluded{pos, c})
		}
	}
	return list
}

// testDirectives reports entities in test files: other files cannot name them, and
// so could no generated one.
func (r *report) testDirectives(dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return
	}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if pos, found := directiveIn(name, src); found {
			r.list = append(r.list, Diagnostic{
				pos, CodeMisplaced, "an entity in a test file: generated code is built without it", "move it to a file whose name does not end in _test.go, or to a package of its own",
			})
		}
	}
}
