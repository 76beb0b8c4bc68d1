package contract

import (
	"slices"
	"strings"
)

// compatible reports whether a field of one type can be read as the other: they
// are the same but for the width of integers and for being optional. A number
// that does not fit is refused by its reader, not cut.
func compatible(a, b string) bool { return loose(a) == loose(b) }

// integers are the types of integers, each kind from the narrowest to the widest.
var integers = map[string][]string{
	"int":  {"int8", "int16", "int32", "int64"},
	"uint": {"uint8", "uint16", "uint32", "uint64"},
}

// loose is a type without what a reader does not mind: being optional, and how wide
// its integers are.
func loose(t string) string {
	elem, slice := element(t)
	for kind, widths := range integers {
		if slices.Contains(widths, elem) {
			elem = kind
		}
	}
	if slice {
		return "[]" + elem
	}
	return elem
}

// element is what a field or a list of the type holds.
func element(t string) (elem string, slice bool) {
	if is, optional := strings.CutPrefix(t, "*"); optional && oneField(is) {
		t = is
	}
	return strings.CutPrefix(t, "[]")
}

// narrower reports whether the integers of a type are fewer than those of another
// that it is compatible with.
func narrower(is, than string) bool {
	a, _ := element(is)
	b, _ := element(than)
	for _, widths := range integers {
		if i := slices.Index(widths, a); i >= 0 && i < slices.Index(widths, b) {
			return compatible(is, than)
		}
	}
	return false
}

// oneField reports whether a type is one field, which may then be optional with
// the same bytes: not a repeated one, nor one that is optional itself.
func oneField(t string) bool {
	return !strings.HasPrefix(t, "[") && !strings.HasPrefix(t, "map[") && !strings.HasPrefix(t, "*")
}
