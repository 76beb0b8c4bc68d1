package model

// An Expr is a type as Go code writes it.
type Expr struct {
	// Alias is the name in generated code for a type with the name of a local variable there;
	// otherwise "".
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
