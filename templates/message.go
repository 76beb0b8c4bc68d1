package templates

import (
	"cmp"
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type messageEmitter struct{ *emitter }

// messages emits encoders that several functions need, and decoders of results.
func (e messageEmitter) messages(n *model.Entity) {
	for _, m := range n.Methods {
		if n.HasAppendArgs(m) {
			e.appendArgs(n, m)
		}
		if len(m.Results) > 0 {
			e.decodeReply(n, m)
		}
	}
}

func (e messageEmitter) appendArgs(n *model.Entity, m *model.Method) {
	l := e.messageLocals(m)
	b, fallible := l.pick("b"), m.ArgsFallible()
	result := jen.Index().Byte()
	if fallible {
		result = jen.Params(jen.Id("_").Index().Byte(), jen.Id(l.err).Error())
	}
	e.file.Line()
	e.file.Func().Id(n.AppendArgsFunc(m)).Params(list(append([]parameter{coded(b, jen.Index().Byte())}, typed(m.Params, l.params)...))...).Add(result).BlockFunc(func(g *jen.Group) {
		places := byNumber(m.Params)
		for i, place := range places {
			p := m.Params[place]
			encoded := codecEmitter(e).appendField(p.Type, jen.Id(b), p.Number, jen.Id(l.params[place]), nil)
			last := i == len(places)-1
			switch {
			case p.Type.Fallible && last:
				g.Return(encoded)
			case p.Type.Fallible:
				g.If(jen.List(jen.Id(b), jen.Id(l.err)).Op("=").Add(encoded), jen.Id(l.err).Op("!=").Nil()).
					Block(jen.Return(jen.Id(b), jen.Id(l.err)))
			case last && fallible:
				g.Return(encoded, jen.Nil())
			case last:
				g.Return(encoded)
			default:
				g.Id(b).Op("=").Add(encoded)
			}
		}
	})
}

// byNumber returns params' indexes, in protobuf's order of fields.
func byNumber(params []model.Param) []int {
	places := make([]int, len(params))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(params[a].Number, params[b].Number) })
	return places
}

func (e messageEmitter) decodeReply(n *model.Entity, m *model.Method) {
	l := e.messageLocals(m)
	d := l.pick("d")
	results := list(append(typed(m.Results, l.results), coded(l.err, jen.Error())))
	e.file.Line()
	e.file.Func().Id(n.DecodeReplyFunc(m)).Params(jen.Id(d).Add(codegen("Decoder"))).Params(results...).BlockFunc(func(g *jen.Group) {
		if slices.ContainsFunc(m.Results, func(r model.Param) bool { return r.Type.NeedsInit }) {
			// If the call failed, return before making a value, which would be returned beside the
			// error.
			g.If(jen.Id(l.err).Op("=").Id(d).Dot("Results").Call(), jen.Id(l.err).Op("!=").Nil()).Block(jen.Return(l.withErr()...))
		}
		var places []place
		for i, r := range m.Results {
			places = append(places, variable(l.results[i]))
			codecEmitter(e).init(g, r.Type, places[i])
		}
		e.readFields(g, jen.Id(d), jen.Op("&").Id(d), numbers(m.Results), types(m.Results), places, nil)
		g.Return(append(l.values(), jen.Id(d).Dot("Results").Call())...)
	})
}

// readFields emits the loop over a message's fields. Retired numbers are skipped as known.
func (e messageEmitter) readFields(g *jen.Group, d, pointer *jen.Statement, numbers []int, types []*model.Type, places []place, retired []int) {
	switch {
	case len(types)+len(retired) == 0:
		g.For(d.Clone().Dot("Next").Call()).Block(jen.Comment("There are no known fields."))
	case len(types) == 1 && len(retired) == 0:
		g.For(d.Clone().Dot("Next").Call()).Block(
			jen.If(d.Clone().Dot("Field").Call().Op("==").Lit(numbers[0])).Block(codecEmitter(e).readField(types[0], pointer, places[0])),
		)
	default:
		g.For(d.Clone().Dot("Next").Call()).Block(
			jen.Switch(d.Clone().Dot("Field").Call()).BlockFunc(func(g *jen.Group) {
				for i, t := range types {
					g.Case(jen.Lit(numbers[i])).Block(codecEmitter(e).readField(t, pointer, places[i]))
				}
				if len(retired) > 0 {
					g.CaseFunc(func(g *jen.Group) {
						for _, number := range retired {
							g.Lit(number)
						}
					}).Block(d.Clone().Dot("Retired").Call())
				}
			}),
		)
	}
}

func types(params []model.Param) []*model.Type {
	list := make([]*model.Type, len(params))
	for i, p := range params {
		list[i] = p.Type
	}
	return list
}

func numbers(params []model.Param) []int {
	list := make([]int, len(params))
	for i, p := range params {
		list[i] = p.Number
	}
	return list
}
