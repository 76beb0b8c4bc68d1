package templates

import (
	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// state emits the glue that moves the fields tagged state.
func (e *emitter) state(n *model.Entity) {
	if len(n.State) == 0 {
		return
	}
	what := "state of " + n.Name
	fallible := false
	for _, f := range n.State {
		fallible = fallible || f.Type.Fallible
	}
	self := func() *jen.Statement { return jen.Id("entity").Assert(jen.Op("*").Id(n.Name)) }

	comment := "%s encodes the fields tagged state."
	if fallible {
		comment += " It fails with a [*codegen.EncodeError] when one refuses to be encoded."
	}
	e.comment(comment, n.AppendStateFunc())
	e.file.Func().Id(n.AppendStateFunc()).Params(jen.Id("b").Index().Byte(), jen.Id("entity").Any()).Params(jen.Index().Byte(), jen.Error()).BlockFunc(func(g *jen.Group) {
		g.Id("e").Op(":=").Add(self())
		if f := n.State[0]; len(n.State) == 1 && !fallible {
			g.Return(e.appendField(f.Type, jen.Id("b"), f.Number, jen.Id("e").Dot(f.Name), nil), jen.Nil())
			return
		}
		if fallible {
			g.Var().Err().Error()
		}
		for _, f := range n.State {
			encoded := e.appendField(f.Type, jen.Id("b"), f.Number, jen.Id("e").Dot(f.Name), nil)
			if !f.Type.Fallible {
				g.Id("b").Op("=").Add(encoded)
				continue
			}
			g.If(jen.List(jen.Id("b"), jen.Err()).Op("=").Add(encoded), jen.Err().Op("!=").Nil()).Block(
				jen.Return(jen.Nil(), encodeErrorOf(what, "err")),
			)
		}
		g.Return(jen.Id("b"), jen.Nil())
	})

	e.comment("%s decodes what %s encoded, and reports whether it skipped fields. A field that is absent becomes zero, whatever the factory set it to.", n.DecodeStateFunc(), n.AppendStateFunc())
	e.file.Func().Id(n.DecodeStateFunc()).Params(jen.Id("entity").Any(), jen.Id("b").Index().Byte()).Params(jen.Id("skipped").Bool(), jen.Err().Error()).BlockFunc(func(g *jen.Group) {
		g.Id("e").Op(":=").Add(self())
		var places []place
		var numbers []int
		var types []*model.Type
		for _, f := range n.State {
			p := selected("e", f.Name)
			g.Add(p.value).Op("=").Add(zero(f.Type.Zero, f.Type.Expr))
			e.init(g, f.Type, p)
			places, numbers, types = append(places, p), append(numbers, f.Number), append(types, f.Type)
		}
		g.Id("d").Op(":=").Add(codegen("NewDecoder")).Call(jen.Id("b"))
		e.readFields(g, jen.Id("d"), jen.Op("&").Id("d"), numbers, types, places)
		g.Return(jen.Id("d").Dot("Skipped").Call(), jen.Id("d").Dot("Err").Call(jen.Lit(what)))
	})
	e.knownState(n)
}
