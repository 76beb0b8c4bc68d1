package model

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrorsFunc is the name of a generated function in a package with clients. The function adds the
// declared errors of that package to a set. It is exported, because packages that use the clients
// call it.
const ErrorsFunc = "ShardErrors"

// OneofsFunc names the generated function that returns the package's interfaces with cases, for
// JSON.
const OneofsFunc = "shardOneofs"

// TypeFuncs returns the names of all functions that may be generated for a type with this Name.
func TypeFuncs(name string) []string {
	return []string{
		"append" + name, "read" + name, "clone" + name, "init" + name, "append" + name + "Element", "read" + name + "Element",
		"encode" + name, "decode" + name, "known" + name, "unknown" + name,
	}
}

// Lower returns name with its first word in lower case: "Stock" becomes "stock", and "HTTPServer"
// becomes "httpServer".
func Lower(name string) string {
	upper := 0
	for i, r := range name {
		if !unicode.IsUpper(r) {
			break
		}
		upper = i + utf8.RuneLen(r)
	}
	if upper == 0 {
		return name
	}
	_, first := utf8.DecodeRuneInString(name)
	if upper < len(name) && upper > first {
		// The last upper letter begins the next word.
		_, last := utf8.DecodeLastRuneInString(name[:upper])
		upper -= last
	}
	return strings.ToLower(name[:upper]) + name[upper:]
}

// Upper returns name with its first letter in upper case.
func Upper(name string) string {
	r, n := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(r)) + name[n:]
}

// locals are the variables of generated functions, except those named after the user's names.
var locals = []string{
	"a", "again", "at", "b", "c", "d", "e", "ctx", "depth", "entity", "err", "factory", "host", "i", "id", "k", "kept", "key", "m", "method",
	"n", "num", "opts", "outer", "p", "r", "raw", "s", "seen", "skipped", "v", "x",
}

// IsLocal reports whether generated functions have a variable of this name, which would hide a type
// of the user.
func IsLocal(name string) bool { return slices.Contains(locals, name) }

// predeclared are the predeclared names in generated code.
var predeclared = []string{
	"any", "append", "bool", "byte", "error", "false", "float32", "float64", "int", "int8", "int16", "int32", "int64", "len",
	"make", "new", "nil", "rune", "string", "true", "uint", "uint8", "uint16", "uint32", "uint64",
}

// IsPredeclared reports whether generated code needs that predeclared name of Go.
func IsPredeclared(name string) bool { return slices.Contains(predeclared, name) }
