package templates

import (
	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

func typ(x *model.Expr) *jen.Statement {
	switch x.Op {
	case model.SliceOf:
		return jen.Index().Add(typ(x.Elem))
	case model.ArrayOf:
		return jen.Index(jen.Lit(int(x.Len))).Add(typ(x.Elem))
	case model.MapOf:
		return jen.Map(typ(x.Key)).Add(typ(x.Elem))
	case model.PointerTo:
		return jen.Op("*").Add(typ(x.Elem))
	}
	if x.Alias != "" {
		return jen.Id(x.Alias)
	}
	var name *jen.Statement
	if x.Path == "" {
		name = jen.Id(x.Name)
	} else {
		name = jen.Qual(x.Path, x.Name)
	}
	if len(x.Args) == 0 {
		return name
	}
	args := make([]jen.Code, len(x.Args))
	for i, a := range x.Args {
		args[i] = typ(a)
	}
	return name.Types(args...)
}

func zero(z model.Zero, x *model.Expr) *jen.Statement {
	switch z {
	case model.ZeroNumber:
		return jen.Lit(0)
	case model.ZeroString:
		return jen.Lit("")
	case model.ZeroBool:
		return jen.False()
	case model.ZeroNil:
		return jen.Nil()
	}
	return typ(x).Values()
}

func codegen(name string) *jen.Statement { return jen.Qual(CodegenPath, name) }

func shard(name string) *jen.Statement { return jen.Qual(ShardPath, name) }

func contextType() *jen.Statement { return jen.Qual(ContextPath, "Context") }

func ifErr(g *jen.Group, err string, results ...jen.Code) {
	g.If(jen.Id(err).Op("!=").Nil()).Block(jen.Return(results...))
}

func fields(pairs ...jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}, pairs...)
}

func oneLine(statement jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: "{ ", Close: " }"}, statement)
}

func field(name string, value jen.Code) *jen.Statement {
	return jen.Id(name).Op(":").Add(value)
}
