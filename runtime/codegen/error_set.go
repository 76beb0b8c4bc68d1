package codegen

import (
	"slices"
	"strings"
)

// An ErrorSet collects the errors that callers of one package's entities can match. These are the
// errors of that package and of all packages whose clients the package uses, because its entities
// may return errors of nested calls.
type ErrorSet struct {
	list []Error
	seen []string // packages
}

// Errors returns the errors that the function add puts into an empty set. add is generated for a
// package.
func Errors(add func(*ErrorSet)) []Error {
	if add == nil {
		return nil
	}
	var s ErrorSet
	add(&s)
	return s.list
}

// Declare adds the errors of the package at path. If that package was added before, through another
// importing package, Declare adds nothing and returns false. The package added first must be the
// package of the entities. Its errors have short names on the wire, so that the package may be
// moved. The names of other errors begin with the path of their package.
func (s *ErrorSet) Declare(path string, errors ...Error) bool {
	if slices.Contains(s.seen, path) {
		return false
	}
	s.seen = append(s.seen, path)
	for _, e := range errors {
		if len(s.seen) > 1 && !strings.Contains(e.Name, ".") { // else the name already contains one
			e.Name = path + "." + e.Name
		}
		if !slices.ContainsFunc(s.list, func(o Error) bool { return o.Name == e.Name }) {
			s.list = append(s.list, e)
		}
	}
	return true
}
