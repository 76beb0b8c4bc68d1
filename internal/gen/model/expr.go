package model

// An Expr is a type as it is written in Go code.
type Expr struct {
	// Alias is the other name that generated code uses for the type, because a local variable there
	// has the type's name; "" if it uses the type's name.
	Alias string
	Op    Op
	Path  string  // Named: import path, "" for predeclared types
	Name  string  // Named
	Args  []*Expr // Named: type arguments
	Elem  *Expr   // SliceOf, ArrayOf, MapOf, PointerTo
	Key   *Expr   // MapOf
	Len   int64   // ArrayOf
}

// Op is the kind of an [Expr].
type Op int

// The kinds of type expressions.
const (
	Named Op = iota
	SliceOf
	ArrayOf
	MapOf
	PointerTo
)
