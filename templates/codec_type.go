package templates

import (
	"fmt"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

func docLine(format string, args ...any) *jen.Statement {
	s := jen.Null()
	for _, line := range wrap(fmt.Sprintf(format, args...)) {
		s.Comment(line).Line()
	}
	return s
}

func decoderParam() jen.Code { return jen.Id("d").Op("*").Add(codegen("Decoder")) }

func appendSignature(name string, t *model.Type) *jen.Statement {
	params := []jen.Code{jen.Id("b").Index().Byte(), jen.Id("num").Int(), jen.Id("v").Add(typ(t.Expr))}
	if t.Recursive {
		params = append(params, jen.Id("depth").Int())
	}
	s := jen.Func().Id(name).Params(params...)
	if t.Fallible {
		return s.Params(jen.Id("_").Index().Byte(), jen.Err().Error())
	}
	return s.Index().Byte()
}

// grow prints b = encoded. If fallible, it also prints the return of an error.
func grow(g *jen.Group, fallible bool, encoded *jen.Statement) {
	if !fallible {
		g.Id("b").Op("=").Add(encoded)
		return
	}
	g.If(jen.List(jen.Id("b"), jen.Err()).Op("=").Add(encoded), jen.Err().Op("!=").Nil()).Block(
		jen.Return(jen.Id("b"), jen.Err()),
	)
}

func done(g *jen.Group, t *model.Type, b *jen.Statement) {
	if t.Fallible {
		g.Return(b, jen.Nil())
	} else {
		g.Return(b)
	}
}

func open(g *jen.Group, num *jen.Statement) {
	g.List(jen.Id("b"), jen.Id("at")).Op(":=").Add(codegen("Open")).Call(jen.Id("b"), num)
}

func closed() *jen.Statement { return codegen("Close").Call(jen.Id("b"), jen.Id("at")) }

type typeEmitter struct{ *emitter }

func (e typeEmitter) appendType(t *model.Type) jen.Code {
	body := func(g *jen.Group) {
		b, num := jen.Id("b"), jen.Id("num")
		if t.Recursive {
			g.If(jen.Id("depth").Op("==").Lit(0)).Block(jen.Return(jen.Id("b"), codegen("ErrDepth")))
		}
		switch t.Shape {
		case model.Slice:
			g.For(jen.List(jen.Id("_"), jen.Id("e")).Op(":=").Range().Id("v")).BlockFunc(func(g *jen.Group) {
				grow(g, t.Elem.Fallible, codecEmitter(e).appendElement(t.Elem, b, num, jen.Id("e"), t))
			})
			done(g, t, b)
		case model.Array:
			open(g, num)
			g.For(jen.List(jen.Id("_"), jen.Id("e")).Op(":=").Range().Id("v")).BlockFunc(func(g *jen.Group) {
				grow(g, t.Elem.Fallible, codecEmitter(e).appendElement(t.Elem, b, jen.Lit(1), jen.Id("e"), t))
			})
			done(g, t, closed())
		case model.Map:
			e.appendMap(g, t)
		case model.Pointer:
			e.appendPointer(g, t)
		case model.Struct:
			open(g, num)
			for _, f := range t.Fields {
				grow(g, f.Type.Fallible, codecEmitter(e).appendField(f.Type, b, f.Number, jen.Id("v").Dot(f.Name), t))
			}
			done(g, t, closed())
		case model.Oneof:
			oneofEmitter(e).append(g, t)
		default:
			panic(fmt.Sprintf("emit codec of %s: shape %d has no function", e.spelt(t.Expr), t.Shape))
		}
	}
	return appendSignature(t.AppendFunc(), t).BlockFunc(body)
}

func (e typeEmitter) appendPointer(g *jen.Group, t *model.Type) {
	b := jen.Id("b")
	g.If(jen.Id("v").Op("==").Nil()).BlockFunc(func(g *jen.Group) { done(g, t, b) })
	target := jen.Op("*").Id("v")
	if t.Elem.Shape == model.ByteArray {
		target = jen.Id("v") // slicing goes through the pointer
	}
	g.Return(withNil(t.Elem, t, codecEmitter(e).appendElement(t.Elem, b, jen.Id("num"), target, t))...)
}

// withNil returns what t's encoding function returns: call, which encodes elem. If t's function has
// an error result and elem's has none, nil follows.
func withNil(elem, t *model.Type, call *jen.Statement) []jen.Code {
	if t.Fallible && !elem.Fallible {
		return []jen.Code{call, jen.Nil()}
	}
	return []jen.Code{call}
}

func (e typeEmitter) appendMap(g *jen.Group, t *model.Type) {
	b := jen.Id("b")
	keys := jen.List(jen.Id("_"), jen.Id("key")).Op(":=").Range().Add(codegen("SortedKeys")).Call(jen.Id("v"))
	ordered := t.Key.Shape == model.Int || t.Key.Shape == model.Uint || t.Key.Shape == model.String
	value := jen.Id("v").Index(jen.Id("key"))
	switch {
	case ordered:
	case t.Key.Shape == model.Float32 || t.Key.Shape == model.Float64:
		keys = jen.List(jen.Id("key"), jen.Id("e")).Op(":=").Range().Add(codegen("SortedFloats")).Call(jen.Id("v"))
		value = jen.Id("e")
	default:
		keys = jen.List(jen.Id("key"), jen.Id("e")).Op(":=").Range().Id("v")
		value = jen.Id("e")
	}
	if t.ChecksKeys() {
		g.Id("seen").Op(":=").Make(jen.Map(jen.String()).Bool(), jen.Len(jen.Id("v")))
	}
	g.For(keys).BlockFunc(func(g *jen.Group) {
		if ordered && (t.Elem.Shape == model.ByteArray || t.Elem.Shape == model.Array) {
			g.Id("e").Op(":=").Add(value) // only a variable can be sliced
			value = jen.Id("e")
		}
		g.Var().Id("at").Int()
		g.List(b, jen.Id("at")).Op("=").Add(codegen("Open")).Call(b, jen.Id("num"))
		grow(g, t.Key.Fallible, codecEmitter(e).appendElement(t.Key, b, jen.Lit(1), jen.Id("key"), t))
		if t.ChecksKeys() {
			g.Id("seen").Index(jen.String().Call(jen.Id("b").Index(jen.Id("at").Op(":")))).Op("=").True()
		}
		grow(g, t.Elem.Fallible, codecEmitter(e).appendElement(t.Elem, b, jen.Lit(2), value, t))
		g.Add(b).Op("=").Add(closed())
	})
	if t.ChecksKeys() {
		checkKeys(g, "seen", jen.Id("b"))
	}
	done(g, t, b)
}

// checkKeys emits the return for a map that lost entries in encoding: distinct, the set of its
// encoded keys, has fewer entries.
func checkKeys(g *jen.Group, distinct string, failed jen.Code) {
	g.If(jen.Id("err").Op("=").Add(codegen("CheckKeys")).Call(jen.Len(jen.Id(distinct)), jen.Len(jen.Id("v"))), jen.Id("err").Op("!=").Nil()).
		Block(jen.Return(failed, jen.Id("err")))
}

// appendWrapped emits the encoding of an element inside a message, as exactly one field.
func (e typeEmitter) appendWrapped(t *model.Type) jen.Code {
	name := t.AppendElementFunc()
	return appendSignature(name, t).BlockFunc(func(g *jen.Group) {
		open(g, jen.Id("num"))
		grow(g, t.Fallible, codecEmitter(e).appendField(t, jen.Id("b"), 1, jen.Id("v"), t))
		done(g, t, closed())
	})
}

func (e typeEmitter) readType(t *model.Type) jen.Code {
	body := func(g *jen.Group) {
		d := jen.Id("d")
		switch t.Shape {
		case model.Slice:
			g.Var().Id("e").Add(typ(t.Elem.Expr))
			g.Add(codecEmitter(e).readElement(t.Elem, d, variable("e")))
			g.Op("*").Id("v").Op("=").Append(jen.Op("*").Id("v"), jen.Id("e"))
		case model.Array:
			e.readArray(g, t)
		case model.Map:
			e.readMap(g, t)
		case model.Pointer:
			g.If(jen.Op("*").Id("v").Op("==").Nil()).Block(jen.Op("*").Id("v").Op("=").New(typ(t.Elem.Expr)))
			g.Add(codecEmitter(e).readElement(t.Elem, d, place{jen.Parens(jen.Op("*").Id("v")), jen.Op("*").Id("v")}))
		case model.Struct:
			codecEmitter(e).init(g, t, place{pointer: jen.Id("v")})
			enter(g, func() {
				var places []place
				var numbers []int
				var types []*model.Type
				for _, f := range t.Fields {
					places, numbers, types = append(places, selected("v", f.Name)), append(numbers, f.Number), append(types, f.Type)
				}
				messageEmitter(e).readFields(g, d, d, numbers, types, places, t.Retired)
			})
		case model.Oneof:
			oneofEmitter(e).read(g, t)
		default:
			panic(fmt.Sprintf("emit codec of %s: shape %d has no function", e.spelt(t.Expr), t.Shape))
		}
	}
	code := jen.Func().Id(t.ReadFunc()).Params(decoderParam(), jen.Id("v").Op("*").Add(typ(t.Expr))).BlockFunc(body)
	if t.Shape == model.Oneof {
		code.Add(oneofEmitter(e).unknown(t))
	}
	return code
}

func enter(g *jen.Group, inside func()) {
	g.Id("outer").Op(":=").Id("d").Dot("Enter").Call()
	inside()
	g.Id("d").Dot("Leave").Call(jen.Id("outer"))
}

func (e typeEmitter) readArray(g *jen.Group, t *model.Type) {
	g.Var().Id("s").Index().Add(typ(t.Elem.Expr))
	if t.Packed() {
		g.Add(codegen("Read"+helpers[t.Elem.Shape]+"s")).Call(jen.Id("d"), jen.Op("&").Id("s"))
	} else {
		enter(g, func() {
			g.For(jen.Id("d").Dot("Next").Call()).Block(
				jen.If(jen.Id("d").Dot("Field").Call().Op("==").Lit(1)).Block(
					jen.Var().Id("e").Add(typ(t.Elem.Expr)),
					codecEmitter(e).readElement(t.Elem, jen.Id("d"), variable("e")),
					jen.Id("s").Op("=").Append(jen.Id("s"), jen.Id("e")),
				),
			)
		})
	}
	g.Add(codegen("Fill")).Call(jen.Id("d"), jen.Id("v").Index(jen.Op(":")), jen.Id("s"))
}

func (e typeEmitter) readMap(g *jen.Group, t *model.Type) {
	g.Var().Id("key").Add(typ(t.Key.Expr))
	g.Var().Id("e").Add(typ(t.Elem.Expr))
	for _, part := range []struct {
		name string
		of   *model.Type
	}{{"key", t.Key}, {"e", t.Elem}} {
		codecEmitter(e).init(g, part.of, variable(part.name))
	}
	enter(g, func() {
		g.For(jen.Id("d").Dot("Next").Call()).Block(
			jen.Switch(jen.Id("d").Dot("Field").Call()).Block(
				jen.Case(jen.Lit(1)).Block(codecEmitter(e).readElement(t.Key, jen.Id("d"), variable("key"))),
				jen.Case(jen.Lit(2)).Block(codecEmitter(e).readElement(t.Elem, jen.Id("d"), variable("e"))),
			),
		)
	})
	g.Add(codegen("InitMap")).Call(jen.Id("v"))
	g.Parens(jen.Op("*").Id("v")).Index(jen.Id("key")).Op("=").Id("e")
}

// readWrapped emits the decoding of appendWrapped's encoding.
func (e typeEmitter) readWrapped(t *model.Type) jen.Code {
	name := t.ReadElementFunc()
	return jen.Func().Id(name).Params(decoderParam(), jen.Id("v").Op("*").Add(typ(t.Expr))).BlockFunc(func(g *jen.Group) {
		codecEmitter(e).init(g, t, pointed("v"))
		enter(g, func() {
			g.For(jen.Id("d").Dot("Next").Call()).Block(
				jen.If(jen.Id("d").Dot("Field").Call().Op("==").Lit(1)).Block(codecEmitter(e).readField(t, jen.Id("d"), pointed("v"))),
			)
		})
	})
}

func (e typeEmitter) initType(t *model.Type) jen.Code {
	return jen.Func().Id(t.InitFunc()).Params(jen.Id("v").Op("*").Add(typ(t.Expr))).BlockFunc(func(g *jen.Group) {
		if t.Shape == model.Array {
			g.For(jen.Id("i").Op(":=").Range().Id("v")).BlockFunc(func(g *jen.Group) {
				codecEmitter(e).init(g, t.Elem, place{pointer: jen.Op("&").Id("v").Index(jen.Id("i"))})
			})
			return
		}
		for _, f := range t.Fields {
			codecEmitter(e).init(g, f.Type, selected("v", f.Name))
		}
	})
}
