package templates

import (
	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type addressedEmitter struct{ *emitter }

// addressed emits the interface and methods of n's message structs, and the functions that take
// such structs.
func (e addressedEmitter) addressed(n *model.Entity) {
	if len(n.Addressed) == 0 {
		return
	}
	ctx := jen.Id("ctx").Add(contextType())
	e.comment("%s is a message that carries the id of the %s to be called.", n.Message(), n.Name)
	e.file.Type().Id(n.Message()).Interface(
		jen.Id(n.AddressFunc()).Params().Add(typ(n.ID.Type)),
		jen.Id(n.DeliverFunc()).Params(ctx.Clone(), jen.Id("r").Id(n.Ref())).Error(),
	)

	message := jen.Id("m").Id(n.Message())
	client := jen.Id("c").Op("*").Id(n.ClientType())
	opts := jen.Id("opts").Op("...").Add(shard("CallOption"))
	e.comment("For returns a reference to the %s with the id in m.", n.Name)
	e.file.Func().Params(client.Clone()).Id("For").Params(message.Clone(), opts.Clone()).Id(n.Ref()).Block(
		jen.Return(jen.Id("c").Dot("Ref").Call(jen.Id("m").Dot(n.AddressFunc()).Call(), jen.Id("opts").Op("..."))),
	)
	e.comment("Deliver calls the method that takes m and drops its results. To get the results, call the method on the reference from [%s.For].", n.ClientType())
	e.file.Func().Params(client.Clone()).Id("Deliver").Params(ctx.Clone(), message.Clone(), opts.Clone()).Error().Block(
		jen.Return(jen.Id("m").Dot(n.DeliverFunc()).Call(jen.Id("ctx"), jen.Id("c").Dot("For").Call(jen.Id("m"), jen.Id("opts").Op("...")))),
	)

	extractor := jen.Id("x").Id(n.Extractor())
	address := jen.Id("m").Dot(n.AddressFunc()).Call()
	e.comment("EntityIDOf returns the wire form of the %s id in m.", n.Name)
	e.file.Func().Params(extractor.Clone()).Id("EntityIDOf").Params(message.Clone()).Params(jen.String(), jen.Error()).Block(
		jen.Return(jen.Id("x").Dot("EntityID").Call(address.Clone())),
	)
	e.comment("ShardOf returns the shard number of the %s with the id in m.", n.Name)
	e.file.Func().Params(extractor.Clone()).Id("ShardOf").Params(message.Clone()).Params(jen.Uint32(), jen.Error()).Block(
		jen.Return(jen.Id("x").Dot("Shard").Call(address.Clone())),
	)
	for _, a := range n.Addressed {
		e.addressedMethods(n, a)
	}
}

func (e addressedEmitter) addressedMethods(n *model.Entity, a *model.Addressed) {
	recv := jen.Id("m").Add(typ(a.Struct))
	if a.Pointer {
		recv = jen.Id("m").Op("*").Add(typ(a.Struct))
	}
	e.file.Line()
	e.file.Func().Params(recv.Clone()).Id(n.AddressFunc()).Params().Add(typ(n.ID.Type)).Add(oneLine(jen.Return(jen.Id("m").Dot(a.Field))))
	call := jen.Id("r").Dot(a.Method.Name).Call(jen.Id("ctx"), jen.Id("m"))
	e.file.Line()
	e.file.Func().Params(recv.Clone()).Id(n.DeliverFunc()).Params(jen.Id("ctx").Add(contextType()), jen.Id("r").Id(n.Ref())).Error().BlockFunc(func(g *jen.Group) {
		if len(a.Method.Results) == 0 || a.Method.TellOnly {
			g.Return(call)
			return
		}
		var results []jen.Code
		for range a.Method.Results {
			results = append(results, jen.Id("_"))
		}
		g.List(append(results, jen.Err())...).Op(":=").Add(call)
		g.Return(jen.Err())
	})
}
