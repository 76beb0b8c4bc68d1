package load

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// A method may return the error of a call that it made. Its caller gets the declared
// errors of that other entity's package only if the client's package knows them: it
// imports the packages of the clients that the methods use.

// A survey describes the declarations of a package, read from its source because the package may
// not be generated yet.
type survey struct {
	client bool // clients of entities
	errors bool // declared errors
}

// importsOfErrors records the packages with clients that the package's own files
// import.
func importsOfErrors(s *source) {
	for path := range clientImports(s) {
		s.model.ErrorImports = append(s.model.ErrorImports, path)
		s.packages[path] = importName(s.pkg.Types, path)
	}
	slices.Sort(s.model.ErrorImports)
}

// clientImports are the imports of the package that hold clients, with the positions of
// the imports.
func clientImports(s *source) map[string]token.Pos {
	found := make(map[string]token.Pos)
	for _, file := range s.pkg.Syntax {
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil || path == s.pkg.PkgPath {
				continue
			}
			if _, known := found[path]; !known && surveyOf(s.loader, path).client {
				found[path] = spec.Pos()
			}
		}
	}
	return found
}

// importName is the name of a package that importer imports.
func importName(importer *types.Package, path string) string {
	for _, p := range importer.Imports() {
		if p.Path() == path {
			return p.Name()
		}
	}
	return packageName(path)
}

// passedOn reports imports whose errors the entities' methods may return but that the
// client's package h does not import. Its callers would get only the text of these
// errors.
func passedOn(s, h *source) {
	there := clientImports(h)
	for path, pos := range clientImports(s) {
		_, known := there[path]
		if known || path == h.pkg.PkgPath || !surveyOf(s.loader, path).errors {
			continue
		}
		s.add(pos, CodePassedOn, "write import _ "+strconv.Quote(path)+" there, or let the entity hold an interface of its own in place of the client",
			"%s does not import %s: errors that it declares would lose their types when a method returns them", h.pkg.PkgPath, path)
	}
}

// surveyOf returns the survey of a package: one that is imported, or one that is being
// generated.
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

// read adds the declarations that the directives of a file mark.
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
