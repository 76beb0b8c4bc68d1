package contract

import "strings"

// A node is the outermost part of a type in the contract's notation.
type node struct {
	op   byte // 's' slice, 'a' array, 'm' map, 'p' pointer, 0 a name
	name string
	key  string
	elem string
}

func parseType(t string) node {
	switch {
	case strings.HasPrefix(t, "*"):
		return node{op: 'p', elem: t[1:]}
	case strings.HasPrefix(t, "[]"):
		return node{op: 's', elem: t[2:]}
	case strings.HasPrefix(t, "map["):
		end := closing(t, len("map"))
		return node{op: 'm', key: t[len("map["):end], elem: t[end+1:]}
	case strings.HasPrefix(t, "["):
		end := closing(t, 0)
		if t[end+1:] == "byte" {
			return node{name: "bytes"}
		}
		return node{op: 'a', name: t[1:end], elem: t[end+1:]}
	}
	return node{name: t}
}

// closing returns the index of the bracket that closes the bracket at i.
func closing(t string, i int) int {
	depth := 0
	for j := i; j < len(t); j++ {
		switch t[j] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return j
			}
		}
	}
	return len(t) - 1
}

// typeNames returns the names of types that a type in the contract's notation contains.
func typeNames(t string) []string {
	return strings.FieldsFunc(t, func(r rune) bool { return strings.ContainsRune("[]*,():", r) })
}

func shortName(t string) string { return t[strings.LastIndexByte(t, '.')+1:] }

// replaceName replaces whole names in type t that equal name by to.
func replaceName(t, name, to string) string {
	const separators = "[]*,():"
	var b strings.Builder
	for len(t) > 0 {
		i := strings.IndexAny(t, separators)
		if i < 0 {
			i = len(t)
		}
		if t[:i] == name {
			b.WriteString(to)
		} else {
			b.WriteString(t[:i])
		}
		if i < len(t) {
			b.WriteByte(t[i])
			i++
		}
		t = t[i:]
	}
	return b.String()
}
