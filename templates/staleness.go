package templates

import (
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type stalenessEmitter struct{ *emitter }

// staleness emits declarations that do not compile after a field is added, until the next
// generation.
func (e stalenessEmitter) staleness() {
	var lines []jen.Code
	if !e.isClient() {
		for _, n := range e.pkg.Entities {
			if len(n.Own) > 0 {
				lines = append(lines, e.allFields(n))
			}
		}
	}
	for _, t := range e.pkg.Types {
		if len(t.Own) == 0 || !e.asked(t) {
			continue
		}
		var values []jen.Code
		for _, name := range t.Own {
			values = append(values, jen.Id("v").Dot(name))
		}
		lines = append(lines, jen.Id("_").Op("=").Func().Params(jen.Id("v").Add(typ(t.Expr))).Add(typ(t.Expr)).
			Add(oneLine(jen.Return(typ(t.Expr).Values(values...)))))
	}
	if len(lines) == 0 {
		return
	}
	e.comment("Fails to compile if a struct has got another field: run go generate.")
	if len(lines) == 1 {
		e.file.Var().Add(lines[0])
	} else {
		e.file.Var().Defs(lines...)
	}
}

func (e stalenessEmitter) asked(t *model.Type) bool {
	return slices.ContainsFunc([]what{appendFunc, readFunc, cloneFunc}, func(w what) bool { return e.functions[function{t, w}] != nil })
}

// allFields returns code that makes an entity from the values of all its fields, without field
// names. If somebody adds a field to the entity, this code no longer compiles. Locks are zero
// values, because they must not be copied.
func (e stalenessEmitter) allFields(n *model.Entity) jen.Code {
	var values []jen.Code
	for _, f := range n.Own {
		if f.Lock != nil {
			values = append(values, typ(f.Lock).Values())
		} else {
			values = append(values, jen.Id("e").Dot(f.Name))
		}
	}
	return jen.Id("_").Op("=").Func().Params(jen.Id("e").Op("*").Id(n.Name)).Op("*").Id(n.Name).
		Add(oneLine(jen.Return(jen.Op("&").Id(n.Name).Values(values...))))
}
