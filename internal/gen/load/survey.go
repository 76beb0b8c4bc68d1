package load

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// A survey says what a package declares in its source, even if its code is not generated yet.
type survey struct {
	client bool // the package holds clients of entities
	errors bool // the package declares errors
}

func surveyOf(l *loader, path string) survey {
	if known, ok := l.surveys[path]; ok {
		return known
	}
	found := survey{client: l.clients[path] != nil}
	files := l.files[path]
	for _, p := range []map[string]*packages.Package{l.roots, l.clients} {
		if p[path] != nil {
			files = p[path].GoFiles
		}
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(src, []byte("//shard:")) && filepath.Base(name) != model.OutputName {
			continue
		}
		if filepath.Base(name) == model.OutputName && Generated(src) {
			found.client = found.client || model.OwnerIn(string(src)) != ""
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		found.read(file)
	}
	l.surveys[path] = found
	return found
}

func (v *survey) read(file *ast.File) {
	for _, group := range file.Comments {
		for _, c := range group.List {
			d, ok := ast.ParseDirective(c.Slash, c.Text)
			switch {
			case !ok || d.Tool != "shard":
			case d.Name == "error":
				v.errors = true
			case slices.Contains(entityDirectives, d.Name) && !strings.Contains(d.Args, clientOption+"="):
				v.client = true
			}
		}
	}
}
