package model

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The names that generated code declares for an entity.

// API is the generated interface.
func (e *Entity) API() string { return e.Name + "API" }

// ClientType is the generated client type.
func (e *Entity) ClientType() string { return e.Name + "Client" }

// NewClient is the client's constructor.
func (e *Entity) NewClient() string { return "New" + e.ClientType() }

// Ref is the generated reference type.
func (e *Entity) Ref() string { return e.Name + "Ref" }

// Tell is the generated one-way reference type.
func (e *Entity) Tell() string { return e.Name + "Tell" }

// Extractor is the generated extractor type.
func (e *Entity) Extractor() string { return e.Name + "Extractor" }

// Host is the generated host function.
func (e *Entity) Host() string { return "Host" + e.Name }

// Describe returns, in a client's own package, the name of the description for the host function.
func (e *Entity) Describe() string { return "Describe" + e.Name }

// Message is the interface of the messages that say themselves which entity they
// are for.
func (e *Entity) Message() string { return e.Name + "Message" }

// AddressFunc is the method with which such a message tells its entity's id.
func (e *Entity) AddressFunc() string { return Lower(e.Name) + "Address" }

// DeliverFunc is the method with which such a message calls its method.
func (e *Entity) DeliverFunc() string { return "deliverTo" + e.Name }

// JSONFunc returns the name of the function that converts messages from and to JSON.
func (e *Entity) JSONFunc() string { return Lower(e.Name) + "JSON" }

// JSONArgsFunc encodes a message's arguments that come as JSON.
func (e *Entity) JSONArgsFunc(m *Method) string { return "json" + e.glue(m) + "Args" }

// JSONReplyFunc writes a message's results as JSON.
func (e *Entity) JSONReplyFunc(m *Method) string { return "json" + e.glue(m) + "Reply" }

// KindFunc returns the kind's description.
func (e *Entity) KindFunc() string { return Lower(e.Name) + "Kind" }

// HashFunc adapts the user's shard function.
func (e *Entity) HashFunc() string { return "hash" + e.Name }

// SetIDFunc sets the field tagged id.
func (e *Entity) SetIDFunc() string { return "set" + e.Name + "ID" }

// AppendStateFunc encodes the fields tagged state.
func (e *Entity) AppendStateFunc() string { return "append" + e.Name + "State" }

// DecodeStateFunc decodes the fields tagged state.
func (e *Entity) DecodeStateFunc() string { return "decode" + e.Name + "State" }

// StateFieldsFunc reports which fields of the state are known.
func (e *Entity) StateFieldsFunc() string { return "known" + e.Name + "State" }

// ActivateFunc calls the activation hook.
func (e *Entity) ActivateFunc() string { return "activate" + e.Name }

// PassivateFunc calls the passivation hook.
func (e *Entity) PassivateFunc() string { return "passivate" + e.Name }

// DispatchFunc runs a message.
func (e *Entity) DispatchFunc(m *Method) string { return "dispatch" + e.glue(m) }

// AppendArgsFunc encodes a message's arguments.
func (e *Entity) AppendArgsFunc(m *Method) string { return "append" + e.glue(m) + "Args" }

// DecodeReplyFunc decodes a message's results.
func (e *Entity) DecodeReplyFunc(m *Method) string { return "decode" + e.glue(m) + "Reply" }

// Exported returns the exported names that the code in the entity's own package
// declares.
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
	if !e.Singleton {
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

// Declares returns all names that the code in the entity's own package declares.
func (e *Entity) Declares() []string {
	if e.Client != "" {
		return e.declaredByHost()
	}
	return append(e.DeclaredByClient(), e.declaredByHost()...)
}

// DeclaredByClient returns the names that the client's code declares, wherever it
// stands.
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
	if e.Hooks.Activate {
		names = append(names, e.ActivateFunc())
	}
	if e.Hooks.Passivate {
		names = append(names, e.PassivateFunc())
	}
	return names
}

// Functions of a type.

// AppendFunc encodes a field of the type.
func (t *Type) AppendFunc() string { return "append" + t.Name }

// ReadFunc decodes a field of the type.
func (t *Type) ReadFunc() string { return "read" + t.Name }

// CloneFunc copies a value of the type.
func (t *Type) CloneFunc() string { return "clone" + t.Name }

// InitFunc makes the maps in a value of the type.
func (t *Type) InitFunc() string { return "init" + t.Name }

// KnownFunc reports which fields of the type are known.
func (t *Type) KnownFunc() string { return "known" + t.Name }

// AppendElementFunc encodes a value as an element, in a message of its own.
func (t *Type) AppendElementFunc() string { return "append" + t.Name + "Element" }

// ReadElementFunc decodes an element.
func (t *Type) ReadElementFunc() string { return "read" + t.Name + "Element" }

// EncodeFunc encodes a value of an error's type by itself.
func (t *Type) EncodeFunc() string { return "encode" + t.Name }

// DecodeFunc decodes a value of an error's type.
func (t *Type) DecodeFunc() string { return "decode" + t.Name }

// ErrorsFunc adds the errors of a package with clients to a set. It is exported:
// packages that use the clients call it.
const ErrorsFunc = "ShardErrors"

// OneofsFunc returns the interfaces of the package that have cases, for JSON.
const OneofsFunc = "shardOneofs"

// TypeFuncs returns the names that a type of that name may declare.
func TypeFuncs(name string) []string {
	return []string{
		"append" + name, "read" + name, "clone" + name, "init" + name, "append" + name + "Element", "read" + name + "Element",
		"encode" + name, "decode" + name, "known" + name, "unknown" + name,
	}
}

// Lower returns name with its first word in lower case: "stock", "httpServer".
func Lower(name string) string {
	upper := 0
	for i, r := range name {
		if !unicode.IsUpper(r) {
			break
		}
		upper = i + utf8.RuneLen(r)
	}
	if upper == 0 {
		return name
	}
	_, first := utf8.DecodeRuneInString(name)
	if upper < len(name) && upper > first {
		// The last upper letter begins the next word.
		_, last := utf8.DecodeLastRuneInString(name[:upper])
		upper -= last
	}
	return strings.ToLower(name[:upper]) + name[upper:]
}

// Upper returns name with its first letter in upper case.
func Upper(name string) string {
	r, n := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(r)) + name[n:]
}
