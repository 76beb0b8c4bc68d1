package templates

import (
	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// api emits the interface that the entity and its references satisfy.
func (e *emitter) api(n *model.Entity) {
	e.comment("%s is what a [%s] answers: the entity itself, and a reference to one wherever it lives.", n.API(), n.Name)
	e.file.Type().Id(n.API()).InterfaceFunc(func(g *jen.Group) {
		for i, m := range n.Methods {
			if i > 0 && len(m.Doc) > 0 {
				g.Line()
			}
			for _, line := range m.Doc {
				g.Comment(line)
			}
			g.Id(m.Name).Params(writtenParams(m)...).Add(writtenResults(m))
		}
	})
	e.file.Line()
	e.file.Var().Defs(
		jen.Id("_").Id(n.API()).Op("=").Parens(jen.Op("*").Id(n.Name)).Call(jen.Nil()),
		jen.Id("_").Id(n.API()).Op("=").Id(n.Ref()).Values(),
	)
}

// writtenParams prints the parameters with the user's own names.
func writtenParams(m *model.Method) []jen.Code {
	named := func(name string, t *jen.Statement) jen.Code {
		if name == "" {
			return t
		}
		return jen.Id(name).Add(t)
	}
	params := []jen.Code{named(m.Context, contextType())}
	for i, p := range m.Params {
		params = append(params, named(p.Name, paramType(m, i)))
	}
	return params
}

// writtenResults prints the results as the user wrote them, in parentheses when
// there are several or they have names.
func writtenResults(m *model.Method) *jen.Statement {
	if m.Error == "" && len(m.Results) == 0 {
		return jen.Error()
	}
	var results []jen.Code
	for _, r := range m.Results {
		if m.Error == "" {
			results = append(results, typ(r.Type.Expr))
		} else {
			results = append(results, jen.Id(r.Name).Add(typ(r.Type.Expr)))
		}
	}
	if m.Error == "" {
		results = append(results, jen.Error())
	} else {
		results = append(results, jen.Id(m.Error).Error())
	}
	return jen.Params(results...)
}

// paramType prints the type of a parameter, a variadic one with its dots.
func paramType(m *model.Method, i int) *jen.Statement {
	x := m.Params[i].Type.Expr
	if m.Variadic && i == len(m.Params)-1 {
		return jen.Op("...").Add(typ(x.Elem))
	}
	return typ(x)
}
