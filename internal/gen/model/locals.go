package model

import "slices"

// locals are the names of variables in generated functions that do not depend on
// the user's names.
var locals = []string{
	"a", "again", "at", "b", "c", "d", "e", "ctx", "depth", "entity", "err", "factory", "host", "i", "id", "k", "kept", "key", "m", "method",
	"n", "num", "opts", "outer", "p", "r", "raw", "s", "seen", "skipped", "v", "x",
}

// IsLocal reports whether generated functions have a variable of that name, hiding a type of the
// user's.
func IsLocal(name string) bool { return slices.Contains(locals, name) }

// predeclared are Go's own names that generated code uses.
var predeclared = []string{
	"any", "append", "bool", "byte", "error", "false", "float32", "float64", "int", "int8", "int16", "int32", "int64", "len",
	"make", "new", "nil", "rune", "string", "true", "uint", "uint8", "uint16", "uint32", "uint64",
}

// IsPredeclared reports whether generated code uses that name as Go declares it.
func IsPredeclared(name string) bool { return slices.Contains(predeclared, name) }
