package templates

import (
	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type extractorEmitter struct{ *emitter }

// extractor emits the type that finds ids' shards without a cluster.
func (e extractorEmitter) extractor(n *model.Entity) {
	e.comment("%s finds the entity and the shard of an id without a cluster. Its zero value works.", n.Extractor())
	e.file.Type().Id(n.Extractor()).Struct()

	e.comment("EntityID returns the wire form of the id.")
	e.extract(n, "EntityID", jen.String(), jen.Lit(""), func(key *jen.Statement) []jen.Code {
		return []jen.Code{key.Clone(), codegen("CheckID").Call(key)}
	})

	e.comment("Shard returns the number of the entity's shard.")
	e.extract(n, "Shard", jen.Uint32(), jen.Lit(0), func(key *jen.Statement) []jen.Code {
		return []jen.Code{codegen("EntityShard").Call(jen.Id(n.KindFunc()).Call(), key)}
	})
}

func (e extractorEmitter) extract(n *model.Entity, name string, result, none jen.Code, from func(key *jen.Statement) []jen.Code) {
	e.file.Func().Params(jen.Id(n.Extractor())).Id(name).Params(jen.Id("id").Add(typ(n.ID.Type))).Params(result, jen.Error()).
		BlockFunc(func(g *jen.Group) {
			key, fallible := idBytes(n, jen.Id("id"))
			if fallible {
				g.List(jen.Id("key"), jen.Err()).Op(":=").Add(key)
				ifErr(g, "err", none, jen.Err())
				key = jen.Id("key")
			}
			g.Return(from(key)...)
		})
}
