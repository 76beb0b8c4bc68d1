package contract

import (
	"slices"
	"strings"
)

// compatible reports whether values of type a can be read as type b. Types may differ in integers'
// width and in being optional: readers refuse numbers that do not fit.
func compatible(a, b string) bool { return loose(a) == loose(b) }

var integers = map[string][]string{
	"int":  {"int8", "int16", "int32", "int64"},
	"uint": {"uint8", "uint16", "uint32", "uint64"},
}

// loose removes what does not matter for reading t: being optional, and the width of integers.
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

func element(t string) (elem string, slice bool) {
	if is, optional := strings.CutPrefix(t, "*"); optional && oneField(is) {
		t = is
	}
	return strings.CutPrefix(t, "[]")
}

// optionChanged reports whether a value that is written as type was and read as type is may confuse
// nil and zero. This happens if only one of the types is optional, because a zero is not written,
// except a struct.
func (c *Contract) optionChanged(was, is string) bool {
	before, wasOptional := strings.CutPrefix(was, "*")
	after, isOptional := strings.CutPrefix(is, "*")
	if wasOptional == isOptional || !oneField(before) || !oneField(after) {
		return false
	}
	m := c.message(before)
	return wasOptional || m == nil || m.Is != ""
}

func optionEffect(is string) string {
	if strings.HasPrefix(is, "*") {
		return "a zero that the old version wrote would be read as nil"
	}
	return "a nil that the old version wrote would be read as zero"
}

// narrower reports whether the two types are compatible, and type is has smaller integers than the
// other.
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

// oneField reports whether t is encoded as one field, so that making it optional keeps its bytes.
func oneField(t string) bool {
	return !strings.HasPrefix(t, "[") && !strings.HasPrefix(t, "map[") && !strings.HasPrefix(t, "*")
}
