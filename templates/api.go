package templates

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type apiEmitter struct{ *emitter }

func (e apiEmitter) api(n *model.Entity) {
	link := "[" + n.Name + "]"
	if e.isClient() {
		link = n.Name
	}
	itself := strings.Replace(article(n.Name), n.Name, link, 1)
	e.comment("%s has the methods of %s. The entity and its references implement it.", n.API(), itself)
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
	if e.isClient() {
		e.file.Var().Id("_").Id(n.API()).Op("=").Id(n.Ref()).Values()
		return
	}
	e.file.Var().Defs(
		jen.Id("_").Id(n.API()).Op("=").Parens(jen.Op("*").Id(n.Name)).Call(jen.Nil()),
		jen.Id("_").Id(n.API()).Op("=").Id(n.Ref()).Values(),
	)
}

// writtenParams prints parameters with the names in the user's source.
func writtenParams(m *model.Method) []jen.Code {
	params := typed(m.Params, written(m.Params))
	if m.Variadic {
		params[len(params)-1].variadic = true
	}
	return list(append([]parameter{coded(m.Context, contextType())}, params...))
}

// writtenResults prints results as in the user's source.
func writtenResults(m *model.Method) *jen.Statement {
	if m.Error == "" && len(m.Results) == 0 {
		return jen.Error()
	}
	return jen.Params(list(append(typed(m.Results, written(m.Results)), coded(m.Error, jen.Error())))...)
}

func written(params []model.Param) []string {
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	return names
}
