package contract

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// A namer writes types in the contract's notation. Types of the package and its clients' packages
// have no path, so moving a type between these keeps the contract. If names collide, only the
// package's own type is written without a path.
type namer struct {
	own map[string]string // paths by the names of types
}

func newNamer(pkg *model.Package) *namer {
	n := &namer{own: make(map[string]string)}
	paths := []string{pkg.Path}
	var types []*model.Type
	for _, c := range pkg.Clients {
		paths, types = append(paths, c.Path), append(types, c.Types...)
	}
	types = append(slices.Clone(pkg.Types), types...)
	for _, path := range paths {
		for _, t := range types {
			n.take(path, t.Expr)
		}
	}
	return n
}

// take records the types in x that the package at path declares. If packages declare the same name,
// the first to be recorded keeps it.
func (n *namer) take(path string, x *model.Expr) {
	if x == nil {
		return
	}
	if x.Path == path && n.own[x.Name] == "" {
		n.own[x.Name] = path
	}
	for _, a := range x.Args {
		n.take(path, a)
	}
	n.take(path, x.Key)
	n.take(path, x.Elem)
}

// typeName writes a type in the contract's notation: its encoding, in Go syntax. Names stand only
// for types whose name gives their bytes a meaning: structs, interfaces with cases, types with
// their own text or binary form, and types containing themselves.
//
//	bool int8 … uint64 float32 float64 string
//	bytes [16]byte time proto(example.com/pb.Order)
//	text:net/netip.Addr binary:example.com/other.Key
//	[]T [3]T map[K]V *T Line example.com/other.Line Page[Line]
func (n *namer) typeName(t *model.Type) string {
	if isNamedCircle(t) {
		return n.expr(t.Expr)
	}
	return n.unnamed(t)
}

// isNamedCircle reports whether t contains itself without a struct or interface. The contract must
// name t, because t's elements have no end.
func isNamedCircle(t *model.Type) bool {
	return t.Recursive && t.Shape != model.Struct && t.Shape != model.Oneof && t.Expr.Op == model.Named
}

// unnamed writes a type's form and elements instead of its name.
func (n *namer) unnamed(t *model.Type) string {
	switch t.Shape {
	case model.Bool:
		return "bool"
	case model.Int, model.Uint:
		return t.Basic
	case model.Float32:
		return "float32"
	case model.Float64:
		return "float64"
	case model.String:
		return "string"
	case model.Bytes:
		return "bytes"
	case model.ByteArray:
		return fmt.Sprintf("[%d]byte", t.Len)
	case model.Time:
		return "time"
	case model.Text:
		return "text:" + n.expr(t.Expr)
	case model.Binary, model.Gob:
		return "binary:" + n.expr(t.Expr)
	case model.Proto:
		return "proto(" + (&namer{}).expr(t.Expr.Elem) + ")"
	case model.Slice:
		return "[]" + n.typeName(t.Elem)
	case model.Array:
		return fmt.Sprintf("[%d]%s", t.Len, n.typeName(t.Elem))
	case model.Map:
		return "map[" + n.typeName(t.Key) + "]" + n.typeName(t.Elem)
	case model.Pointer:
		return "*" + n.typeName(t.Elem)
	}
	return n.expr(t.Expr)
}

func (n *namer) expr(x *model.Expr) string {
	switch x.Op {
	case model.SliceOf:
		return "[]" + n.expr(x.Elem)
	case model.ArrayOf:
		return fmt.Sprintf("[%d]%s", x.Len, n.expr(x.Elem))
	case model.MapOf:
		return "map[" + n.expr(x.Key) + "]" + n.expr(x.Elem)
	case model.PointerTo:
		return "*" + n.expr(x.Elem)
	}
	name := x.Name
	if x.Path != "" && n.own[x.Name] != x.Path {
		name = x.Path + "." + name
	}
	if len(x.Args) == 0 {
		return name
	}
	args := make([]string, len(x.Args))
	for i, a := range x.Args {
		args[i] = n.expr(a)
	}
	return name + "[" + strings.Join(args, ",") + "]"
}
