package templates

import (
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// client emits the client, the reference and the one-way reference.
func (e *emitter) client(n *model.Entity) {
	f := e.file
	if n.Singleton {
		e.comment("%s makes references to the %s of the cluster. It is safe for concurrent use.", n.ClientType(), n.Name)
	} else {
		e.comment("%s makes references to %s entities. It is safe for concurrent use.", n.ClientType(), n.Name)
	}
	f.Type().Id(n.ClientType()).Struct(jen.Id("port").Add(codegen("Port")))

	e.comment("%s returns a client that calls through c: a node, or a connection from outside.", n.NewClient())
	f.Func().Id(n.NewClient()).Params(jen.Id("c").Add(shard("Caller"))).Op("*").Id(n.ClientType()).Block(
		jen.Return(jen.Op("&").Id(n.ClientType()).Values(
			field("port", jen.Id("c").Dot("ShardPort").Call(jen.Id(n.KindFunc()).Call())),
		)),
	)

	opts := jen.Id("opts").Op("...").Add(shard("CallOption"))
	recv := jen.Id("c").Op("*").Id(n.ClientType())
	var id, passed []jen.Code // neither of a singleton
	if n.Singleton {
		e.comment("Ref returns a reference to the %s, which need not live yet.", n.Name)
	} else {
		id, passed = []jen.Code{jen.Id("id").Add(typ(n.ID.Type))}, []jen.Code{jen.Id("id")}
		e.comment("Ref returns a reference to the %s with that id, which need not live yet. A bad id is answered by the calls.", n.Name)
	}
	f.Func().Params(recv.Clone()).Id("Ref").Params(append(slices.Clone(id), opts.Clone())...).Id(n.Ref()).BlockFunc(func(g *jen.Group) {
		newRef(g, n, n.Ref())
	})

	e.comment("Tell is Ref for calls that do not wait for an answer.")
	f.Func().Params(recv.Clone()).Id("Tell").Params(append(slices.Clone(id), opts.Clone())...).Id(n.Tell()).BlockFunc(func(g *jen.Group) {
		newRef(g, n, n.Tell())
	})

	e.comment("API is Ref as the interface, for callers that are tested against plain structs.")
	f.Func().Params(recv.Clone()).Id("API").Params(id...).Id(n.API()).Block(
		jen.Return(jen.Id("c").Dot("Ref").Call(passed...)),
	)

	which := "one"
	if n.Singleton {
		which = "the"
	}
	e.comment("%s is %s %s, wherever it lives. It comes from [%s.Ref] and is safe for concurrent use.", n.Ref(), which, n.Name, n.ClientType())
	f.Type().Id(n.Ref()).Struct(jen.Id("ref").Op("*").Add(codegen("Ref")))
	for _, m := range n.Methods {
		e.refMethod(n, m)
	}

	e.comment("%s is %s %s, told without waiting for an answer. It comes from [%s.Tell] and is safe for concurrent use. Its methods return only what kept the call from being sent.", n.Tell(), which, n.Name, n.ClientType())
	f.Type().Id(n.Tell()).Struct(jen.Id("ref").Op("*").Add(codegen("Ref")))
	for _, m := range n.Methods {
		e.tellMethod(n, m)
	}
}

// newRef emits the making of a reference from the id.
func newRef(g *jen.Group, n *model.Entity, ref string) {
	if n.Singleton {
		g.Return(jen.Id(ref).Values(field("ref", codegen("NewSingletonRef").Call(jen.Id("c").Dot("port"), jen.Id("opts").Op("...")))))
		return
	}
	key, fallible := idBytes(n, jen.Id("id"))
	var err jen.Code = jen.Nil()
	if fallible {
		g.List(jen.Id("key"), jen.Err()).Op(":=").Add(key)
		key, err = jen.Id("key"), jen.Err()
	}
	g.Return(jen.Id(ref).Values(field("ref", codegen("NewRef").Call(
		jen.Id("c").Dot("port"), key, err, jen.Id("opts").Op("..."),
	))))
}

// idBytes prints the wire form of an id, and whether it comes with an error.
func idBytes(n *model.Entity, id *jen.Statement) (key *jen.Statement, fallible bool) {
	switch n.ID.Form {
	case model.IDInt:
		return codegen("FormatID").Call(id), false
	case model.IDUint:
		return codegen("FormatUintID").Call(id), false
	case model.IDText:
		return codegen("FormatTextID").Call(id), true
	}
	if n.ID.Type.Path == "" && n.ID.Type.Name == "string" {
		return id, false
	}
	return jen.String().Call(id), false
}

// refMethod emits a call with an answer: on the entity itself when its turn
// could begin here, else over the wire.
func (e *emitter) refMethod(n *model.Entity, m *model.Method) {
	l := e.messageLocals(m)
	recv, turn, call := l.pick("r"), l.pick("turn"), l.pick("call")
	e.file.Line()
	switch {
	case len(m.Doc) > 0:
	case m.OneWay:
		e.comment("%s calls %s and does not wait for it.", m.Name, e.methodLink(n, m))
	default:
		e.comment("%s calls %s.", m.Name, e.methodLink(n, m))
	}
	for _, line := range m.Doc {
		e.file.Comment(line)
	}
	if m.OneWay {
		e.tell(n, m, n.Ref(), l, recv, call)
		return
	}
	results := list(append(typed(m.Results, l.results), coded(l.err, jen.Error())))
	e.file.Func().Params(jen.Id(recv).Id(n.Ref())).Id(m.Name).Params(l.messageParams(m)...).Params(results...).BlockFunc(func(g *jen.Group) {
		g.List(jen.Id(turn), jen.Id(l.err)).Op(":=").Id(recv).Dot("ref").Dot("Begin").Call(jen.Id(l.ctx), jen.Lit(m.Wire))
		ifErr(g, l.err, l.withErr()...)
		entity, ok := l.pick("e"), l.pick("ok")
		g.If(
			jen.List(jen.Id(entity), jen.Id(ok)).Op(":=").Id(turn).Dot("Entity").Assert(e.entityType(n)),
			jen.Id(ok),
		).BlockFunc(func(g *jen.Group) {
			g.Defer().Id(turn).Dot("End").Call(jen.Lit(m.Wire), jen.Op("&").Id(l.err))
			e.localTurn(g, l, n, m, entity, turn)
		})
		g.Id(call).Op(":=").Id(recv).Dot("ref").Dot("Call").Call(jen.Id(l.ctx), jen.Lit(m.Wire))
		l.appendArgs(g, n, m, recv, call)
		if len(m.Results) == 0 {
			g.List(jen.Id("_"), jen.Id(l.err)).Op("=").Id(call).Dot("Do").Call()
			g.Return(jen.Id(l.err))
			return
		}
		reply := l.pick("reply")
		g.List(jen.Id(reply), jen.Id(l.err)).Op(":=").Id(call).Dot("Do").Call()
		ifErr(g, l.err, l.withErr()...)
		l.decodeReply(g, n, m, recv, reply)
	})
}

// localTurn emits the call of the method itself. Arguments and results are
// copied, and results beside an error dropped, as if they had crossed the wire.
func (e *emitter) localTurn(g *jen.Group, l *locals, n *model.Entity, m *model.Method, entity, turn string) {
	args := []jen.Code{jen.Id(turn).Dot("Context")}
	for i, p := range m.Params {
		v := jen.Id(l.params[i])
		if p.Type.CloneFallible {
			cloned := e.cloneValue(p.Type, v.Clone(), nil)
			g.If(jen.List(v.Clone(), jen.Id(l.err)).Op("=").Add(cloned), jen.Id(l.err).Op("!=").Nil()).
				Block(jen.Return(append(l.values(), copyError("arguments", n, m, l.err))...))
		} else {
			v = e.cloneValue(p.Type, v, nil)
		}
		if m.Variadic && i == len(m.Params)-1 {
			v = v.Clone().Op("...")
		}
		args = append(args, v)
	}
	ran := jen.Id(entity).Dot(m.Name).Call(args...)
	if len(m.Results) == 0 {
		g.Return(ran)
		return
	}
	var zeros, results []jen.Code
	for _, r := range m.Results {
		zeros = append(zeros, zero(r.Type.Zero, r.Type.Expr))
	}
	g.If(jen.List(l.withErr()...).Op("=").Add(ran), jen.Id(l.err).Op("!=").Nil()).
		Block(jen.Return(slices.Concat(zeros, []jen.Code{jen.Id(l.err)})...))
	for i, r := range m.Results {
		v := jen.Id(l.results[i])
		if r.Type.CloneFallible {
			cloned := e.cloneValue(r.Type, v.Clone(), nil)
			g.If(jen.List(v.Clone(), jen.Id(l.err)).Op("=").Add(cloned), jen.Id(l.err).Op("!=").Nil()).
				Block(jen.Return(append(zeros, copyError("results", n, m, l.err))...))
		} else {
			v = e.cloneValue(r.Type, v, nil)
		}
		results = append(results, v)
	}
	g.Return(append(results, jen.Nil())...)
}

// tellMethod emits a call without an answer.
func (e *emitter) tellMethod(n *model.Entity, m *model.Method) {
	l := e.messageLocals(m)
	recv, call := l.pick("t"), l.pick("call")
	e.comment("%s is [%s.%s] without an answer.", m.Name, n.API(), m.Name)
	e.tell(n, m, n.Tell(), l, recv, call)
}

// tell emits a method of a reference that sends a call without an answer.
func (e *emitter) tell(n *model.Entity, m *model.Method, ref string, l *locals, recv, call string) {
	l.results = nil
	e.file.Func().Params(jen.Id(recv).Id(ref)).Id(m.Name).Params(l.messageParams(m)...).Error().BlockFunc(func(g *jen.Group) {
		g.List(jen.Id(call), jen.Id(l.err)).Op(":=").Id(recv).Dot("ref").Dot("BeginTell").Call(jen.Id(l.ctx), jen.Lit(m.Wire))
		ifErr(g, l.err, jen.Id(l.err))
		l.appendArgs(g, n, m, recv, call)
		g.Return(jen.Id(call).Dot("Send").Call())
	})
}

// appendArgs emits the encoding of the arguments into the call.
func (l *locals) appendArgs(g *jen.Group, n *model.Entity, m *model.Method, recv, call string) {
	if len(m.Params) == 0 {
		return
	}
	target := jen.Id(call).Dot("Args")
	args := []jen.Code{target.Clone()}
	for _, name := range l.params {
		args = append(args, jen.Id(name))
	}
	encoded := jen.Id(n.AppendArgsFunc(m)).Call(args...)
	if !anyFallible(m.Params) {
		g.Add(target).Op("=").Add(encoded)
		return
	}
	g.If(jen.List(target, jen.Id(l.err)).Op("=").Add(encoded), jen.Id(l.err).Op("!=").Nil()).Block(jen.Return(append(l.values(), l.failed("NotEncoded", m, recv))...))
}

// messageParams prints the parameters of a generated method.
func (l *locals) messageParams(m *model.Method) []jen.Code {
	params := typed(m.Params, l.params)
	if m.Variadic {
		params[len(params)-1].variadic = true
	}
	return list(append([]parameter{coded(l.ctx, contextType())}, params...))
}

// decodeReply emits the decoding of the reply into the results.
func (l *locals) decodeReply(g *jen.Group, n *model.Entity, m *model.Method, recv, reply string) {
	decoded := jen.Id(n.DecodeReplyFunc(m)).Call(jen.Id(reply))
	g.If(jen.List(l.withErr()...).Op("=").Add(decoded), jen.Id(l.err).Op("!=").Nil()).
		Block(jen.Return(append(l.values(), l.failed("NotDecoded", m, recv))...))
	g.Return(append(l.values(), jen.Nil())...)
}

// failed prints the caller's error of a call that could not be encoded or decoded.
func (l *locals) failed(how string, m *model.Method, recv string) *jen.Statement {
	return jen.Id(recv).Dot("ref").Dot(how).Call(jen.Lit(m.Wire), jen.Id(l.err))
}

// values prints the results by name.
func (l *locals) values() []jen.Code { return ids(l.results) }

// withErr prints the results and the error by name.
func (l *locals) withErr() []jen.Code { return append(l.values(), jen.Id(l.err)) }

// copyError prints the error of the local turn whose arguments or results cannot be
// copied.
func copyError(what string, n *model.Entity, m *model.Method, err string) *jen.Statement {
	kind := "ArgumentsError"
	if what == "results" {
		kind = "ResultsError"
	}
	return wrapped(kind, encodeErrorOf(subject(what, n, m), err))
}

// wrapped prints an error of package codegen that holds a cause.
func wrapped(kind string, cause *jen.Statement) *jen.Statement {
	return jen.Op("&").Add(codegen(kind)).Values(field("Err", cause))
}

// encodeErrorOf prints the error of a value that cannot be put on the wire.
func encodeErrorOf(what, err string) *jen.Statement {
	return jen.Op("&").Add(codegen("EncodeError")).Values(field("What", jen.Lit(what)), field("Err", jen.Id(err)))
}

// subject names the arguments or results of a message in errors.
func subject(what string, n *model.Entity, m *model.Method) string {
	return strings.Join([]string{what, "of", n.Name + "." + m.Name}, " ")
}

func anyFallible(params []model.Param) bool {
	for _, p := range params {
		if p.Type.Fallible {
			return true
		}
	}
	return false
}
