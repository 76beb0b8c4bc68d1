package templates

import (
	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type errorEmitter struct{ *emitter }

func (e errorEmitter) errors() {
	path := jen.Lit(e.pkg.Path)
	entries := []jen.Code{path}
	for _, x := range e.pkg.Errors {
		switch {
		case x.Var != nil:
			entries = append(entries, codegen("SentinelError").Call(jen.Lit(x.Wire), typ(x.Var)))
		case x.Pointer:
			entries = append(entries, codegen("PointerError").Call(jen.Lit(x.Wire), jen.Id(x.Type.EncodeFunc()), jen.Id(x.Type.DecodeFunc())))
		default:
			entries = append(entries, codegen("ValueError").Call(jen.Lit(x.Wire), jen.Id(x.Type.EncodeFunc()), jen.Id(x.Type.DecodeFunc())))
		}
	}
	declare := jen.Id("s").Dot("Declare").Call(entries...)
	if len(e.pkg.Errors) > 0 {
		declare = jen.Id("s").Dot("Declare").Custom(jen.Options{Open: "(", Close: ")", Separator: ",", Multi: true}, entries...)
	}
	comment := "%s adds the errors of this package to s. Callers can match them with errors.Is and errors.As."
	if len(e.pkg.ErrorImports) > 0 {
		comment += " It also adds the errors of the entities that this package calls."
	}
	e.comment(comment, model.ErrorsFunc)
	e.file.Func().Id(model.ErrorsFunc).Params(jen.Id("s").Op("*").Add(codegen("ErrorSet"))).BlockFunc(func(g *jen.Group) {
		if len(e.pkg.ErrorImports) == 0 {
			g.Add(declare)
			return
		}
		g.If(jen.Op("!").Add(declare)).Block(jen.Return())
		for _, path := range e.pkg.ErrorImports {
			g.Qual(path, model.ErrorsFunc).Call(jen.Id("s"))
		}
	})
	for _, x := range e.pkg.Errors {
		if x.Var == nil {
			e.errorCodec(x)
		}
	}
}

// errorCodec emits an error's encoding: a message with the value in field 1.
func (e errorEmitter) errorCodec(x *model.Error) {
	t := x.Type
	b, v := jen.Id("b"), jen.Id("v")
	e.comment("%s encodes %s.", t.EncodeFunc(), article(e.spelt(t.Expr)))
	e.file.Func().Id(t.EncodeFunc()).Params(b.Clone().Index().Byte(), v.Clone().Add(typ(t.Expr))).Params(jen.Index().Byte(), jen.Error()).BlockFunc(func(g *jen.Group) {
		encoded := codecEmitter(e).appendField(t, b.Clone(), 1, v.Clone(), nil)
		if t.Fallible {
			g.Return(encoded)
			return
		}
		g.Return(encoded, jen.Nil())
	})

	e.comment("%s decodes the output of %s.", t.DecodeFunc(), t.EncodeFunc())
	e.file.Func().Id(t.DecodeFunc()).Params(b.Clone().Index().Byte()).Params(v.Clone().Add(typ(t.Expr)), jen.Err().Error()).BlockFunc(func(g *jen.Group) {
		codecEmitter(e).init(g, t, variable("v"))
		g.Id("d").Op(":=").Add(codegen("NewDecoder")).Call(b.Clone())
		messageEmitter(e).readFields(g, jen.Id("d"), jen.Op("&").Id("d"), []int{1}, []*model.Type{t}, []place{variable("v")}, nil)
		g.Return(v.Clone(), jen.Id("d").Dot("Err").Call(jen.Lit("error "+x.Name)))
	})
}
