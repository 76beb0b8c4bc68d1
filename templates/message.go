package templates

import (
	"cmp"
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// messages emits the codecs of each message's arguments and results.
func (e *emitter) messages(n *model.Entity) {
	for _, m := range n.Methods {
		l := e.messageLocals(m)
		if len(m.Params) > 0 {
			e.appendList(n.AppendArgsFunc(m), subject("arguments", n, m), l, m.Params, l.params)
			e.decodeList(n.DecodeArgsFunc(m), subject("arguments", n, m), l, m.Params, l.params)
		}
		if len(m.Results) > 0 {
			e.appendList(n.AppendReplyFunc(m), subject("results", n, m), l, m.Results, l.results)
			e.decodeList(n.DecodeReplyFunc(m), subject("results", n, m), l, m.Results, l.results)
		}
	}
}

// appendList emits the encoder of parameters, numbered from 1 in their order.
func (e *emitter) appendList(function, what string, l *locals, params []model.Param, names []string) {
	s := e.newScope()
	for _, name := range names {
		s.taken[name] = true
	}
	b, err := s.pick("b"), s.pick(l.err)
	fallible := anyFallible(params)
	result := jen.Index().Byte()
	if fallible {
		result = jen.Params(jen.Id("_").Index().Byte(), jen.Id(err).Error())
	}
	e.comment("%s encodes the %s.", function, what)
	e.file.Func().Id(function).Params(list(append([]parameter{coded(b, jen.Index().Byte())}, typed(params, names)...))...).Add(result).BlockFunc(func(g *jen.Group) {
		if len(params) == 1 && !fallible {
			g.Return(e.appendField(params[0].Type, jen.Id(b), params[0].Number, jen.Id(names[0]), nil))
			return
		}
		for _, i := range byNumber(params) {
			p := params[i]
			encoded := e.appendField(p.Type, jen.Id(b), p.Number, jen.Id(names[i]), nil)
			if p.Type.Fallible {
				failed := encodeErrorOf(what, err)
				g.If(jen.List(jen.Id(b), jen.Id(err)).Op("=").Add(encoded), jen.Id(err).Op("!=").Nil()).
					Block(jen.Return(jen.Id(b), failed))
			} else {
				g.Id(b).Op("=").Add(encoded)
			}
		}
		if fallible {
			g.Return(jen.Id(b), jen.Nil())
		} else {
			g.Return(jen.Id(b))
		}
	})
}

// byNumber returns the places of parameters in the order of their numbers, in
// which protobuf writes fields.
func byNumber(params []model.Param) []int {
	places := make([]int, len(params))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(params[a].Number, params[b].Number) })
	return places
}

// decodeList emits the decoder of parameters.
func (e *emitter) decodeList(function, what string, l *locals, params []model.Param, names []string) {
	s := e.newScope()
	for _, name := range names {
		s.taken[name] = true
	}
	b, d, err := s.pick("b"), s.pick("d"), s.pick(l.err)
	results := list(append(typed(params, names), coded(err, jen.Error())))
	e.comment("%s decodes the %s.", function, what)
	e.file.Func().Id(function).Params(jen.Id(b).Index().Byte()).Params(results...).BlockFunc(func(g *jen.Group) {
		var places []place
		var numbers []int
		for i, p := range params {
			places = append(places, variable(names[i]))
			numbers = append(numbers, p.Number)
			e.init(g, p.Type, places[i])
		}
		g.Id(d).Op(":=").Add(codegen("NewDecoder")).Call(jen.Id(b))
		e.readFields(g, jen.Id(d), jen.Op("&").Id(d), numbers, types(params), places)
		g.Return(append(ids(names), jen.Id(d).Dot("Err").Call(jen.Lit(what)))...)
	})
}

// readFields emits the loop over the fields of one message.
func (e *emitter) readFields(g *jen.Group, d, pointer *jen.Statement, numbers []int, types []*model.Type, places []place) {
	switch len(types) {
	case 0:
		g.For(d.Clone().Dot("Next").Call()).Block(jen.Comment("Nothing is known here: skip it."))
	case 1:
		g.For(d.Clone().Dot("Next").Call()).Block(
			jen.If(d.Clone().Dot("Field").Call().Op("==").Lit(numbers[0])).Block(e.readField(types[0], pointer, places[0])),
		)
	default:
		g.For(d.Clone().Dot("Next").Call()).Block(
			jen.Switch(d.Clone().Dot("Field").Call()).BlockFunc(func(g *jen.Group) {
				for i, t := range types {
					g.Case(jen.Lit(numbers[i])).Block(e.readField(t, pointer, places[i]))
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
