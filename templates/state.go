package templates

import (
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type stateEmitter struct{ *emitter }

func (e stateEmitter) state(n *model.Entity) {
	if len(n.State) == 0 {
		return
	}
	what := "state of " + n.Name
	fallible := false
	for _, f := range n.State {
		fallible = fallible || f.Type.Fallible
	}
	self := func() *jen.Statement { return jen.Id("entity").Assert(jen.Op("*").Id(n.Name)) }

	comment := "%s appends the encoded fields tagged state to b."
	if fallible {
		comment += " It fails with a [*codegen.EncodeError] if a field cannot be encoded."
	}
	e.comment(comment, n.AppendStateFunc())
	e.file.Func().Id(n.AppendStateFunc()).Params(jen.Id("b").Index().Byte(), jen.Id("entity").Any()).Params(jen.Index().Byte(), jen.Error()).BlockFunc(func(g *jen.Group) {
		g.Id("e").Op(":=").Add(self())
		formed := formedFields(n)
		if len(formed) > 0 {
			g.Id("at").Op(":=").Len(jen.Id("b"))
		}
		if f := n.State[0]; len(n.State) == 1 && !fallible {
			g.Return(codecEmitter(e).appendField(f.Type, jen.Id("b"), f.Number, jen.Id("e").Dot(f.Name), nil), jen.Nil())
			return
		}
		if fallible {
			g.Var().Err().Error()
		}
		for _, f := range n.State {
			encoded := codecEmitter(e).appendField(f.Type, jen.Id("b"), f.Number, jen.Id("e").Dot(f.Name), nil)
			if !f.Type.Fallible {
				g.Id("b").Op("=").Add(encoded)
				continue
			}
			g.If(jen.List(jen.Id("b"), jen.Err()).Op("=").Add(encoded), jen.Err().Op("!=").Nil()).Block(
				jen.Return(jen.Nil(), encodeErrorOf(what, "err")),
			)
		}
		if len(formed) == 0 {
			g.Return(jen.Id("b"), jen.Nil())
			return
		}
		readBack(e.emitter, g, n, formed)
		g.Return(jen.Id("b"), jen.Id("d").Dot("ReadBack").Call(jen.Lit(what)))
	})

	e.comment("%s decodes the output of %s, and reports whether it skipped fields. It sets an absent field to zero, even if the factory set it.", n.DecodeStateFunc(), n.AppendStateFunc())
	e.file.Func().Id(n.DecodeStateFunc()).Params(jen.Id("entity").Any(), jen.Id("b").Index().Byte()).Params(jen.Id("skipped").Bool(), jen.Err().Error()).BlockFunc(func(g *jen.Group) {
		g.Id("e").Op(":=").Add(self())
		var places []place
		var numbers []int
		var types []*model.Type
		for _, f := range n.State {
			p := selected("e", f.Name)
			g.Add(p.value).Op("=").Add(zero(f.Type.Zero, f.Type.Expr))
			codecEmitter(e).init(g, f.Type, p)
			places, numbers, types = append(places, p), append(numbers, f.Number), append(types, f.Type)
		}
		g.Id("d").Op(":=").Add(codegen(decoderOf(n))).Call(jen.Id("b"))
		messageEmitter(e).readFields(g, jen.Id("d"), jen.Op("&").Id("d"), numbers, types, places, nil)
		g.Return(jen.Id("d").Dot("Skipped").Call(), jen.Id("d").Dot("Err").Call(jen.Lit(what)))
	})
	e.knownState(n)
	if len(n.Indexes()) > 0 {
		e.indexes(n)
	}
}

func (e stateEmitter) indexes(n *model.Entity) {
	e.comment("%s appends the keys of the fields tagged index to b.", n.AppendIndexesFunc())
	e.file.Func().Id(n.AppendIndexesFunc()).Params(jen.Id("b").Index().Byte(), jen.Id("entity").Any()).Index().Byte().BlockFunc(func(g *jen.Group) {
		g.Id("e").Op(":=").Id("entity").Assert(jen.Op("*").Id(n.Name))
		all := n.Indexes()
		for _, f := range all[:len(all)-1] {
			g.Id("b").Op("=").Add(appendIndex(f, jen.Id("b"), jen.Id("e").Dot(f.Name)))
		}
		f := all[len(all)-1]
		g.Return(appendIndex(f, jen.Id("b"), jen.Id("e").Dot(f.Name)))
	})
}

// readBack prints the decoding of the value just encoded, but only for fields that may have their
// own encodings.
func readBack(e *emitter, g *jen.Group, n *model.Entity, formed []model.Field) {
	g.Comment("A custom encoding may write values that it cannot read: fail now, not at the next activation.")
	g.Id("d").Op(":=").Add(codegen(decoderOf(n))).Call(jen.Id("b").Index(jen.Id("at").Op(":")))
	g.For(jen.Id("d").Dot("Next").Call()).Block(jen.Switch(jen.Id("d").Dot("Field").Call()).BlockFunc(func(g *jen.Group) {
		for _, f := range formed {
			g.Case(jen.Lit(f.Number)).BlockFunc(func(g *jen.Group) {
				g.Var().Id("again").Add(typ(f.Type.Expr)) // each field by itself, so that an absent one costs nothing
				codecEmitter{e}.init(g, f.Type, variable("again"))
				g.Add(codecEmitter{e}.readField(f.Type, jen.Op("&").Id("d"), variable("again")))
			})
		}
	}))
}

// formedFields returns the state fields that may hold types with their own encodings.
func formedFields(n *model.Entity) (list []model.Field) {
	formed := func(t *model.Type) bool {
		return !t.Plain && (t.Shape == model.Text || t.Shape == model.Binary || t.Shape == model.Gob)
	}
	for _, f := range n.State {
		if holds(f.Type, formed, make(map[*model.Type]bool)) {
			list = append(list, f)
		}
	}
	return list
}

// decoderOf names the decoder's constructor. The decoder keeps unknown cases, if there may be any.
func decoderOf(n *model.Entity) string {
	for _, f := range n.State {
		if holds(f.Type, isOneof, make(map[*model.Type]bool)) {
			return "NewStateDecoder"
		}
	}
	return "NewDecoder"
}

func (e stateEmitter) knownState(n *model.Entity) {
	e.comment("%s reports whether this program knows field num of the state. Unknown fields are kept.", n.StateFieldsFunc())
	e.file.Add(e.knownFields(n.StateFieldsFunc(), n.State, false))
}

func (e stateEmitter) knownType(t *model.Type) jen.Code {
	if t.Shape == model.Oneof {
		return e.knownFields(t.KnownFunc(), caseFields(t), true)
	}
	return e.knownFields(t.KnownFunc(), t.Fields, false)
}

// knownFields emits a [codegen.Fields] function, which returns rest for numbers that are not in
// list.
func (e stateEmitter) knownFields(function string, list []model.Field, rest bool) jen.Code {
	num := jen.Id("num")
	if len(list) == 0 {
		num = jen.Id("_")
	}
	return jen.Func().Id(function).Params(num.Int()).Params(jen.Bool(), codegen("Fields")).BlockFunc(func(g *jen.Group) {
		var inside []*model.Type // in the order of their first fields; nil for fields without
		numbers := make(map[*model.Type][]jen.Code)
		for _, f := range list {
			m := f.Type.Message()
			if numbers[m] == nil {
				inside = append(inside, m)
			}
			numbers[m] = append(numbers[m], jen.Lit(f.Number))
		}
		if len(inside) == 1 && inside[0] == nil && !rest {
			g.Return(isOneOf(list), jen.Nil())
			return
		}
		if len(list) > 0 {
			g.Switch(jen.Id("num")).BlockFunc(func(g *jen.Group) {
				for _, m := range inside {
					fields := jen.Nil()
					if m != nil {
						fields = codecEmitter(e).want(m, knownFunc)
					}
					g.Case(numbers[m]...).Block(jen.Return(jen.True(), fields))
				}
			})
		}
		g.Return(jen.Lit(rest), jen.Nil())
	})
}

func isOneOf(list []model.Field) *jen.Statement {
	var numbers []int
	for _, f := range list {
		numbers = append(numbers, f.Number)
	}
	slices.Sort(numbers)
	first, last := numbers[0], numbers[len(numbers)-1]
	if len(numbers) > 2 && last-first == len(numbers)-1 {
		return jen.Lit(first).Op("<=").Id("num").Op("&&").Id("num").Op("<=").Lit(last)
	}
	is := jen.Id("num").Op("==").Lit(first)
	for _, n := range numbers[1:] {
		is = is.Op("||").Id("num").Op("==").Lit(n)
	}
	return is
}
