package load

import (
	"path/filepath"
	"slices"
	"strings"
)

// unknownType is the cause where the type checker says nothing about the type itself:
// it said so at what the type comes from.
const unknownType = "unknown type"

// missingImports reports the imports that cannot be read, in place of all types that
// are unknown for that alone: they are one mistake.
func (s *source) missingImports() {
	before := len(s.list)
	s.list = slices.DeleteFunc(s.list, func(d Diagnostic) bool {
		return d.Code == CodeUnknownType && strings.HasSuffix(d.Message, ": "+unknownType) &&
			filepath.Dir(d.Pos.Filename) == s.model.Dir && s.lacksImport()
	})
	if len(s.list) == before {
		return
	}
	for _, e := range s.pkg.TypeErrors {
		if path, ok := missingImport(e.Msg); ok {
			s.add(e.Pos, CodeUnknownType, "correct the path, or run go get "+path, "import %s: cannot be read, and types of it are used here", path)
		}
	}
}

func (s *source) lacksImport() bool {
	for _, e := range s.pkg.TypeErrors {
		if _, ok := missingImport(e.Msg); ok {
			return true
		}
	}
	return false
}

// missingImport returns the path in what the type checker says of an import that it
// could not read.
func missingImport(message string) (path string, ok bool) {
	rest, ok := strings.CutPrefix(message, "could not import ")
	path, _, _ = strings.Cut(rest, " ")
	return path, ok
}
