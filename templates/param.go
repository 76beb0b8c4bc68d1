package templates

import (
	"reflect"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// A parameter is a type with a name, which may be empty.
type parameter struct {
	name     string
	expr     *model.Expr // nil for a parameter made by coded
	code     *jen.Statement
	variadic bool
}

// list prints parameters or results. Neighbours of one type share it, as by hand.
func list(params []parameter) []jen.Code {
	var codes []jen.Code
	for i := 0; i < len(params); {
		p := params[i]
		var names []jen.Code
		for ; i < len(params) && p.sharesType(params[i]); i++ {
			names = append(names, jen.Id(params[i].name))
		}
		if p.name == "" {
			codes = append(codes, p.printed())
		} else {
			codes = append(codes, jen.List(names...).Add(p.printed()))
		}
		if len(names) == 0 {
			i++
		}
	}
	return codes
}

// sharesType reports whether p may be printed without its type before q. p.sharesType(p) reports
// whether p has a name.
func (p parameter) sharesType(q parameter) bool {
	if p.name == "" || q.name == "" || p.variadic != q.variadic {
		return false
	}
	if p.expr == nil || q.expr == nil {
		return p.code == q.code
	}
	return reflect.DeepEqual(p.expr, q.expr)
}

func (p parameter) printed() *jen.Statement {
	switch {
	case p.expr == nil:
		return p.code
	case p.variadic:
		return jen.Op("...").Add(typ(p.expr.Elem))
	}
	return typ(p.expr)
}

func typed(params []model.Param, names []string) []parameter {
	typed := make([]parameter, len(params))
	for i, p := range params {
		typed[i] = parameter{name: names[i], expr: p.Type.Expr}
	}
	return typed
}

// coded is a parameter whose type is the same in all generated code.
func coded(name string, code *jen.Statement) parameter { return parameter{name: name, code: code} }
