package templates

import (
	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type cloneEmitter struct{ *emitter }

// cloneValue prints an expression: a copy that shares no memory with v, as if decoded from the wire
// and, if t.CloneFallible, an error. in is the type whose function is being printed, or nil.
func (e cloneEmitter) cloneValue(t *model.Type, v *jen.Statement, in *model.Type) *jen.Statement {
	switch {
	case t.Plain:
		return v
	case t.Shape == model.Bytes, t.Shape == model.Slice && t.Elem.Plain:
		return codegen("CloneSlice").Call(v)
	case t.Shape == model.Map && t.Key.Plain && t.Elem.Plain:
		return codegen("CloneMap").Call(v)
	case t.Shape == model.Pointer && t.Elem.Plain:
		return codegen("ClonePointer").Call(v)
	case helpers[t.Shape] != "":
		return codegen("Clone" + helpers[t.Shape]).Call(v)
	}
	return codecEmitter(e).call(t, cloneFunc, in, v)
}

// cloneElement does what cloneValue does, for an element of a list or map.
func (e cloneEmitter) cloneElement(t *model.Type, v *jen.Statement, in *model.Type) *jen.Statement {
	if t.Shape == model.Proto {
		return codegen("CloneProtoElement").Call(v)
	}
	return e.cloneValue(t, v, in)
}

// assign prints target = cloned. If fallible, it also prints the return of an error.
func assign(g *jen.Group, fallible bool, target, cloned *jen.Statement, failed jen.Code) {
	if !fallible {
		g.Add(target).Op("=").Add(cloned)
		return
	}
	g.If(jen.List(target, jen.Err()).Op("=").Add(cloned), jen.Err().Op("!=").Nil()).Block(jen.Return(failed, jen.Err()))
}

func (e cloneEmitter) cloneType(t *model.Type) jen.Code {
	params := []jen.Code{jen.Id("v").Add(typ(t.Expr))}
	if t.Recursive {
		params = append(params, jen.Id("depth").Int())
	}
	head := jen.Func().Id(t.CloneFunc()).Params(params...)
	if t.CloneFallible {
		head.Params(jen.Id("_").Add(typ(t.Expr)), jen.Err().Error())
	} else {
		head.Add(typ(t.Expr))
	}
	finish := func(g *jen.Group, v jen.Code) {
		if t.CloneFallible {
			g.Return(v, jen.Nil())
		} else {
			g.Return(v)
		}
	}
	failed := zero(t.Zero, t.Expr)
	return head.BlockFunc(func(g *jen.Group) {
		if t.Recursive {
			g.If(jen.Id("depth").Op("==").Lit(0)).Block(jen.Return(failed, codegen("ErrDepth")))
		}
		switch t.Shape {
		case model.Slice:
			g.If(jen.Len(jen.Id("v")).Op("==").Lit(0)).BlockFunc(func(g *jen.Group) { finish(g, jen.Nil()) })
			g.Id("c").Op(":=").Make(typ(t.Expr), jen.Len(jen.Id("v")))
			e.cloneElements(g, t, jen.Id("c"), failed)
			finish(g, jen.Id("c"))
		case model.Array:
			e.cloneElements(g, t, jen.Id("v"), failed)
			finish(g, jen.Id("v"))
		case model.Map:
			e.cloneMap(g, t)
			finish(g, jen.Id("c"))
		case model.Pointer:
			g.If(jen.Id("v").Op("==").Nil()).BlockFunc(func(g *jen.Group) { finish(g, jen.Nil()) })
			e.cloneLocal(g, t, t.Elem, "c", jen.Op("*").Id("v"))
			finish(g, jen.Op("&").Id("c"))
		case model.Struct:
			for _, f := range t.Fields {
				if !f.Type.Plain {
					target := jen.Id("v").Dot(f.Name)
					assign(g, f.Type.CloneFallible, target, e.cloneValue(f.Type, target.Clone(), t), failed)
				}
			}
			for _, s := range t.Skipped {
				g.Id("v").Dot(s.Name).Op("=").Add(skippedZero(t, s))
			}
			finish(g, jen.Id("v"))
		case model.Oneof:
			oneofEmitter(e).clone(g, t)
		}
	})
}

// skippedZero prints the zero value of a field that is not sent. If the field's type cannot be
// named here, it prints that field of an empty struct.
func skippedZero(t *model.Type, s model.Skipped) *jen.Statement {
	if s.Zero == model.ZeroBraces && s.Expr == nil {
		return typ(t.Expr).Values().Dot(s.Name)
	}
	return zero(s.Zero, s.Expr)
}

func (e cloneEmitter) cloneElements(g *jen.Group, t *model.Type, to *jen.Statement, failed jen.Code) {
	g.For(jen.List(jen.Id("i"), jen.Id("e")).Op(":=").Range().Id("v")).BlockFunc(func(g *jen.Group) {
		assign(g, t.Elem.CloneFallible, to.Index(jen.Id("i")), e.cloneElement(t.Elem, jen.Id("e"), t), failed)
	})
}

func (e cloneEmitter) cloneMap(g *jen.Group, t *model.Type) {
	g.Id("c").Op(":=").Make(typ(t.Expr), jen.Len(jen.Id("v")))
	g.For(jen.List(jen.Id("key"), jen.Id("e")).Op(":=").Range().Id("v")).BlockFunc(func(g *jen.Group) {
		key := jen.Id("key")
		if t.Key.CloneFallible {
			e.cloneLocal(g, t, t.Key, "k", key)
			key = jen.Id("k")
		} else {
			key = e.cloneElement(t.Key, key, t)
		}
		assign(g, t.Elem.CloneFallible, jen.Id("c").Index(key), e.cloneElement(t.Elem, jen.Id("e"), t), jen.Nil())
	})
	if t.ChecksKeys() {
		checkKeys(g, "c", jen.Nil())
	}
}

// cloneLocal prints a variable with a copy of v, an element of t.
func (e cloneEmitter) cloneLocal(g *jen.Group, t, elem *model.Type, name string, v *jen.Statement) {
	cloned := e.cloneElement(elem, v, t)
	if !elem.CloneFallible {
		g.Id(name).Op(":=").Add(cloned)
		return
	}
	g.List(jen.Id(name), jen.Err()).Op(":=").Add(cloned)
	ifErr(g, "err", jen.Nil(), jen.Err())
}
