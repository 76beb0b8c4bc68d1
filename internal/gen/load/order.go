package load

import (
	"cmp"
	"go/token"
	"slices"
)

// inSourceOrder sorts declarations by position, and files by the first name that each declares, so
// renaming a file does not change the output.
func inSourceOrder[T any](fset *token.FileSet, list []T, declared func(T) (name string, pos token.Pos)) {
	least := make(map[string]string)
	for _, d := range list {
		name, pos := declared(d)
		file := fset.Position(pos).Filename
		if l, ok := least[file]; !ok || name < l {
			least[file] = name
		}
	}
	slices.SortFunc(list, func(a, b T) int {
		_, atA := declared(a)
		_, atB := declared(b)
		placeA, placeB := fset.Position(atA), fset.Position(atB)
		return cmp.Or(
			cmp.Compare(least[placeA.Filename], least[placeB.Filename]),
			cmp.Compare(placeA.Offset, placeB.Offset),
		)
	})
}
