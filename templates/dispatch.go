package templates

import (
	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// dispatch emits the functions that run one encoded call each.
func (e *emitter) dispatch(n *model.Entity) {
	for _, m := range n.Methods {
		l := e.messageLocals(m)
		entity, args, out := l.pick("entity"), l.pick("args"), l.pick("out")
		e.comment("%s runs %s on encoded arguments.", n.DispatchFunc(m), e.methodLink(n, m))
		params := []jen.Code{jen.Id(l.ctx).Add(contextType()), jen.Id(entity).Any(), jen.List(jen.Id(args), jen.Id(out)).Index().Byte()}
		if len(m.Params) == 0 {
			params[2] = jen.List(jen.Id("_"), jen.Id(out)).Index().Byte()
		}
		e.file.Func().Id(n.DispatchFunc(m)).Params(params...).Params(jen.Index().Byte(), jen.Error()).BlockFunc(func(g *jen.Group) {
			if len(m.Params) > 0 {
				g.List(append(ids(l.params), jen.Id(l.err))...).Op(":=").Id(n.DecodeArgsFunc(m)).Call(jen.Id(args))
				ifErr(g, l.err, jen.Id(out), wrapped("ArgumentsError", jen.Id(l.err)))
			}
			passed := append([]jen.Code{jen.Id(l.ctx)}, ids(l.params)...)
			if m.Variadic {
				passed[len(passed)-1] = jen.Id(l.params[len(l.params)-1]).Op("...")
			}
			turn := jen.Id(entity).Assert(e.entityType(n)).Dot(m.Name).Call(passed...)
			if len(m.Results) == 0 {
				g.Return(jen.Id(out), turn)
				return
			}
			g.List(append(ids(l.results), jen.Id(l.err))...).Op(":=").Add(turn)
			g.If(jen.Id(l.err).Op("!=").Nil().Op("||").Id(out).Op("==").Nil()).Block(jen.Return(jen.Id(out), jen.Id(l.err)))
			reply := jen.Id(n.AppendReplyFunc(m)).Call(append([]jen.Code{jen.Id(out)}, ids(l.results)...)...)
			if !anyFallible(m.Results) {
				g.Return(reply, jen.Nil())
				return
			}
			g.If(jen.List(jen.Id(out), jen.Id(l.err)).Op("=").Add(reply), jen.Id(l.err).Op("!=").Nil()).
				Block(jen.Return(jen.Id(out), wrapped("ResultsError", jen.Id(l.err))))
			g.Return(jen.Id(out), jen.Nil())
		})
	}
}

func ids(names []string) []jen.Code {
	codes := make([]jen.Code, len(names))
	for i, name := range names {
		codes[i] = jen.Id(name)
	}
	return codes
}
