package model

// OutputName is the name of the generated file.
const OutputName = "shard_gen.go"

// A Package is one Go package with entities.
type Package struct {
	Path    string
	Name    string
	Dir     string
	Imports []Import // every package that generated code may name
	// Entities stand in the order of their positions.
	Entities []*Entity
	// Errors are those that callers can tell apart, in the order of their names.
	Errors []*Error
	// Types are those that may need functions of their own in the generated file,
	// in the order of their first use.
	Types []*Type
}

// An Import is how generated code names another package.
type Import struct {
	Path  string
	Name  string
	Alias bool // Name is not the package's own
}

// An Entity is a struct with a shard:entity or a shard:singleton directive.
type Entity struct {
	Name      string // the struct's
	Kind      string // on the wire
	Singleton bool   // there is one in a cluster, and it has no id
	Shards    int    // a power of two
	Hash      *Hash  // nil: XXH64
	ID        ID
	Methods   []*Method // in the order of their positions
	State     []Field
	Hooks     Hooks
}

// An Error has a shard:error directive.
type Error struct {
	Name    string // in Go, unique in its package
	Wire    string // on the wire
	Var     *Expr  // a sentinel; else nil
	Type    *Type  // a type that is an error; else nil
	Pointer bool   // not values of Type are errors, but pointers to them
}

// A Hash is the user's shard function.
type Hash struct {
	Func string // of the same package
	Name string // on the wire: package path and name
}

// An ID is how an entity is told from its siblings.
type ID struct {
	Field string // tagged id; "" without one
	Type  *Expr
	Form  IDForm
}

// IDForm is how an id becomes its bytes on the wire.
type IDForm int

// The forms of ids.
const (
	IDString IDForm = iota // the string itself
	IDInt                  // decimal
	IDUint                 // decimal
	IDText                 // MarshalText
)

// Hooks tells which hooks an entity has.
type Hooks struct {
	Activate, Passivate bool
}

// A Method is a message.
type Method struct {
	Name     string
	Wire     string   // its name on the wire
	Doc      []string // comment lines, with their slashes
	Context  string   // the parameter's name; "" or "_" as written
	Params   []Param  // without the context
	Results  []Param  // without the error
	Error    string   // the result's name; "" when results are not named
	Variadic bool     // the last of Params is a slice, written ...T
	OneWay   bool     // nobody waits for it: it has a shard:tell directive
}

// A Param is a parameter or a result.
type Param struct {
	Name   string // as written: may be "" or "_"
	Number int    // from 1
	Type   *Type
}

// A Field is a field that crosses the wire.
type Field struct {
	Name   string
	Number int // from 1
	Type   *Type
}
