package contract

import "strings"

// formTag returns the tag with which a field keeps its former encoding. was and is are the former
// and the present type of the field. If they differ in more than the methods that encode a type as
// bytes or text, or if the role what has no tags, formTag returns "".
func formTag(what, was, is string) string {
	const text, binary = "text:", "binary:"
	form := ""
	switch {
	case was != is && (strings.ReplaceAll(is, binary, text) == was || strings.ReplaceAll(was, text, "") == is):
		form = "text"
	case was != is && strings.ReplaceAll(is, text, binary) == was:
		form = "binary"
	default:
		return ""
	}
	switch what {
	case "state":
		return "`shard:\"state," + form + "\"`"
	case "field":
		return "`shard:\"" + form + "\"`"
	}
	return "" // arguments and results have no tags
}

// formsDiffer reports whether two types differ only in names after text: or binary:.
func formsDiffer(a, b string) bool {
	x, y := parseType(a), parseType(b)
	switch {
	case a == b || x.op != y.op:
		return false
	case x.op == 0:
		for _, form := range []string{"text:", "binary:"} {
			if strings.HasPrefix(a, form) && strings.HasPrefix(b, form) {
				return true
			}
		}
		return false
	}
	same := func(a, b string) bool { return a == b || formsDiffer(a, b) }
	return x.name == y.name && same(x.key, y.key) && same(x.elem, y.elem)
}

func retypeCommand(path, to string) string {
	if strings.ContainsAny(to, "[]*()\"\\") {
		to = "'" + to + "'"
	}
	return "shardgen contract retype " + path + " " + to
}
