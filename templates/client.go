package templates

import (
	"slices"
	"strconv"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type clientEmitter struct{ *emitter }

func (e clientEmitter) client(n *model.Entity) {
	f := e.file
	if n.Singleton {
		e.comment("%s makes references to the %s of the cluster. It is safe for concurrent use.", n.ClientType(), n.Name)
	} else if n.Pool {
		e.comment("%s makes references to instances of the pool %s. It is safe for concurrent use.", n.ClientType(), n.Name)
	} else {
		e.comment("%s makes references to %s entities. It is safe for concurrent use.", n.ClientType(), n.Name)
	}
	f.Type().Id(n.ClientType()).Struct(jen.Id("invoker").Add(codegen("Invoker")))

	e.comment("%s returns a client that calls through c, a [shard.Node] or a [shard.Conn].", n.NewClient())
	f.Func().Id(n.NewClient()).Params(jen.Id("c").Add(shard("Caller"))).Op("*").Id(n.ClientType()).Block(
		jen.Return(jen.Op("&").Id(n.ClientType()).Values(
			field("invoker", jen.Id("c").Dot("ShardInvoker").Call(jen.Id(n.KindFunc()).Call())),
		)),
	)

	if n.Pool {
		e.poolRefs(n)
	} else {
		e.refs(n)
	}

	which := "one"
	if n.Singleton {
		which = "the"
	}
	if n.Pool {
		e.comment("%s is a reference to instances of %s at any nodes. It is made by the methods of [%s] and safe for concurrent use.", n.Ref(), n.Name, n.ClientType())
	} else {
		e.comment("%s is a reference to %s %s at any node. It is made by [%s.Ref] and safe for concurrent use.", n.Ref(), which, n.Name, n.ClientType())
	}
	f.Type().Id(n.Ref()).Struct(jen.Id("ref").Op("*").Add(codegen("Ref")))
	for _, m := range n.Methods {
		e.refMethod(n, m)
	}

	if !n.HasTell() {
		return
	}
	comment := "%s is a reference to %s %s for calls without an answer. It is made by [%s.Tell] and safe for concurrent use. Its methods return an error only if the call was not sent."
	if !n.TellAll && slices.ContainsFunc(n.Methods, func(m *model.Method) bool { return !n.Tells(m) }) {
		comment += " It has methods with results only if the directive has tell=all."
	}
	e.comment(comment, n.Tell(), which, n.Name, n.ClientType())
	f.Type().Id(n.Tell()).Struct(jen.Id("ref").Op("*").Add(codegen("Ref")))
	for _, m := range n.Methods {
		if n.Tells(m) {
			e.tellMethod(n, m)
		}
	}
}

// refs emits the methods that make references to entities or to a singleton, and those that list
// entities.
func (e clientEmitter) refs(n *model.Entity) {
	f := e.file
	opts := jen.Id("opts").Op("...").Add(shard("CallOption"))
	recv := jen.Id("c").Op("*").Id(n.ClientType())
	var id, passed []jen.Code // empty for a singleton
	if n.Singleton {
		e.comment("Ref returns a reference to the %s. It makes no call.", n.Name)
	} else {
		id, passed = []jen.Code{jen.Id("id").Add(typ(n.ID.Type))}, []jen.Code{jen.Id("id")}
		e.comment("Ref returns a reference to the %s with that id. It makes no call; if the id is invalid, each call fails.", n.Name)
	}
	f.Func().Params(recv.Clone()).Id("Ref").Params(append(slices.Clone(id), opts.Clone())...).Id(n.Ref()).BlockFunc(func(g *jen.Group) {
		newRef(g, n, n.Ref())
	})

	if n.HasTell() {
		e.comment("Tell is like Ref, but its reference makes calls without an answer.")
		f.Func().Params(recv.Clone()).Id("Tell").Params(append(slices.Clone(id), opts.Clone())...).Id(n.Tell()).BlockFunc(func(g *jen.Group) {
			newRef(g, n, n.Tell())
		})
	}

	if n.Reminds() {
		e.reminders(n)
	}

	e.comment("API is like Ref, but returns the interface, so that tests can pass a plain struct.")
	f.Func().Params(recv.Clone()).Id("API").Params(id...).Id(n.API()).Block(
		jen.Return(jen.Id("c").Dot("Ref").Call(passed...)),
	)

	if !n.Singleton {
		e.list(n)
	}
	for _, f := range n.Indexes() {
		e.findBy(n, f)
	}
}

// poolRefs emits the methods that make references to a pool's instances.
func (e clientEmitter) poolRefs(n *model.Entity) {
	opts := func() *jen.Statement { return jen.Id("opts").Op("...").Add(shard("CallOption")) }
	recv := func() *jen.Statement { return jen.Id("c").Op("*").Id(n.ClientType()) }
	passed := jen.Id("opts").Op("...")
	invoker := jen.Id("c").Dot("invoker")
	choose := func(choice string, key jen.Code) *jen.Statement {
		return codegen("NewPoolRef").Call(invoker.Clone(), codegen("Pool"+choice), key, passed.Clone())
	}
	one := func(name string, param, ref *jen.Statement) {
		params := []jen.Code{opts()}
		if param != nil {
			params = []jen.Code{param, opts()}
		}
		e.file.Func().Params(recv()).Id(name).Params(params...).Id(n.Ref()).Block(
			jen.Return(jen.Id(n.Ref()).Values(field("ref", ref))),
		)
	}
	e.comment("Any returns a reference whose calls go each to an instance that is free: one at this process if it is idle, else the better one of two. A call that has not begun goes to another instance if its own is lost or overloaded.")
	one("Any", nil, choose("Any", jen.Lit("")))
	e.comment("Near is like Any, but prefers instances at this process also while they are busy.")
	one("Near", nil, choose("Near", jen.Lit("")))
	e.comment("Key returns a reference whose calls go to the same instance for the same key, as long as the number of instances stays.")
	one("Key", jen.Id("key").String(), choose("Key", jen.Id("key")))
	e.comment("At returns a reference to instance i, from 0. While there is no such instance, calls wait for it.")
	one("At", jen.Id("i").Int(), codegen("NewInstanceRef").Call(invoker.Clone(), jen.Id("i"), passed.Clone()))
	e.comment("Each yields references to all instances, in order. It waits up to Config.CallTimeout for the first one, and then yields none.")
	e.file.Func().Params(recv()).Id("Each").Params(opts()).Qual("iter", "Seq2").Types(jen.Int(), jen.Id(n.Ref())).Block(
		jen.Return(jen.Func().Params(jen.Id("yield").Func().Params(jen.Int(), jen.Id(n.Ref())).Bool()).Block(
			jen.For(jen.List(jen.Id("i"), jen.Id("ref")).Op(":=").Range().Add(codegen("PoolRefs").Call(invoker.Clone(), passed.Clone()))).Block(
				jen.If(jen.Op("!").Id("yield").Call(jen.Id("i"), jen.Id(n.Ref()).Values(field("ref", jen.Id("ref"))))).Block(jen.Return()),
			),
		)),
	)
	if n.HasTell() {
		e.comment("Tell is like Any, but its reference makes calls without an answer.")
		e.file.Func().Params(recv()).Id("Tell").Params(opts()).Id(n.Tell()).Block(
			jen.Return(jen.Id(n.Tell()).Values(field("ref", choose("Any", jen.Lit(""))))),
		)
	}
	e.comment("API is like Any, but returns the interface, so that tests can pass a plain struct.")
	e.file.Func().Params(recv()).Id("API").Params().Id(n.API()).Block(
		jen.Return(jen.Id("c").Dot("Any").Call()),
	)
}

// list emits the method that lists the entities.
func (e clientEmitter) list(n *model.Entity) {
	which := "that nodes have in memory, active or passivated"
	if n.Durable {
		which = "that have committed a change and not ended"
	}
	e.comment("List yields the ids of the %s entities %s, in the order of their bytes as on the wire. It ends after the first error. What is there throughout comes once; what comes or goes meanwhile may be missing.", n.Name, which)
	id := typ(n.ID.Type)
	e.file.Func().Params(jen.Id("c").Op("*").Id(n.ClientType())).Id("List").Params(
		jen.Id("ctx").Add(contextType()), jen.Id("opts").Op("...").Add(shard("ListOption")),
	).Qual("iter", "Seq2").Types(id, jen.Error()).Block(
		jen.Return(shard("ListEntities").Call(
			jen.Id("ctx"), jen.Id("c").Dot("invoker"), jen.Id(n.Extractor()).Values().Dot("EntityID"), parseID(n), jen.Id("opts").Op("..."),
		)),
	)
}

// findBy emits the methods that find entities by an indexed field.
func (e clientEmitter) findBy(n *model.Entity, f model.Field) {
	value := typ(f.Type.Expr)
	if n.Client != "" { // Client's package may not import that of the type
		value = typ(basicOf(f.Type))
	}
	find := func(name string, ends ...string) {
		params := []jen.Code{jen.Id("ctx").Add(contextType())}
		var names []jen.Code
		for _, end := range ends {
			names = append(names, jen.Id(end))
		}
		params = append(params, jen.List(names...).Add(value.Clone()), jen.Id("opts").Op("...").Add(shard("ListOption")))
		args := []jen.Code{
			jen.Id("ctx"), jen.Id("c").Dot("invoker"),
			codegen("Index").Values(indexOf(f)...),
		}
		for _, end := range ends {
			args = append(args, appendIndex(f, jen.Nil(), jen.Id(end)))
		}
		if len(ends) == 1 {
			args = append(args, jen.Nil())
		}
		args = append(args, jen.Id(n.Extractor()).Values().Dot("EntityID"), parseID(n), jen.Id("opts").Op("..."))
		e.file.Func().Params(jen.Id("c").Op("*").Id(n.ClientType())).Id(name).Params(params...).Qual("iter", "Seq2").Types(typ(n.ID.Type), jen.Error()).Block(
			jen.Return(shard("FindEntities").Call(args...)),
		)
	}
	e.comment("%s yields the ids of the %s entities whose %s is value, as List yields ids. What gets another value meanwhile may be missing.", f.FindBy(), n.Name, f.Name)
	find(f.FindBy(), "value")
	if f.Index != "b" {
		e.comment("%sBetween yields the ids of the %s entities whose %s is at least from and below to, in the order of the values. What gets another value meanwhile may be missing, or come again.", f.FindBy(), n.Name, f.Name)
		find(f.FindBy()+"Between", "from", "to")
	}
}

// indexOf prints the fields of f's codegen.Index.
func indexOf(f model.Field) []jen.Code {
	return []jen.Code{field("Field", jen.Lit(f.Name)), field("Kind", jen.Lit(strconv.Itoa(f.Number)+f.Index))}
}

// basicOf returns t's underlying predeclared type, or t itself.
func basicOf(t *model.Type) *model.Expr {
	switch t.Shape {
	case model.Bool:
		return &model.Expr{Name: "bool"}
	case model.String:
		return &model.Expr{Name: "string"}
	case model.Int, model.Uint:
		return &model.Expr{Name: t.Basic}
	}
	return t.Expr
}

// appendIndex prints the call that appends the index key of field f's value to b.
func appendIndex(f model.Field, b, value *jen.Statement) *jen.Statement {
	name := map[string]string{"b": "Bool", "s": "String", "t": "Time"}[f.Index]
	if f.Index == "i" {
		name = "Int"
		if f.Type.Shape == model.Uint {
			name = "Uint"
		}
	}
	return codegen("Append"+name+"Index").Call(b, jen.Lit(f.Number), value)
}

// reminders emits Unschedule, Scheduled, and the function named n.Self().
func (e clientEmitter) reminders(n *model.Entity) {
	recv, id := jen.Id("c").Op("*").Id(n.ClientType()), jen.Id("id").Add(typ(n.ID.Type))
	ref := func() *jen.Statement { return jen.Id("c").Dot("Ref").Call(jen.Id("id")).Dot("ref") }
	e.comment("Unschedule cancels a reminder, and reports whether there was one.")
	e.file.Func().Params(recv.Clone()).Id("Unschedule").Params(jen.Id("ctx").Add(contextType()), id.Clone(), jen.Id("name").String()).Params(jen.Id("there").Bool(), jen.Err().Error()).Block(
		jen.Return(shard("UnscheduleOf").Call(jen.Id("ctx"), ref(), jen.Id("name"))),
	)
	e.comment("Scheduled returns the reminders of the %s with that id.", n.Name)
	e.file.Func().Params(recv.Clone()).Id("Scheduled").Params(jen.Id("ctx").Add(contextType()), id.Clone()).Params(jen.Index().Add(shard("Reminder")), jen.Error()).Block(
		jen.Return(shard("ScheduledOf").Call(jen.Id("ctx"), ref())),
	)
	e.comment("%s is like [%s.Tell] for the %s whose turn ctx belongs to. Outside such a turn, each call fails.", n.Self(), n.ClientType(), n.Name)
	e.file.Func().Id(n.Self()).Params(jen.Id("ctx").Add(contextType()), jen.Id("opts").Op("...").Add(shard("CallOption"))).Id(n.Tell()).Block(
		jen.Return(jen.Id(n.Tell()).Values(field("ref", shard("SelfTell").Call(jen.Id("ctx"), jen.Lit(n.Kind), jen.Id("opts").Op("..."))))),
	)
}

// parseID prints the function that reads an id's wire form.
func parseID(n *model.Entity) *jen.Statement {
	id := typ(n.ID.Type)
	switch n.ID.Form {
	case model.IDInt:
		return codegen("ParseID").Types(id)
	case model.IDUint:
		return codegen("ParseUintID").Types(id)
	case model.IDText:
		return codegen("ParseTextID").Types(id)
	}
	return codegen("ParseStringID").Types(id)
}

func newRef(g *jen.Group, n *model.Entity, ref string) {
	if n.Singleton {
		g.Return(jen.Id(ref).Values(field("ref", codegen("NewSingletonRef").Call(jen.Id("c").Dot("invoker"), jen.Id("opts").Op("...")))))
		return
	}
	key, fallible := idBytes(n, jen.Id("id"))
	var err jen.Code = jen.Nil()
	if fallible {
		g.List(jen.Id("key"), jen.Err()).Op(":=").Add(key)
		key, err = jen.Id("key"), jen.Err()
	}
	g.Return(jen.Id(ref).Values(field("ref", codegen("NewRef").Call(
		jen.Id("c").Dot("invoker"), key, err, jen.Id("opts").Op("..."),
	))))
}

// idBytes prints an id's wire form, and reports whether that may fail.
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

// refMethod emits a reference's method. The method calls directly if the turn can begin on the
// caller's goroutine, and over the wire otherwise. It sends a tell for a method with the directive
// shard:tell.
func (e clientEmitter) refMethod(n *model.Entity, m *model.Method) {
	l := e.messageLocals(m)
	recv := l.pick("r")
	e.file.Line()
	switch {
	case len(m.Doc) > 0:
	case m.TellOnly:
		e.comment("%s calls %s without waiting for an answer.", m.Name, e.methodLink(n, m))
	default:
		e.comment("%s calls %s.", m.Name, e.methodLink(n, m))
	}
	for _, line := range m.Doc {
		e.file.Comment(line)
	}
	if m.TellOnly {
		e.tell(n, m, n.Ref(), l, recv)
		return
	}
	turn := l.pick("turn")
	results := list(append(typed(m.Results, l.results), coded(l.err, jen.Error())))
	e.file.Func().Params(jen.Id(recv).Id(n.Ref())).Id(m.Name).Params(l.messageParams(m)...).Params(results...).BlockFunc(func(g *jen.Group) {
		ref, method, begin := jen.Id(recv).Dot("ref"), jen.Lit(m.Wire), "Begin"
		if m.NoContext() {
			begin = "BeginNoContext"
		}
		g.List(jen.Id(turn), jen.Id(l.err)).Op(":=").Add(ref.Clone()).Dot(begin).Call(jen.Id(l.ctx), method.Clone())
		entity, ok := l.pick("e"), l.pick("ok")
		g.If(
			jen.List(jen.Id(entity), jen.Id(ok)).Op(":=").Id(turn).Dot("Entity").Assert(e.entityType(n)),
			jen.Id(ok),
		).BlockFunc(func(g *jen.Group) {
			g.Defer().Id(turn).Dot("End").Call(method.Clone(), jen.Op("&").Id(l.err))
			e.localTurn(g, l, m, entity, turn)
		})
		args := e.encodedArgs(g, l, n, m, func(err jen.Code) []jen.Code {
			return append(l.values(), ref.Clone().Dot("NotEncoded").Call(method.Clone(), err))
		})
		if len(m.Results) == 0 {
			g.Return(ref.Clone().Dot("Run").Call(jen.Id(l.ctx), method.Clone(), args, jen.Id(l.err)))
			return
		}
		g.Return(jen.Id(n.DecodeReplyFunc(m)).Call(ref.Clone().Dot("Ask").Call(jen.Id(l.ctx), method.Clone(), args, jen.Id(l.err))))
	})
}

// localTurn emits a direct call. As if over the wire, values are copied, and results beside an
// error are dropped.
func (e clientEmitter) localTurn(g *jen.Group, l *locals, m *model.Method, entity, turn string) {
	args := []jen.Code{jen.Id(turn).Dot("Context")}
	for i, p := range m.Params {
		v := jen.Id(l.params[i])
		if p.Type.CloneFallible {
			cloned := cloneEmitter(e).cloneValue(p.Type, v.Clone(), nil)
			g.If(jen.List(v.Clone(), jen.Id(l.err)).Op("=").Add(cloned), jen.Id(l.err).Op("!=").Nil()).
				Block(jen.Return(append(l.values(), bad("Arguments", l.err))...))
		} else {
			v = cloneEmitter(e).cloneValue(p.Type, v, nil)
		}
		if m.Variadic && i == len(m.Params)-1 {
			v = v.Clone().Op("...")
		}
		args = append(args, v)
	}
	ran := jen.Id(entity).Dot(m.Name).Call(args...)
	switch {
	case len(m.Results) == 0:
		g.Return(ran)
		return
	case len(m.Results) == 1 && m.Results[0].Type.Plain:
		g.Return(codegen("Result").Call(ran))
		return
	}
	var zeros []jen.Code
	for _, r := range m.Results {
		zeros = append(zeros, zero(r.Type.Zero, r.Type.Expr))
	}
	g.If(jen.List(l.withErr()...).Op("=").Add(ran), jen.Id(l.err).Op("!=").Nil()).
		Block(jen.Return(slices.Concat(zeros, []jen.Code{jen.Id(l.err)})...))
	e.localResults(g, l, m, zeros)
}

func (e clientEmitter) localResults(g *jen.Group, l *locals, m *model.Method, zeros []jen.Code) {
	var results []jen.Code
	for i, r := range m.Results {
		v := jen.Id(l.results[i])
		if !r.Type.CloneFallible {
			results = append(results, cloneEmitter(e).cloneValue(r.Type, v, nil))
			continue
		}
		cloned := jen.List(v, jen.Id(l.err)).Op("=").Add(cloneEmitter(e).cloneValue(r.Type, v.Clone(), nil))
		if len(m.Results) == 1 {
			g.Add(cloned)
			g.Return(v.Clone(), bad("Results", l.err))
			return
		}
		g.If(cloned, jen.Id(l.err).Op("!=").Nil()).Block(jen.Return(append(slices.Clone(zeros), bad("Results", l.err))...))
		results = append(results, v.Clone())
	}
	g.Return(append(results, jen.Nil())...)
}

func (e clientEmitter) tellMethod(n *model.Entity, m *model.Method) {
	l := e.messageLocals(m)
	recv := l.pick("t")
	e.comment("%s calls [%s.%s] without an answer.", m.Name, n.API(), m.Name)
	e.tell(n, m, n.Tell(), l, recv)
}

func (e clientEmitter) tell(n *model.Entity, m *model.Method, ref string, l *locals, recv string) {
	l.results = nil
	e.file.Func().Params(jen.Id(recv).Id(ref)).Id(m.Name).Params(l.messageParams(m)...).Error().BlockFunc(func(g *jen.Group) {
		to := jen.Id(recv).Dot("ref")
		args := e.encodedArgs(g, l, n, m, func(err jen.Code) []jen.Code {
			return []jen.Code{to.Clone().Dot("NotEncoded").Call(jen.Lit(m.Wire), err)}
		})
		g.Return(to.Clone().Dot("Tell").Call(jen.Id(l.ctx), jen.Lit(m.Wire), args))
	})
}

// encodedArgs emits the encoding of the arguments, and returns the buffer. failed prints what is
// returned after a failure.
func (e clientEmitter) encodedArgs(g *jen.Group, l *locals, n *model.Entity, m *model.Method, failed func(err jen.Code) []jen.Code) jen.Code {
	if len(m.Params) == 0 {
		return jen.Nil()
	}
	buffer := codegen("NewArgs").Call()
	encoded := jen.Id(n.AppendArgsFunc(m)).Call(append([]jen.Code{buffer}, ids(l.params)...)...)
	if len(m.Params) == 1 {
		encoded = codecEmitter(e).appendField(m.Params[0].Type, buffer, m.Params[0].Number, jen.Id(l.params[0]), nil)
	}
	switch args := l.pick("args"); {
	case m.ArgsFallible():
		bad := l.pick("bad") // err is the error of beginning the turn
		g.List(jen.Id(args), jen.Id(bad)).Op(":=").Add(encoded)
		ifErr(g, bad, failed(jen.Id(bad))...)
		return jen.Id(args)
	case len(m.Params) == 1 || n.HasAppendArgs(m):
		return encoded
	default:
		for i, place := range byNumber(m.Params) {
			p, v := m.Params[place], jen.Id(l.params[place])
			if i == 0 {
				g.Id(args).Op(":=").Add(codecEmitter(e).appendField(p.Type, buffer, p.Number, v, nil))
			} else {
				g.Id(args).Op("=").Add(codecEmitter(e).appendField(p.Type, jen.Id(args), p.Number, v, nil))
			}
		}
		return jen.Id(args)
	}
}

// bad prints the conversion of err, which may be nil, to the error for values that cannot be copied
// or encoded.
func bad(what, err string) *jen.Statement { return codegen("Bad" + what).Call(jen.Id(err)) }

func encodeErrorOf(what, err string) *jen.Statement {
	return jen.Op("&").Add(codegen("EncodeError")).Values(field("What", jen.Lit(what)), field("Err", jen.Id(err)))
}
