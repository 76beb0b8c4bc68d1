package templates

import (
	"slices"
	"strings"
	"time"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type hostEmitter struct{ *emitter }

// host emits the host function and, for clients in another package, a check that the entity
// implements their interface.
func (e hostEmitter) host(n *model.Entity) {
	if n.Singleton {
		e.comment("%s lets n host the cluster's %s. It must be called before n starts. Each activation at n calls factory, which returns an instance without state.", n.Host(), n.Name)
	} else if n.Pool {
		e.comment("%s lets n host instances of the pool %s. It must be called before n starts. Each activation at n calls factory.", n.Host(), n.Name)
	} else {
		e.comment("%s lets n host %s entities. It must be called before n starts. Each activation calls factory, which returns an entity without state.", n.Host(), n.Name)
	}
	e.file.Func().Id(n.Host()).Params(
		jen.Id("n").Op("*").Add(shard("Node")),
		jen.Id("factory").Func().Params().Op("*").Id(n.Name),
		jen.Id("opts").Op("...").Add(shard("HostOption")),
	).Error().BlockFunc(func(g *jen.Group) {
		if n.Client == "" {
			g.Return(jen.Id("n").Dot("Host").Call(codegen("Host").Add(fields(e.hostFields(n)...)), jen.Id("opts").Op("...")))
			return
		}
		g.Id("host").Op(":=").Qual(n.Client, n.Describe()).Call()
		for _, f := range ownFields(n) {
			g.Id("host").Dot(f.name).Op("=").Add(f.value)
		}
		g.Return(jen.Id("n").Dot("Host").Call(jen.Id("host"), jen.Id("opts").Op("...")))
	})
	if n.Client != "" {
		e.file.Line()
		e.file.Var().Id("_").Qual(n.Client, n.API()).Op("=").Parens(jen.Op("*").Id(n.Name)).Call(jen.Nil())
	}
}

func (e hostEmitter) glue(n *model.Entity) {
	if n.ID.Field != "" {
		e.setID(n)
	}
	if n.Hooks.Activate {
		e.hook(n.ActivateFunc(), n, "OnActivate", "a", "Activation")
	}
	if n.Hooks.Passivate {
		e.hook(n.PassivateFunc(), n, "OnPassivate", "p", "Passivation")
	}
}

// describe emits the function that describes n to the package that hosts it.
func (e hostEmitter) describe(n *model.Entity) {
	e.comment("%s describes %s to the package that hosts it.", n.Describe(), n.Name)
	e.file.Func().Id(n.Describe()).Params().Add(codegen("Host")).Block(
		jen.Return(codegen("Host").Add(fields(printed(e.clientFields(n))...))),
	)
}

type hostField struct {
	name  string
	value *jen.Statement
}

func printed(list []hostField) []jen.Code {
	codes := make([]jen.Code, len(list))
	for i, f := range list {
		codes[i] = field(f.name, f.value)
	}
	return codes
}

// hostFields returns the fields of n's codegen.Host, in order.
func (e hostEmitter) hostFields(n *model.Entity) []jen.Code {
	client, own := e.clientFields(n), ownFields(n)
	return printed(slices.Concat(client[:1], own[:1], client[1:], own[1:]))
}

// clientFields returns fields of codegen.Host that the client's package knows: the kind, and how
// methods run.
func (e hostEmitter) clientFields(n *model.Entity) []hostField {
	var methods []jen.Code
	for _, m := range sortedMethods(n) {
		run := jen.Id(n.DispatchFunc(m))
		if !m.HasDispatch() {
			run = codegen("Run").Call(e.methodOf(n, m))
		}
		methods = append(methods, jen.Lit(m.Wire).Op(":").Add(run))
	}
	list := []hostField{
		{"Kind", jen.Id(n.KindFunc()).Call()},
		{"Dispatch", jen.Map(jen.String()).Add(codegen("Method")).Add(fields(methods...))},
	}
	set := func(name string, has func(*model.Method) bool) {
		var methods []jen.Code
		for _, m := range sortedMethods(n) {
			if has(m) {
				methods = append(methods, jen.Lit(m.Wire).Op(":").True())
			}
		}
		if len(methods) > 0 {
			list = append(list, hostField{name, jen.Map(jen.String()).Bool().Values(methods...)})
		}
	}
	set("Reads", func(m *model.Method) bool { return m.Read })
	set("NoContext", (*model.Method).NoContext)
	return list
}

// ownFields returns fields of codegen.Host that only the entity's package knows: the factory and
// the state's functions.
func ownFields(n *model.Entity) []hostField {
	list := []hostField{{"New", codegen("Factory").Call(jen.Id("factory"))}}
	optional := func(name, function string, have bool) {
		if have {
			list = append(list, hostField{name, jen.Id(function)})
		}
	}
	if n.MethodCount > 0 {
		list = append(list,
			hostField{"Struct", jen.Parens(jen.Op("*").Id(n.Name)).Call(jen.Nil())},
			hostField{"Exported", jen.Lit(n.MethodCount)},
		)
	}
	optional("SetID", n.SetIDFunc(), n.ID.Field != "")
	optional("AppendState", n.AppendStateFunc(), len(n.State) > 0)
	optional("DecodeState", n.DecodeStateFunc(), len(n.State) > 0)
	optional("StateFields", n.StateFieldsFunc(), len(n.State) > 0)
	if all := n.Indexes(); len(all) > 0 {
		var indexes []jen.Code
		for _, f := range all {
			indexes = append(indexes, jen.Values(indexOf(f)...))
		}
		list = append(list, hostField{"Indexes", jen.Index().Add(codegen("Index")).Values(indexes...)}, hostField{"AppendIndexes", jen.Id(n.AppendIndexesFunc())})
	}
	if n.Journal != nil {
		list = append(list, hostField{"Events", events(n)})
	}
	optional("Activate", n.ActivateFunc(), n.Hooks.Activate)
	optional("Passivate", n.PassivateFunc(), n.Hooks.Passivate)
	return list
}

// kind emits n's codegen.Kind, which must be the same for callers and hosts.
func (e hostEmitter) kind(n *model.Entity) {
	var names []jen.Code
	for _, m := range sortedMethods(n) {
		names = append(names, jen.Lit(m.Wire))
	}
	list := []jen.Code{
		field("Name", jen.Lit(n.Kind)),
		field("Package", jen.Lit(e.hostPath())),
		field("Shards", jen.Lit(n.Shards)),
	}
	if n.Singleton {
		list = append(list, field("Singleton", jen.True()))
	}
	if n.Pool {
		list = append(list, field("Pool", jen.True()))
		if again := again(n); len(again) > 0 {
			list = append(list, field("Again", jen.Index().String().Values(again...)))
		}
		list = append(list, field("HashName", jen.Lit(model.PoolHash)), field("Hash", codegen("PoolHash").Call(jen.Lit(n.Shards))))
	} else if n.Hash == nil {
		list = append(list, field("HashName", jen.Lit("xxh64")))
	} else {
		list = append(list, field("HashName", jen.Lit(n.Hash.Name)), field("Hash", jen.Id(n.HashFunc())))
	}
	list = append(list, field("Methods", jen.Index().String().Values(names...)))
	if n.JSON {
		list = append(list, field("JSON", jen.Id(n.JSONFunc())))
	}
	list = append(list, field("Errors", jen.Id(model.ErrorsFunc)))
	if len(n.State) > 0 {
		list = append(list, field("Stateful", jen.True()))
	}
	if n.Durable {
		list = append(list, field("Durable", jen.True()))
	}
	if n.Version > 1 {
		list = append(list, field("StateVersion", jen.Lit(n.Version)))
	}
	if n.Contract != "" {
		list = append(list, field("Contract", jen.Lit(n.Contract)))
	}
	if n.TTL > 0 {
		list = append(list, field("TTL", jen.Lit(int(n.TTL/time.Minute)).Op("*").Qual("time", "Minute")))
	}
	e.comment("%s describes %s. It must be the same at all members of a cluster.", n.KindFunc(), n.Name)
	e.file.Func().Id(n.KindFunc()).Params().Add(codegen("Kind")).Block(
		jen.Return(codegen("Kind").Add(fields(list...))),
	)
	if e.isClient() {
		e.describe(n)
	}
	if n.Hash != nil {
		e.hash(n)
	}
}

// again prints the names of the methods that may run twice.
func again(n *model.Entity) (names []jen.Code) {
	for _, m := range sortedMethods(n) {
		if m.Read {
			names = append(names, jen.Lit(m.Wire))
		}
	}
	return names
}

func sortedMethods(n *model.Entity) []*model.Method {
	return slices.SortedFunc(slices.Values(n.Methods), func(a, b *model.Method) int {
		return strings.Compare(a.Wire, b.Wire)
	})
}

// parsedID prints the expression that parses the wire form in the variable id. fallible reports that
// the expression also returns an error.
func parsedID(n *model.Entity) (id *jen.Statement, fallible bool) {
	t := typ(n.ID.Type)
	if n.ID.Form != model.IDString {
		return parseID(n).Call(jen.Id("id")), true
	}
	if n.ID.Type.Path == "" && n.ID.Type.Name == "string" {
		return jen.Id("id"), false
	}
	return t.Call(jen.Id("id")), false
}

func (e hostEmitter) hash(n *model.Entity) {
	e.comment("%s returns the hash of an id: the result of [%s], with mixed bits.", n.HashFunc(), n.Hash.Func)
	e.file.Func().Id(n.HashFunc()).Params(jen.Id("id").String()).Params(jen.Uint64(), jen.Error()).BlockFunc(func(g *jen.Group) {
		key, fallible := parsedID(n)
		if fallible {
			g.List(jen.Id("key"), jen.Err()).Op(":=").Add(key)
			ifErr(g, "err", jen.Lit(0), jen.Err())
			key = jen.Id("key")
		}
		g.Return(codegen("MixHash").Call(jen.Id(n.Hash.Func).Call(key)), jen.Nil())
	})
}

func (e hostEmitter) setID(n *model.Entity) {
	e.comment("%s sets the id field of %s.", n.SetIDFunc(), article(n.Name))
	key, fallible := parsedID(n)
	result := jen.Error()
	if fallible {
		result = jen.Params(jen.Err().Error())
	}
	e.file.Func().Id(n.SetIDFunc()).Params(jen.Id("entity").Any(), jen.Id("id").String()).Add(result).BlockFunc(func(g *jen.Group) {
		target := jen.Id("entity").Assert(jen.Op("*").Id(n.Name)).Dot(n.ID.Field)
		if fallible {
			g.List(target, jen.Err()).Op("=").Add(key)
			g.Return(jen.Err())
			return
		}
		g.Add(target).Op("=").Add(key)
		g.Return(jen.Nil())
	})
}

func (e hostEmitter) hook(function string, n *model.Entity, method, arg, reason string) {
	e.comment("%s calls [%s.%s].", function, n.Name, method)
	e.file.Func().Id(function).Params(
		jen.Id("ctx").Add(contextType()), jen.Id("entity").Any(), jen.Id(arg).Add(codegen(reason)),
	).Error().Block(
		jen.Return(jen.Id("entity").Assert(jen.Op("*").Id(n.Name)).Dot(method).Call(jen.Id("ctx"), jen.Id(arg))),
	)
}
