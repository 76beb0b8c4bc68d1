package contract

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// Of returns the contract of a package as its source is now, without numbers.
// [Contract.Adopt] writes the numbers back into the model.
func Of(pkg *model.Package) *Contract {
	c := &Contract{}
	for _, e := range pkg.Entities {
		c.Kinds = append(c.Kinds, kindOf(pkg, e))
	}
	for _, t := range pkg.Types {
		if isNamedCircle(t) {
			c.Messages = append(c.Messages, &Message{Name: exprName(pkg.Path, t.Expr), Is: unnamed(pkg, t)})
		}
		if t.Shape != model.Struct {
			continue
		}
		m := &Message{Name: TypeName(pkg, t)}
		for i := range t.Fields {
			f := &t.Fields[i]
			m.Fields = append(m.Fields, &Field{Name: f.Name, Type: TypeName(pkg, f.Type), set: &f.Number})
		}
		c.Messages = append(c.Messages, m)
	}
	for _, e := range pkg.Errors {
		x := &Error{Name: e.Name, Wire: e.Name, set: &e.Wire}
		if e.Type != nil {
			x.Type = TypeName(pkg, e.Type)
		}
		c.Errors = append(c.Errors, x)
	}
	return c
}

var idForms = map[model.IDForm]string{
	model.IDString: "string", model.IDInt: "int", model.IDUint: "uint", model.IDText: "text",
}

func kindOf(pkg *model.Package, e *model.Entity) *Kind {
	k := &Kind{Name: e.Kind, ID: idForms[e.ID.Form], Hash: "xxh64", Shards: e.Shards, Singleton: e.Singleton}
	if e.Hash != nil {
		k.Hash = e.Hash.Name
	}
	if e.Singleton {
		k.ID = ""
	}
	for i := range e.State {
		f := &e.State[i]
		k.State = append(k.State, &Field{Name: f.Name, Type: TypeName(pkg, f.Type), set: &f.Number})
	}
	for _, m := range e.Methods {
		k.Methods = append(k.Methods, &Method{
			Name: m.Name, Wire: m.Name, Tell: m.OneWay, set: &m.Wire,
			Args: paramsOf(pkg, m.Params, "arg"), Results: paramsOf(pkg, m.Results, "result"),
		})
	}
	return k
}

func paramsOf(pkg *model.Package, params []model.Param, role string) []*Field {
	var fields []*Field
	for i := range params {
		p := &params[i]
		f := &Field{Name: p.Name, Type: TypeName(pkg, p.Type), set: &p.Number}
		if p.Name == "" || p.Name == "_" {
			f.Name, f.Unnamed = role+strconv.Itoa(i+1), true
		}
		fields = append(fields, f)
	}
	return fields
}

// TypeName is how a contract writes a type: what it is on the wire, as Go writes
// such a type. Names of types that cross as something else do not show.
//
//	bool int8 … uint64 float32 float64 string
//	bytes [16]byte time text binary proto(example.com/pb.Order)
//	[]T [3]T map[K]V *T Line example.com/other.Line Page[Line]
func TypeName(pkg *model.Package, t *model.Type) string {
	if isNamedCircle(t) {
		return exprName(pkg.Path, t.Expr)
	}
	return unnamed(pkg, t)
}

// isNamedCircle reports whether a type holds itself and is no struct: it could
// not be written without its name.
func isNamedCircle(t *model.Type) bool {
	return t.Recursive && t.Shape != model.Struct && t.Expr.Op == model.Named
}

// unnamed writes a type by what it is made of.
func unnamed(pkg *model.Package, t *model.Type) string {
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
		return "text"
	case model.Binary:
		return "binary"
	case model.Proto:
		return "proto(" + exprName("", t.Expr.Elem) + ")"
	case model.Slice:
		return "[]" + TypeName(pkg, t.Elem)
	case model.Array:
		return fmt.Sprintf("[%d]%s", t.Len, TypeName(pkg, t.Elem))
	case model.Map:
		return "map[" + TypeName(pkg, t.Key) + "]" + TypeName(pkg, t.Elem)
	case model.Pointer:
		return "*" + TypeName(pkg, t.Elem)
	}
	return exprName(pkg.Path, t.Expr)
}

// exprName writes a Go type with full import paths, but for the package's own.
func exprName(own string, x *model.Expr) string {
	switch x.Op {
	case model.SliceOf:
		return "[]" + exprName(own, x.Elem)
	case model.ArrayOf:
		return fmt.Sprintf("[%d]%s", x.Len, exprName(own, x.Elem))
	case model.MapOf:
		return "map[" + exprName(own, x.Key) + "]" + exprName(own, x.Elem)
	case model.PointerTo:
		return "*" + exprName(own, x.Elem)
	}
	name := x.Name
	if x.Path != "" && x.Path != own {
		name = x.Path + "." + name
	}
	if len(x.Args) == 0 {
		return name
	}
	args := make([]string, len(x.Args))
	for i, a := range x.Args {
		args[i] = exprName(own, a)
	}
	return name + "[" + strings.Join(args, ",") + "]"
}
