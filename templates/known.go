package templates

import (
	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// knownState emits which fields of an entity's state this program knows.
func (e *emitter) knownState(n *model.Entity) {
	e.comment("%s reports which fields of the state are known: others are kept as they came.", n.StateFieldsFunc())
	e.file.Add(e.knownFields(n.StateFieldsFunc(), n.State))
}

// knownType emits which fields of a struct this program knows.
func (e *emitter) knownType(t *model.Type) jen.Code {
	return docLine("%s reports which fields of %s are known.", t.KnownFunc(), article(e.spelt(t.Expr))).
		Add(e.knownFields(t.KnownFunc(), t.Fields))
}

// knownFields emits a [codegen.Fields].
func (e *emitter) knownFields(function string, list []model.Field) jen.Code {
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
		if len(list) > 0 {
			g.Switch(jen.Id("num")).BlockFunc(func(g *jen.Group) {
				for _, m := range inside {
					fields := jen.Nil()
					if m != nil {
						fields = e.want(m, knownFunc)
					}
					g.Case(numbers[m]...).Block(jen.Return(jen.True(), fields))
				}
			})
		}
		g.Return(jen.False(), jen.Nil())
	})
}
