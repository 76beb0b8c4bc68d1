package model

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Entity is a struct with a directive shard:entity, shard:singleton or shard:pool.
type Entity struct {
	Name      string        // the struct's
	Kind      string        // on the wire
	Client    string        // path of the package that its client is in; "" means the entity's own package
	Singleton bool          // a cluster has one, and it has no id
	Pool      bool          // its instances are numbered, one a shard
	Shards    int           // a power of two
	JSON      bool          // its messages have a form in JSON, for gateways and CallRaw
	Version   int           // of a durable entity's state; 0 means 1
	Durable   bool          // its state is in the store
	TTL       time.Duration // a durable entity expires after this time without a commit; 0 means never
	TellAll   bool          // methods with results have a tell, too
	Hash      *Hash         // nil means XXH64
	Contract  string        // a hash of its contract
	ID        ID
	Methods   []*Method // in source order
	// Addressed are the message structs of the entity's methods.
	Addressed []*Addressed
	State     []Field
	Journal   *Journal // nil means none
	Hooks     Hooks
	// Own are all fields of the struct, in order; nil if generated code cannot name all of them.
	Own []OwnField
	// MethodCount is the number of exported methods of the struct, including promoted ones; 0 if
	// that number may change without a change in the struct's package.
	MethodCount int
}

// An OwnField is any field of an entity's struct, with or without a tag.
type OwnField struct {
	Name string
	Lock *Expr // the type of a lock, which must not be copied; otherwise nil
}

// An Addressed is a message struct: a struct of the client's package with a field tagged id, and
// the only argument of a method. The field names the entity of the call.
type Addressed struct {
	Method  *Method
	Struct  *Expr
	Pointer bool   // the method takes a pointer to it
	Field   string // tagged id, of the type of the entity's id
}

// A Hash is the user's own shard function, which hash= names.
type Hash struct {
	Func string // of the client's package
	Name string // on the wire, with the function that mixes Func's results: splitmix64(example.com/shop.ByWarehouse)
}

// PoolHash is the name of a pool's shard function on the wire.
const PoolHash = "pool"

// An ID is the field that identifies an entity within its kind.
type ID struct {
	Field string // tagged id; "" if there is none
	Type  *Expr
	Form  IDForm
}

// IDForm is the encoding of an id on the wire.
type IDForm int

// The forms of ids.
const (
	IDString IDForm = iota // the string itself
	IDInt                  // decimal
	IDUint                 // decimal
	IDText                 // MarshalText
)

// A Journal keeps the events of a durable entity.
type Journal struct {
	Field string // of the entity
	Event Field
	// Every is the number of events after which the state is written again. Age, Count and
	// Followers say which events are kept. Zero values mean the runtime's defaults.
	Every     int
	Age       time.Duration
	Count     int
	Followers bool
}

// Hooks says which hooks an entity declares.
type Hooks struct {
	Activate, Passivate bool
}

// Tells reports whether callers can send m as a tell.
func (e *Entity) Tells(m *Method) bool { return len(m.Results) == 0 || e.TellAll }

// HasTell reports whether callers can send any of the methods as a tell.
func (e *Entity) HasTell() bool { return slices.ContainsFunc(e.Methods, e.Tells) }

// HasAppendArgs reports whether code for message m has a function of its own that encodes m's
// arguments: m has several arguments, and either more than one function encodes them or encoding
// may fail.
func (e *Entity) HasAppendArgs(m *Method) bool {
	return len(m.Params) > 1 && (m.ArgsFallible() || e.Tells(m) || e.JSON)
}

// A Field is a field that is encoded, of a struct, an entity's state or a journal.
type Field struct {
	Name   string
	Number int // from 1
	Type   *Type
	// Index is the kind of index of a field of an entity's state: b, i, s or t for a bool, an
	// integer, a string or a time. "" means that the field has no index.
	Index string
}

// Indexes returns the indexed fields, in the order of their numbers.
func (e *Entity) Indexes() (list []Field) {
	for _, f := range e.State {
		if f.Index != "" {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b Field) int { return a.Number - b.Number })
	return list
}

// FindBy names the client's method that finds entities by f.
func (f Field) FindBy() string { return "FindBy" + strings.ToUpper(f.Name[:1]) + f.Name[1:] }

func (e *Entity) glue(m *Method) string {
	if m.Glue != "" {
		return m.Glue
	}
	return e.Name + m.Name
}

// Distinguish makes the names of functions for e's messages unique: those for Foo.BarBaz and
// FooBar.Baz would be the same otherwise.
func (e *Entity) Distinguish(taken map[string]bool) {
	for _, m := range e.Methods {
		m.Glue = ""
		for i := 2; slices.ContainsFunc(e.declaredByMethod(m), func(name string) bool { return taken[name] }); i++ {
			m.Glue = e.Name + m.Name + strconv.Itoa(i)
		}
	}
}

// API names the generated interface.
func (e *Entity) API() string { return e.Name + "API" }

// ClientType names the generated client type.
func (e *Entity) ClientType() string { return e.Name + "Client" }

// NewClient names the client's constructor.
func (e *Entity) NewClient() string { return "New" + e.ClientType() }

// Ref names the generated reference type.
func (e *Entity) Ref() string { return e.Name + "Ref" }

// Tell names the generated type of references for tells.
func (e *Entity) Tell() string { return e.Name + "Tell" }

// Reminds reports whether the entity can have reminders.
func (e *Entity) Reminds() bool { return e.HasID() && e.HasTell() }

// HasID reports whether callers name an entity by its id: it is neither a singleton nor a pool.
func (e *Entity) HasID() bool { return !e.Singleton && !e.Pool }

// Self returns the name of the function that returns an entity's reference for tells to itself.
func (e *Entity) Self() string { return e.Name + "Self" }

// Extractor names the generated extractor type.
func (e *Entity) Extractor() string { return e.Name + "Extractor" }

// Host names the generated host function.
func (e *Entity) Host() string { return "Host" + e.Name }

// Describe names the function by which a client's separate package describes the entity to the
// package that hosts it.
func (e *Entity) Describe() string { return "Describe" + e.Name }

// Message names the interface of the message structs.
func (e *Entity) Message() string { return e.Name + "Message" }

// AddressFunc names the method of a message struct that returns the entity's id.
func (e *Entity) AddressFunc() string { return Lower(e.Name) + "Address" }

// DeliverFunc names the method of a message struct that makes the call.
func (e *Entity) DeliverFunc() string { return "deliverTo" + e.Name }

// JSONFunc names the function that returns the functions converting a method's arguments from JSON
// and its results to JSON.
func (e *Entity) JSONFunc() string { return Lower(e.Name) + "JSON" }

// JSONArgsFunc names the function that encodes a message's arguments given as JSON.
func (e *Entity) JSONArgsFunc(m *Method) string { return "json" + e.glue(m) + "Args" }

// JSONReplyFunc names the function that writes a message's results as JSON.
func (e *Entity) JSONReplyFunc(m *Method) string { return "json" + e.glue(m) + "Reply" }

// KindFunc names the function that returns the kind's description.
func (e *Entity) KindFunc() string { return Lower(e.Name) + "Kind" }

// HashFunc names the function that adapts the user's shard function.
func (e *Entity) HashFunc() string { return "hash" + e.Name }

// SetIDFunc names the function that sets the field tagged id.
func (e *Entity) SetIDFunc() string { return "set" + e.Name + "ID" }

// AppendStateFunc names the function that encodes the fields tagged state.
func (e *Entity) AppendStateFunc() string { return "append" + e.Name + "State" }

// DecodeStateFunc names the function that decodes the fields tagged state.
func (e *Entity) DecodeStateFunc() string { return "decode" + e.Name + "State" }

// AppendIndexesFunc names the function that appends the keys of the fields tagged index.
func (e *Entity) AppendIndexesFunc() string { return "append" + e.Name + "Indexes" }

// StateFieldsFunc names the function that reports the known fields of the state.
func (e *Entity) StateFieldsFunc() string { return "known" + e.Name + "State" }

// TakeEventsFunc names the function that encodes the events recorded by a turn.
func (e *Entity) TakeEventsFunc() string { return "take" + e.Name + "Events" }

// AppendEventFunc names the function that encodes an event.
func (e *Entity) AppendEventFunc() string { return "append" + e.Name + "Event" }

// DecodeEventFunc names the function that decodes an event.
func (e *Entity) DecodeEventFunc() string { return "decode" + e.Name + "Event" }

// ApplyEventFunc names the function that applies an encoded event.
func (e *Entity) ApplyEventFunc() string { return "apply" + e.Name + "Event" }

// ActivateFunc names the function that calls the activation hook.
func (e *Entity) ActivateFunc() string { return "activate" + e.Name }

// PassivateFunc names the function that calls the passivation hook.
func (e *Entity) PassivateFunc() string { return "passivate" + e.Name }

// DispatchFunc names the function that runs a message.
func (e *Entity) DispatchFunc(m *Method) string { return "dispatch" + e.glue(m) }

// AppendArgsFunc names the function that encodes a message's arguments.
func (e *Entity) AppendArgsFunc(m *Method) string { return "append" + e.glue(m) + "Args" }

// DecodeReplyFunc names the function that decodes a message's results.
func (e *Entity) DecodeReplyFunc(m *Method) string { return "decode" + e.glue(m) + "Reply" }

// Exported returns the exported names that generated code in the entity's own package declares.
func (e *Entity) Exported() []string {
	if e.Client != "" {
		return []string{e.Host()}
	}
	return append(e.exportedByClient(), e.Host())
}

func (e *Entity) exportedByClient() []string {
	names := []string{e.API(), e.ClientType(), e.NewClient(), e.Ref()}
	if e.HasTell() {
		names = append(names, e.Tell())
	}
	if e.Reminds() {
		names = append(names, e.Self())
	}
	if e.HasID() {
		names = append(names, e.Extractor())
	}
	if len(e.Addressed) > 0 {
		names = append(names, e.Message())
	}
	if e.Client != "" {
		names = append(names, e.Describe())
	}
	return names
}

// Declares returns all names that generated code in the entity's own package declares.
func (e *Entity) Declares() []string {
	if e.Client != "" {
		return e.declaredByHost()
	}
	return append(e.DeclaredByClient(), e.declaredByHost()...)
}

// DeclaredByClient returns the names that the generated client declares, in whichever package it
// is.
func (e *Entity) DeclaredByClient() []string {
	names := append(e.exportedByClient(), e.KindFunc())
	if e.JSON {
		names = append(names, e.JSONFunc())
	}
	if e.Hash != nil {
		names = append(names, e.HashFunc())
	}
	for _, m := range e.Methods {
		names = append(names, e.declaredByMethod(m)...)
	}
	return names
}

func (e *Entity) declaredByMethod(m *Method) []string {
	var names []string
	if m.HasDispatch() {
		names = append(names, e.DispatchFunc(m))
	}
	if e.HasAppendArgs(m) {
		names = append(names, e.AppendArgsFunc(m))
	}
	if len(m.Results) > 0 {
		names = append(names, e.DecodeReplyFunc(m))
	}
	if e.JSON && len(m.Params) > 0 {
		names = append(names, e.JSONArgsFunc(m))
	}
	if e.JSON && len(m.Results) > 0 {
		names = append(names, e.JSONReplyFunc(m))
	}
	return names
}

func (e *Entity) declaredByHost() []string {
	names := []string{e.Host()}
	if e.ID.Field != "" {
		names = append(names, e.SetIDFunc())
	}
	if len(e.State) > 0 {
		names = append(names, e.AppendStateFunc(), e.DecodeStateFunc(), e.StateFieldsFunc())
	}
	if len(e.Indexes()) > 0 {
		names = append(names, e.AppendIndexesFunc())
	}
	if e.Journal != nil {
		names = append(names, e.TakeEventsFunc(), e.AppendEventFunc(), e.DecodeEventFunc(), e.ApplyEventFunc())
	}
	if e.Hooks.Activate {
		names = append(names, e.ActivateFunc())
	}
	if e.Hooks.Passivate {
		names = append(names, e.PassivateFunc())
	}
	return names
}

// An Error is an error variable or type with the directive //shard:error.
type Error struct {
	Name    string // in Go, unique in its package
	Wire    string // on the wire
	Var     *Expr  // a sentinel; else nil
	Type    *Type  // a type that is an error; else nil
	Pointer bool   // pointers to Type are errors, values of it are not
}

// Foreign reports whether an error is another package's variable.
func (e *Error) Foreign() bool { return e.Var != nil && e.Name != e.Var.Name }
