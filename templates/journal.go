package templates

import (
	"time"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type journalEmitter struct{ *emitter }

func (e journalEmitter) followers(n *model.Entity) {
	if n.Journal == nil {
		return
	}
	event := shard("Event").Types(typ(n.Journal.Event.Type.Expr))
	method := func(name, does string, yields *jen.Statement) {
		e.file.Func().Params(jen.Id("c").Op("*").Id(n.ClientType())).Id(name).Params(
			jen.Id("ctx").Add(contextType()), jen.Id("from").Add(shard("Position")), jen.Id("opts").Op("...").Add(shard("EventsOption")),
		).Qual("iter", "Seq2").Types(yields, jen.Error()).Block(
			jen.Return(shard(does).Call(jen.Id("ctx"), jen.Id("c").Dot("invoker"), jen.Id("from"), jen.Id(n.DecodeEventFunc()), jen.Id("opts").Op("..."))),
		)
	}
	e.comment("Events yields the events of all %s entities after position from: each event once, and the events of an entity in order. It waits for further events until ctx ends; then it yields ctx's error. It ends after the first error.", n.Name)
	method("Events", "FollowEvents", event.Clone())
	e.comment("EventBatches is Events with the events that one read has found together, all of one shard, of at most 512 KiB as encoded. Only the last event of a batch has its Position.")
	method("EventBatches", "FollowEventBatches", jen.Index().Add(event))
}

func (e journalEmitter) journal(n *model.Entity) {
	j := n.Journal
	if j == nil {
		return
	}
	event, what := typ(j.Event.Type.Expr), "event of "+n.Name
	self := func() *jen.Statement { return jen.Id("entity").Assert(jen.Op("*").Id(n.Name)) }

	e.comment("%s encodes the recorded events and removes them from the entity.", n.TakeEventsFunc())
	e.file.Func().Id(n.TakeEventsFunc()).Params(jen.Id("entity").Any()).Params(jen.Index().Index().Byte(), jen.Error()).Block(
		jen.Return(codegen("TakeEvents").Call(jen.Op("&").Add(self()).Dot(j.Field), jen.Id(n.AppendEventFunc()))),
	)

	e.comment("%s encodes %s.", n.AppendEventFunc(), article(what))
	encoded := codecEmitter(e).appendField(j.Event.Type, jen.Id("b"), j.Event.Number, jen.Id("event"), nil)
	e.file.Func().Id(n.AppendEventFunc()).Params(jen.Id("b").Index().Byte(), jen.Id("event").Add(event.Clone())).Params(jen.Index().Byte(), jen.Error()).BlockFunc(func(g *jen.Group) {
		if !j.Event.Type.Fallible {
			g.Return(encoded, jen.Nil())
			return
		}
		g.List(jen.Id("b"), jen.Err()).Op(":=").Add(encoded)
		g.If(jen.Err().Op("!=").Nil()).Block(jen.Return(jen.Nil(), encodeErrorOf(what, "err")))
		g.Return(jen.Id("b"), jen.Nil())
	})

	e.comment("%s decodes the output of %s.", n.DecodeEventFunc(), n.AppendEventFunc())
	e.file.Func().Id(n.DecodeEventFunc()).Params(jen.Id("d").Add(codegen("Decoder"))).Params(jen.Id("event").Add(event.Clone()), jen.Err().Error()).BlockFunc(func(g *jen.Group) {
		p := variable("event")
		codecEmitter(e).init(g, j.Event.Type, p)
		messageEmitter(e).readFields(g, jen.Id("d"), jen.Op("&").Id("d"), []int{j.Event.Number}, []*model.Type{j.Event.Type}, []place{p}, nil)
		g.Return(jen.Id("event"), jen.Id("d").Dot("Err").Call(jen.Lit(what)))
	})

	e.comment("%s applies an encoded event. It fails if the event has unknown fields.", n.ApplyEventFunc())
	e.file.Func().Id(n.ApplyEventFunc()).Params(jen.Id("entity").Any(), jen.Id("b").Index().Byte()).Error().BlockFunc(func(g *jen.Group) {
		g.List(jen.Id("event"), jen.Err()).Op(":=").Id(n.DecodeEventFunc()).Call(codegen("NewEventDecoder").Call(jen.Id("b")))
		ifErr(g, "err", jen.Err())
		g.Add(self()).Dot("Apply").Call(jen.Id("event"))
		g.Return(jen.Nil())
	})
}

func events(n *model.Entity) *jen.Statement {
	j := n.Journal
	var list []jen.Code
	if j.Every > 0 {
		list = append(list, field("Every", jen.Lit(j.Every)))
	}
	if j.Age > 0 {
		list = append(list, field("Age", jen.Lit(int(j.Age/time.Minute)).Op("*").Qual("time", "Minute")))
	}
	if j.Count > 0 {
		list = append(list, field("Count", jen.Lit(j.Count)))
	}
	if j.Followers {
		list = append(list, field("Followers", jen.True()))
	}
	list = append(list, field("Take", jen.Id(n.TakeEventsFunc())), field("Apply", jen.Id(n.ApplyEventFunc())))
	return jen.Op("&").Add(codegen("Events")).Add(fields(list...))
}
