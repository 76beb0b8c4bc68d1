package contract

import (
	"slices"
	"strings"
)

// compatible reports whether a field of one type can be read as the other: they differ
// at most in the width of integers and in being optional. A number that does not fit is
// refused by its reader, not cut.
func compatible(a, b string) bool { return loose(a) == loose(b) }

// integers are the types of integers, each kind from the narrowest to the widest.
var integers = map[string][]string{
	"int":  {"int8", "int16", "int32", "int64"},
	"uint": {"uint8", "uint16", "uint32", "uint64"},
}

// loose is a type without the parts that a reader does not depend on: whether it is
// optional, and the width of its integers.
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

// element is the type of the elements of a field or list.
func element(t string) (elem string, slice bool) {
	if is, optional := strings.CutPrefix(t, "*"); optional && oneField(is) {
		t = is
	}
	return strings.CutPrefix(t, "[]")
}

// optionChanged reports whether values of a field change in silence because it became
// optional, or no longer is: zero is not written, so it would be read as nil, and nil as
// zero. A struct that becomes optional is not among them, because it is always written.
func (c *Contract) optionChanged(was, is string) bool {
	before, wasOptional := strings.CutPrefix(was, "*")
	after, isOptional := strings.CutPrefix(is, "*")
	if wasOptional == isOptional || !oneField(before) || !oneField(after) {
		return false
	}
	m := c.message(before)
	return wasOptional || m == nil || m.Is != ""
}

// optionEffect is the effect on values where optionChanged is true.
func optionEffect(is string) string {
	if strings.HasPrefix(is, "*") {
		return "a zero that the old version wrote would be read as nil"
	}
	return "a nil that the old version wrote would be read as zero"
}

// narrower reports whether the integers of a type have a smaller range than those of
// another type, with which it is compatible.
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

// oneField reports whether a type is one field, so that making it optional does not
// change its bytes. Repeated and optional types are not.
func oneField(t string) bool {
	return !strings.HasPrefix(t, "[") && !strings.HasPrefix(t, "map[") && !strings.HasPrefix(t, "*")
}
