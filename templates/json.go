package templates

import (
	"strconv"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type jsonEmitter struct{ *emitter }

func (e jsonEmitter) json(n *model.Entity) {
	if !n.JSON {
		return
	}
	e.comment("CallRaw calls a method with arguments in JSON or protobuf, and returns its results in the same format.")
	e.file.Func().Params(jen.Id("c").Op("*").Id(n.ClientType())).Id("CallRaw").
		Params(jen.Id("ctx").Add(contextType()), jen.Id("raw").Add(shard("Raw"))).Params(jen.Index().Byte(), jen.Error()).Block(
		jen.Return(codegen("CallRaw").Call(jen.Id("ctx"), jen.Id("c").Dot("invoker"), jen.Id(n.KindFunc()).Call(), jen.Id("raw"))),
	)
	e.comment("%s returns the functions that convert messages of %s from and to JSON.", n.JSONFunc(), n.Name)
	e.file.Func().Id(n.JSONFunc()).Params(jen.Id("method").String()).Add(codegen("JSONMethod")).Block(
		jen.Switch(jen.Id("method")).BlockFunc(func(g *jen.Group) {
			for _, m := range sortedMethods(n) {
				var list []jen.Code
				if len(m.Params) > 0 {
					list = append(list, field("Args", jen.Id(n.JSONArgsFunc(m))))
				}
				if len(m.Results) > 0 {
					list = append(list, field("Reply", jen.Id(n.JSONReplyFunc(m))))
				}
				if len(list) > 0 {
					g.Case(jen.Lit(m.Wire)).Block(jen.Return(codegen("JSONMethod").Values(list...)))
				}
			}
		}),
		jen.Return(codegen("JSONMethod").Values()),
	)
	for _, m := range n.Methods {
		if len(m.Params) > 0 {
			e.jsonArgs(n, m)
		}
		if len(m.Results) > 0 {
			e.jsonReply(n, m)
		}
	}
}

func (e jsonEmitter) jsonArgs(n *model.Entity, m *model.Method) {
	l := e.messageLocals(m)
	b, text := l.pick("b"), l.pick("text")
	e.file.Line()
	e.file.Func().Id(n.JSONArgsFunc(m)).Params(jen.List(jen.Id(b), jen.Id(text)).Index().Byte()).Params(jen.Index().Byte(), jen.Error()).BlockFunc(func(g *jen.Group) {
		for i, p := range m.Params {
			g.Var().Id(l.params[i]).Add(typ(p.Type.Expr))
			codecEmitter(e).init(g, p.Type, variable(l.params[i]))
		}
		read := codegen("ReadJSON").Call(append([]jen.Code{jen.Id(text)}, jsonFields(e.emitter, m.Params, l.params, "arg")...)...)
		g.If(jen.Id(l.err).Op(":=").Add(read), jen.Id(l.err).Op("!=").Nil()).Block(jen.Return(jen.Nil(), jen.Id(l.err)))
		encoded := jen.Id(n.AppendArgsFunc(m)).Call(append([]jen.Code{jen.Id(b)}, ids(l.params)...)...)
		if len(m.Params) == 1 {
			encoded = codecEmitter(e).appendField(m.Params[0].Type, jen.Id(b), m.Params[0].Number, jen.Id(l.params[0]), nil)
		}
		if m.ArgsFallible() {
			g.Return(encoded)
		} else {
			g.Return(encoded, jen.Nil())
		}
	})
}

func (e jsonEmitter) jsonReply(n *model.Entity, m *model.Method) {
	l := e.messageLocals(m)
	d := l.pick("d")
	e.file.Line()
	e.file.Func().Id(n.JSONReplyFunc(m)).Params(jen.Id(d).Add(codegen("Decoder"))).Params(jen.Index().Byte(), jen.Error()).BlockFunc(func(g *jen.Group) {
		g.List(append(ids(l.results), jen.Id(l.err))...).Op(":=").Id(n.DecodeReplyFunc(m)).Call(jen.Id(d))
		ifErr(g, l.err, jen.Nil(), jen.Id(l.err))
		g.Return(codegen("WriteJSON").Call(jsonFields(e.emitter, m.Results, l.results, "result")...))
	})
}

// jsonFields names parameters in JSON. A parameter without a name in the user's source is named by
// role and position.
func jsonFields(e *emitter, params []model.Param, locals []string, role string) []jen.Code {
	var list []jen.Code
	for i, p := range params {
		name := p.Name
		if name == "" || name == "_" {
			name = role + strconv.Itoa(i+1)
		}
		value := jen.Op("&").Id(locals[i])
		if p.Type.Shape == model.Proto {
			value = codegen("JSONProto").Call(value)
		}
		if holds(p.Type, isOneof, make(map[*model.Type]bool)) {
			e.jsonOneofs = true
			value = codegen("JSONOneof").Call(value, jen.Id(model.OneofsFunc).Call())
		}
		list = append(list, codegen("JSONField").Values(field("Name", jen.Lit(name)), field("Value", value)))
	}
	return list
}
