package templates

import (
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type dispatchEmitter struct{ *emitter }

// dispatch emits, for each method with parameters or results, a function that runs an encoded call.
func (e dispatchEmitter) dispatch(n *model.Entity) {
	if slices.ContainsFunc(n.Methods, (*model.Method).HasDispatch) {
		e.comment("The functions %s… run methods of %s on encoded arguments.", n.DispatchFunc(&model.Method{}), n.Name)
		e.file.Line()
	}
	for _, m := range n.Methods {
		if m.HasDispatch() {
			e.dispatchMethod(n, m)
		}
	}
}

func (e dispatchEmitter) dispatchMethod(n *model.Entity, m *model.Method) {
	l := e.messageLocals(m)
	entity, args, out := l.pick("entity"), l.pick("args"), l.pick("out")
	if len(m.Params) == 0 {
		args = "_"
	}
	e.file.Line()
	e.file.Func().Id(n.DispatchFunc(m)).Params(
		jen.Id(l.ctx).Add(contextType()), jen.Id(entity).Any(), jen.List(jen.Id(args), jen.Id(out)).Index().Byte(),
	).Params(jen.Index().Byte(), jen.Error()).BlockFunc(func(g *jen.Group) {
		if len(m.Params) > 0 {
			e.decodedArgs(g, l, m, args, out)
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
		e.encodedResults(g, l, m, out)
	})
}

func (e dispatchEmitter) decodedArgs(g *jen.Group, l *locals, m *model.Method, args, out string) {
	d := l.pick("d")
	variables := typed(m.Params, l.params)
	for i := 0; i < len(variables); { // neighbours of one type share a line
		j := i + 1
		for j < len(variables) && variables[i].sharesType(variables[j]) {
			j++
		}
		g.Var().Add(list(variables[i:j])[0])
		i = j
	}
	var places []place
	for i, p := range m.Params {
		places = append(places, variable(l.params[i]))
		codecEmitter(e).init(g, p.Type, places[i])
	}
	g.Id(d).Op(":=").Add(codegen("NewDecoder")).Call(jen.Id(args))
	messageEmitter(e).readFields(g, jen.Id(d), jen.Op("&").Id(d), numbers(m.Params), types(m.Params), places, nil)
	g.If(jen.Id(l.err).Op(":=").Id(d).Dot("Arguments").Call(), jen.Id(l.err).Op("!=").Nil()).Block(jen.Return(jen.Id(out), jen.Id(l.err)))
}

func (e dispatchEmitter) encodedResults(g *jen.Group, l *locals, m *model.Method, out string) {
	places := byNumber(m.Results)
	for i, place := range places {
		r := m.Results[place]
		encoded := codecEmitter(e).appendField(r.Type, jen.Id(out), r.Number, jen.Id(l.results[place]), nil)
		last := i == len(places)-1
		switch {
		case !r.Type.Fallible && last:
			g.Return(encoded, jen.Nil())
		case !r.Type.Fallible:
			g.Id(out).Op("=").Add(encoded)
		case last:
			g.List(jen.Id(out), jen.Id(l.err)).Op("=").Add(encoded)
			g.Return(jen.Id(out), bad("Results", l.err))
		default:
			g.If(jen.List(jen.Id(out), jen.Id(l.err)).Op("=").Add(encoded), jen.Id(l.err).Op("!=").Nil()).
				Block(jen.Return(jen.Id(out), bad("Results", l.err)))
		}
	}
}

func ids(names []string) []jen.Code {
	codes := make([]jen.Code, len(names))
	for i, name := range names {
		codes[i] = jen.Id(name)
	}
	return codes
}
