package load

import (
	"go/token"
	"go/types"
	"slices"
	"strconv"
)

// A method may return the error of a call that it makes to another entity. If that is a declared
// error, the method's caller can decode it only if the caller's client package imports the client
// package of the other entity.

func importsOfErrors(s *source) {
	for path := range clientImports(s) {
		s.model.ErrorImports = append(s.model.ErrorImports, path)
		s.packages[path] = importName(s.pkg.Types, path)
	}
	slices.Sort(s.model.ErrorImports)
}

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

func importName(importer *types.Package, path string) string {
	for _, p := range importer.Imports() {
		if p.Path() == path {
			return p.Name()
		}
	}
	return packageName(path)
}

// passedOn reports packages with declared errors imported by s but not by client package h: callers
// would get only error texts.
func passedOn(s, h *source) {
	there := clientImports(h)
	for path, pos := range clientImports(s) {
		_, known := there[path]
		if known || path == h.pkg.PkgPath || !surveyOf(s.loader, path).errors {
			continue
		}
		s.add(pos, CodePassedOn, "write import _ "+strconv.Quote(path)+" in that package, or let the entity hold an interface of its own in place of the client",
			"%s: does not import %s, whose declared errors would lose their types when a method returns them", h.pkg.PkgPath, path)
	}
}
