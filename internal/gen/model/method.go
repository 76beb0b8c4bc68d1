package model

import "slices"

// A Method is a method of an entity that callers can call.
type Method struct {
	Name     string
	Wire     string   // its name on the wire
	Doc      []string // comment lines, with their slashes
	Context  string   // the parameter's name; "" or "_" as written
	Params   []Param  // without the context
	Results  []Param  // without the error
	Error    string   // the result's name; "" when results are not named
	Variadic bool     // the last of Params is a slice, written ...T
	Read     bool     // it changes no state: it has a shard:read directive
	TellOnly bool     // it is only told: it has a shard:tell directive
	Glue     string   // its part of the names of generated functions; "" means the entity's name and the method's
}

// HasDispatch reports whether a generated function decodes m's arguments, calls m and encodes the
// results: m has arguments or results.
func (m *Method) HasDispatch() bool { return len(m.Params)+len(m.Results) > 0 }

// NoContext reports whether m's context parameter has no name, so that m cannot use the context.
func (m *Method) NoContext() bool { return m.Context == "" || m.Context == "_" }

// ArgsFallible reports whether encoding m's arguments may fail.
func (m *Method) ArgsFallible() bool {
	return slices.ContainsFunc(m.Params, func(p Param) bool { return p.Type.Fallible })
}

// A Param is a parameter or a result.
type Param struct {
	Name   string // as written: may be "" or "_"
	Number int    // from 1
	Type   *Type
}
