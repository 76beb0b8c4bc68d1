package templates

import (
	"strconv"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type oneofEmitter struct{ *emitter }

// oneofName is what the runtime calls an interface marked //shard:oneof.
func oneofName(t *model.Type) jen.Code { return jen.Lit(t.Expr.Path + "." + t.Expr.Name) }

// refuseNil prints the return for a nil pointer in an interface.
func refuseNil(g *jen.Group, t *model.Type, c *model.Case, failed jen.Code) {
	if c.CanBeNil() {
		g.If(jen.Id("c").Op("==").Nil()).Block(jen.Return(failed, codegen("NoCase").Call(oneofName(t), jen.Id("c"))))
	}
}

// append emits the encoding of an interface value: a message with one field, the case.
func (e oneofEmitter) append(g *jen.Group, t *model.Type) {
	b := jen.Id("b")
	open(g, jen.Id("num"))
	g.Switch(jen.Id("c").Op(":=").Id("v").Assert(jen.Type())).BlockFunc(func(g *jen.Group) {
		g.Case(jen.Nil())
		for i := range t.Cases {
			c := &t.Cases[i]
			g.Case(typ(c.Expr())).BlockFunc(func(g *jen.Group) {
				refuseNil(g, t, c, jen.Id("b"))
				value := jen.Id("c")
				if c.Pointer && c.Type.Shape != model.ByteArray { // slicing goes through the pointer
					value = jen.Op("*").Id("c")
				}
				grow(g, c.Type.Fallible, codecEmitter(e).appendElement(c.Type, b, jen.Lit(c.Number), value, t))
			})
		}
		g.Default().BlockFunc(func(g *jen.Group) {
			grow(g, true, codegen("AppendUnknownCase").Call(b, oneofName(t), jen.Id("v")))
		})
	})
	done(g, t, closed())
}

// read emits the decoding of append's encoding. If the same case comes twice, the values are
// merged.
func (e oneofEmitter) read(g *jen.Group, t *model.Type) {
	enter(g, func() {
		g.For(jen.Id("d").Dot("Next").Call()).Block(jen.Switch(jen.Id("d").Dot("Field").Call()).BlockFunc(func(g *jen.Group) {
			for i := range t.Cases {
				c := &t.Cases[i]
				g.Case(jen.Lit(c.Number)).BlockFunc(func(g *jen.Group) { e.readCase(g, c) })
			}
			g.Default().Block(
				jen.If(jen.List(jen.Id("c"), jen.Id("kept")).Op(":=").Id("d").Dot("UnknownCase").Call(oneofName(t)), jen.Id("kept")).Block(
					jen.Op("*").Id("v").Op("=").Id(t.UnknownType()).Values(jen.Id("kept").Op(":").Id("c")),
				),
			)
		}))
	})
}

func (e oneofEmitter) readCase(g *jen.Group, c *model.Case) {
	g.List(jen.Id("c"), jen.Id("_")).Op(":=").Parens(jen.Op("*").Id("v")).Assert(typ(c.Expr()))
	p := variable("c")
	if c.Pointer {
		p = pointed("c")
		g.If(jen.Id("c").Op("==").Nil()).Block(jen.Id("c").Op("=").New(typ(c.Type.Expr)))
	}
	codecEmitter(e).init(g, c.Type, p)
	g.Add(codecEmitter(e).readElement(c.Type, jen.Id("d"), p))
	g.Op("*").Id("v").Op("=").Id("c")
}

// unknown emits the type for cases that the program does not know.
func (e oneofEmitter) unknown(t *model.Type) jen.Code {
	name := t.UnknownType()
	return jen.Line().Line().Add(
		docLine("%s holds a case of %s that a state has and this program does not know. Its methods panic.", name, e.spelt(t.Expr))).
		Type().Id(name).Struct(typ(t.Expr), jen.Id("kept").Add(codegen("UnknownCase"))).Line().Line().
		Add(docLine("ShardUnknownCase returns the encoded case.")).
		Func().Params(jen.Id("u").Id(name)).Id("ShardUnknownCase").Params().Add(codegen("UnknownCase")).Block(jen.Return(jen.Id("u").Dot("kept")))
}

func (e oneofEmitter) clone(g *jen.Group, t *model.Type) {
	g.Switch(jen.Id("c").Op(":=").Id("v").Assert(jen.Type())).BlockFunc(func(g *jen.Group) {
		g.Case(jen.Nil()).Block(jen.Return(jen.Nil(), jen.Nil()))
		for i := range t.Cases {
			c := &t.Cases[i]
			g.Case(typ(c.Expr())).BlockFunc(func(g *jen.Group) {
				refuseNil(g, t, c, jen.Nil())
				e.cloneCase(g, t, c)
			})
		}
	})
	g.Return(jen.Nil(), codegen("NoCase").Call(oneofName(t), jen.Id("v")))
}

func (e oneofEmitter) cloneCase(g *jen.Group, t *model.Type, c *model.Case) {
	value := jen.Id("c")
	if c.Pointer {
		value = jen.Op("*").Id("c")
	}
	if !c.Pointer && !c.Type.CloneFallible {
		g.Return(cloneEmitter(e).cloneElement(c.Type, value, t), jen.Nil())
		return
	}
	cloneEmitter(e).cloneLocal(g, t, c.Type, "e", value)
	if c.Pointer {
		g.Return(jen.Op("&").Id("e"), jen.Nil())
	} else {
		g.Return(jen.Id("e"), jen.Nil())
	}
}

func (e oneofEmitter) json() {
	if !e.jsonOneofs {
		return
	}
	e.comment("%s returns the cases of interfaces, for JSON.", model.OneofsFunc)
	known := func() *jen.Statement { return jen.Map(jen.Any()).Map(jen.String()).Any() }
	e.file.Func().Id(model.OneofsFunc).Params().Add(known()).Block(jen.Return(known().
		CustomFunc(jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}, func(g *jen.Group) {
			for _, t := range e.pkg.Types {
				if t.Shape != model.Oneof {
					continue
				}
				cases := jen.Dict{}
				for _, c := range t.Cases {
					cases[jen.Lit(c.Name)] = jen.Op("*").New(typ(c.Expr()))
				}
				g.Parens(jen.Op("*").Add(typ(t.Expr))).Call(jen.Nil()).Op(":").Values(cases)
			}
		})))
}

func isOneof(t *model.Type) bool { return t.Shape == model.Oneof }

// holds reports whether t, or any type in t, satisfies the predicate is.
func holds(t *model.Type, is func(*model.Type) bool, seen map[*model.Type]bool) bool {
	if t == nil || seen[t] {
		return false
	}
	seen[t] = true
	if is(t) || holds(t.Key, is, seen) || holds(t.Elem, is, seen) {
		return true
	}
	for _, f := range t.Fields {
		if holds(f.Type, is, seen) {
			return true
		}
	}
	for _, c := range t.Cases {
		if holds(c.Type, is, seen) {
			return true
		}
	}
	return false
}

func caseFields(t *model.Type) []model.Field {
	var list []model.Field
	for _, c := range t.Cases {
		list = append(list, model.Field{Name: strconv.Itoa(c.Number), Number: c.Number, Type: c.Type})
	}
	return list
}
