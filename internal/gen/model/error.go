package model

// An Error has a shard:error directive.
type Error struct {
	Name    string // in Go, unique in its package
	Wire    string // on the wire
	Var     *Expr  // a sentinel; else nil
	Type    *Type  // a type that is an error; else nil
	Pointer bool   // pointers to Type are errors, values of it are not
}

// Foreign reports whether an error is a variable of another package.
func (e *Error) Foreign() bool { return e.Var != nil && e.Name != e.Var.Name }
