package contract

import (
	"cmp"
	"slices"
	"strings"
)

// A Contract is the contract of one package: the entries of its present source, and the retired
// entries.
type Contract struct {
	Kinds    []*Kind
	Messages []*Message // the structs that cross the wire
	Errors   []*Error
	Enums    []*Enum
}

// A Kind is an entity type.
type Kind struct {
	Name      string
	ID        string // string, int, uint or text; "" of a singleton
	Hash      string // the shard function
	Shards    int
	Singleton bool
	Pool      bool // its ids are numbers of instances
	Durable   bool // its state is in the store, and outlives programs
	Version   int  // of a durable kind's state; 0 means 1
	TTL       int  // minutes without a commit, after which a durable entity expires; 0 means never
	Methods   []*Method
	State     []*Field
	Events    []*Field // the type of the journal's events; empty without a journal
	Retired   bool     // gone; its name is never used again
	line      int
}

// A Method is a method of an entity that callers may call.
type Method struct {
	Name    string // in Go
	Wire    string // the name that callers send: the first name of the method
	Tell    bool
	Read    bool // it changes no state
	Args    []*Field
	Results []*Field
	Retired bool
	set     *string // receives Wire
	line    int
}

// A Field is a parameter, a result, a case, or a field of a struct or of an entity's state.
type Field struct {
	Number  int // from 1; 0 until Adopt assigns one
	Name    string
	Type    string // in the notation of namer.typeName
	Retired bool
	Indexed bool // of a state: the field has an index
	// Unnamed means that the source gives no name, and Name is made from the position.
	Unnamed bool
	set     []*int // places in the model that receive the number
	line    int
}

// A Message is a type that is encoded as a protobuf message: a struct or, if Oneof is true, an
// interface whose cases are the Fields. If Is is set, the type is neither of these, and contains
// itself, such as a slice of its own type. The methods of a kind are no Messages: see
// [Kind].Methods.
type Message struct {
	Name   string
	Oneof  bool
	Is     string // "[]Forest" of a Forest; then it has no fields
	Fields []*Field
	set    []*[]int // receive the numbers of retired fields, if events hold the message
	line   int
}

// An Error is a declared error, which callers can distinguish from other errors.
type Error struct {
	Name    string // in Go
	Wire    string // the name in answers: the first name of the error
	Type    string // "" of a sentinel
	Retired bool
	set     *string // receives the name on the wire
	line    int
}

// An Enum is a type that has named constants.
type Enum struct {
	Name   string
	Values []*Value
}

// A Value is a constant of an enum.
type Value struct {
	Name    string
	Number  string // a number, true, false, or a quoted string without spaces
	Retired bool
	line    int
}

// A Problem is a reason why a contract cannot be used or changed.
type Problem struct {
	Code    string
	Line    int // of the contract file, from 1
	Message string
	Remedy  string
}

// Codes of problems.
const (
	CodeConflict = "SG601" // conflict marks of a merge
	CodeEdited   = "SG602" // not as this tool writes it
	CodeNewer    = "SG603" // written by a newer shardgen
	CodeTwice    = "SG604" // one number or name for two things
	CodeStale    = "SG605" // the source has changed since it was written
	CodeChanged  = "SG611" // a change that would break a running cluster
	CodeGone     = "SG612" // a removal of something that running programs may still call or send
	CodeType     = "SG613" // a number whose type would change
)

func (c *Contract) kind(name string) *Kind {
	i := slices.IndexFunc(c.Kinds, func(k *Kind) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return c.Kinds[i]
}

func (c *Contract) method(path string) (*Kind, *Method) {
	for _, k := range c.Kinds {
		for _, m := range k.Methods {
			if k.Name+"."+m.Name == path {
				return k, m
			}
		}
	}
	return nil, nil
}

func (c *Contract) wire(kind, method string) string {
	if k := c.kind(kind); k != nil {
		if m := k.method(method); m != nil {
			return m.Wire
		}
	}
	return ""
}

func (c *Contract) message(name string) *Message {
	i := slices.IndexFunc(c.Messages, func(m *Message) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return c.Messages[i]
}

func (m *Message) fieldsAre() string {
	if m.Oneof {
		return "case"
	}
	return "field"
}

func (c *Contract) err(name string) *Error {
	i := slices.IndexFunc(c.Errors, func(e *Error) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return c.Errors[i]
}

func (c *Contract) byWire(wire string) *Error {
	for _, e := range c.Errors {
		if e.Wire == wire {
			return e
		}
	}
	return nil
}

func (c *Contract) enum(name string) *Enum {
	i := slices.IndexFunc(c.Enums, func(e *Enum) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return c.Enums[i]
}

func (e *Enum) value(name string) *Value {
	i := slices.IndexFunc(e.Values, func(v *Value) bool { return v.Name == name && !v.Retired })
	if i < 0 {
		return nil
	}
	return e.Values[i]
}

// retired returns the retired constant with the given number. It returns nil if there is none, or
// if a constant that is not retired has the same number.
func (e *Enum) retired(number string) *Value {
	i := slices.IndexFunc(e.Values, func(v *Value) bool { return v.Retired && v.Number == number })
	if i < 0 || slices.ContainsFunc(e.Values, func(v *Value) bool { return !v.Retired && v.Number == number }) {
		return nil
	}
	return e.Values[i]
}

func (c *Contract) value(path string) (*Value, *Enum) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return nil, nil
	}
	if e := c.enum(path[:i]); e != nil {
		if v := e.value(path[i+1:]); v != nil {
			return v, e
		}
	}
	return nil, nil
}

func (k *Kind) method(name string) *Method {
	i := slices.IndexFunc(k.Methods, func(m *Method) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return k.Methods[i]
}

// field finds a field by owner and name. It prefers one that is not retired.
func (c *Contract) field(path string) (found *Field, in *[]*Field) {
	for _, l := range c.lists() {
		for _, f := range *l.fields {
			if l.of+"."+f.Name == path && (found == nil || found.Retired) {
				found, in = f, l.fields
			}
		}
	}
	return found, in
}

type list struct {
	of     string // "Stock.Reserve"
	what   string // argument, result, state, event, field, case
	fields *[]*Field
}

func (c *Contract) lists() []list {
	var all []list
	for _, k := range c.Kinds {
		all = append(all, list{k.Name, "state", &k.State}, list{k.Name, "event", &k.Events})
		for _, m := range k.Methods {
			of := k.Name + "." + m.Name
			all = append(all, list{of, "argument", &m.Args}, list{of, "result", &m.Results})
		}
	}
	for _, m := range c.Messages {
		all = append(all, list{m.Name, m.fieldsAre(), &m.Fields})
	}
	return all
}

func sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.Message, b.Message))
	})
	return problems
}
