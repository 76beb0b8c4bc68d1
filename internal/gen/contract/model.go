package contract

import (
	"slices"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// Of returns the contract of a package's source, without numbers. It covers the package's entities,
// wherever their clients are. [Adopt] sets the numbers in the model.
func Of(pkg *model.Package) *Contract {
	o := &source{contract: &Contract{}, namer: newNamer(pkg), messages: make(map[string]*Message), errors: make(map[*model.Error]bool)}
	for _, e := range pkg.Entities {
		o.contract.Kinds = append(o.contract.Kinds, o.kind(e))
	}
	for _, p := range slices.Concat([]*model.Package{pkg}, pkg.Clients) {
		for _, t := range p.Types {
			o.message(t)
		}
		for _, e := range p.Errors {
			o.error(e)
		}
	}
	return o.contract
}

type source struct {
	*namer
	contract *Contract
	messages map[string]*Message // by name: a struct may be in several packages' code
	errors   map[*model.Error]bool
}

func (o *source) message(t *model.Type) {
	o.enum(t)
	if isNamedCircle(t) && o.messages[o.expr(t.Expr)] == nil {
		m := &Message{Name: o.expr(t.Expr), Is: o.unnamed(t)}
		o.messages[m.Name] = m
		o.contract.Messages = append(o.contract.Messages, m)
	}
	if t.Shape != model.Struct && t.Shape != model.Oneof {
		return
	}
	m := &Message{Name: o.typeName(t), Oneof: t.Shape == model.Oneof, set: []*[]int{&t.Retired}}
	for i := range t.Cases {
		c := &t.Cases[i]
		m.Fields = append(m.Fields, &Field{Name: c.Name, Type: o.typeName(c.Type), set: []*int{&c.Number}})
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		m.Fields = append(m.Fields, &Field{Name: f.Name, Type: o.typeName(f.Type), set: []*int{&f.Number}})
	}
	if known := o.messages[m.Name]; known != nil {
		for i, f := range m.Fields {
			known.Fields[i].set = append(known.Fields[i].set, f.set...)
		}
		known.set = append(known.set, m.set...)
		return
	}
	o.messages[m.Name] = m
	o.contract.Messages = append(o.contract.Messages, m)
}

func (o *source) enum(t *model.Type) {
	if len(t.Constants) == 0 || o.contract.enum(o.expr(t.Expr)) != nil {
		return
	}
	e := &Enum{Name: o.expr(t.Expr)}
	for _, c := range t.Constants {
		e.Values = append(e.Values, &Value{Name: c.Name, Number: c.Value})
	}
	o.contract.Enums = append(o.contract.Enums, e)
}

func (o *source) error(e *model.Error) {
	if o.errors[e] {
		return
	}
	o.errors[e] = true
	x := &Error{Name: e.Name, Wire: e.Name, set: &e.Wire}
	if e.Type != nil {
		x.Type = o.typeName(e.Type)
	}
	o.contract.Errors = append(o.contract.Errors, x)
}

var idForms = map[model.IDForm]string{
	model.IDString: "string", model.IDInt: "int", model.IDUint: "uint", model.IDText: "text",
}

func (o *source) kind(e *model.Entity) *Kind {
	k := &Kind{Name: e.Kind, ID: idForms[e.ID.Form], Hash: "xxh64", Shards: e.Shards, Singleton: e.Singleton, Pool: e.Pool, Durable: e.Durable, Version: e.Version, TTL: int(e.TTL / time.Minute)}
	if e.Hash != nil {
		k.Hash = e.Hash.Name
	}
	if !e.HasID() {
		k.ID = ""
	}
	if e.Pool {
		k.Hash = model.PoolHash
	}
	for i := range e.State {
		f := &e.State[i]
		k.State = append(k.State, &Field{Name: f.Name, Type: o.typeName(f.Type), Indexed: f.Index != "", set: []*int{&f.Number}})
	}
	if j := e.Journal; j != nil {
		k.Events = []*Field{{Name: j.Event.Name, Type: o.typeName(j.Event.Type), set: []*int{&j.Event.Number}}}
	}
	for _, m := range e.Methods {
		k.Methods = append(k.Methods, &Method{
			Name: m.Name, Wire: m.Name, Tell: m.TellOnly, Read: m.Read, set: &m.Wire,
			Args: o.params(m.Params, "arg"), Results: o.params(m.Results, "result"),
		})
	}
	return k
}

func (o *source) params(params []model.Param, role string) []*Field {
	var fields []*Field
	for i := range params {
		p := &params[i]
		f := &Field{Name: p.Name, Type: o.typeName(p.Type), set: []*int{&p.Number}}
		if p.Name == "" || p.Name == "_" {
			f.Name, f.Unnamed = role+strconv.Itoa(i+1), true
		}
		fields = append(fields, f)
	}
	return fields
}
