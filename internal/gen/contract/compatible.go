package contract

import (
	"slices"
	"strings"
)

// compatible reports whether values of type a can be read as type b: the types differ at most in
// the width of integers and in being optional. The reader refuses a number that does not fit.
func compatible(a, b string) bool { return loose(a) == loose(b) }

// integers are the integer types of each sign, from the narrowest to the widest.
var integers = map[string][]string{
	"int":  {"int8", "int16", "int32", "int64"},
	"uint": {"uint8", "uint16", "uint32", "uint64"},
}

// loose returns type t without the parts that do not matter for reading it: the mark of an optional
// type, and the width of integers.
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

// element returns the type of the elements of t, and whether t is a slice. A type that is no slice,
// even an optional one, is its own element.
func element(t string) (elem string, slice bool) {
	if is, optional := strings.CutPrefix(t, "*"); optional && oneField(is) {
		t = is
	}
	return strings.CutPrefix(t, "[]")
}

// optionChanged reports whether a field silently changes values because it became optional or
// ceased to be: a zero is not written, so it would be read as nil, and a nil as zero. A struct that
// becomes optional does not change values, because a struct is always written.
func (c *Contract) optionChanged(was, is string) bool {
	before, wasOptional := strings.CutPrefix(was, "*")
	after, isOptional := strings.CutPrefix(is, "*")
	if wasOptional == isOptional || !oneField(before) || !oneField(after) {
		return false
	}
	m := c.message(before)
	return wasOptional || m == nil || m.Is != ""
}

// optionEffect describes how values change if optionChanged is true for a field whose type is now
// is.
func optionEffect(is string) string {
	if strings.HasPrefix(is, "*") {
		return "a zero that the old version wrote would be read as nil"
	}
	return "a nil that the old version wrote would be read as zero"
}

// narrower reports whether two types are compatible, and type is has integers of a smaller range
// than type than.
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

// oneField reports whether type t is written as one field, so that making it optional does not
// change its bytes. It is false for slices, arrays, maps and optional types.
func oneField(t string) bool {
	return !strings.HasPrefix(t, "[") && !strings.HasPrefix(t, "map[") && !strings.HasPrefix(t, "*")
}
