package load

import (
	"go/token"
	"go/types"
	"slices"
	"strconv"
)

// A method may return the error of a call that it made. Its caller gets the declared errors of that
// other entity's package only if the client's package imports the packages of the clients used by
// the methods.

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

// passedOn reports imports with errors that the entities' methods may return, if the client's
// package h does not import them. Its callers would get only the text of these errors.
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
