package codegen

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

// A Kind describes one entity type to callers and hosts. Every member of a
// cluster must agree on it; joining checks that.
type Kind struct {
	Name    string // on the wire, unique in a cluster
	Package string // import path of the struct, to tell two types of one name apart
	Shards  int    // a power of two; 0 means 256
	// Singleton: the kind has one instance in a cluster, and one shard. It lives
	// with the singleton manager, not where allocation would put it.
	Singleton bool
	// HashName names the shard function: "xxh64", or the user's mixed function as
	// package path and name. Hash is that function; nil means XXH64 of the id's bytes.
	HashName string
	Hash     func(id string) (uint64, error)
	Methods  []string // names, sorted: the methods that a client of this contract may call
	// Errors adds those that callers can tell apart; nil for none. It is called when a
	// call of the kind first comes to an error.
	Errors func(*ErrorSet)
	// JSON turns messages from JSON and into it; it returns the zero value for one
	// without arguments and results. Nil: the directive does not ask for it.
	JSON     func(method string) JSONMethod
	Stateful bool // some fields are tagged state
	// Durable: the state of the kind's entities is in the store, and a call's answer comes
	// when it is.
	Durable bool
	// StateVersion is that of the state of a durable kind: 0 is 1. Entities of a later one
	// have a method MigrateState(from int) error.
	StateVersion int
	// Contract is a hash of the type's contract in shard.lock. It shows operators that two programs
	// differ; "" means its code is of an older generator.
	Contract string
	// TTL is after how long without a commit an entity of a durable kind expires; 0 means never.
	TTL time.Duration
}

// A Host is a kind together with the functions that make, run and encode its entities.
// All functions are called with entities that New returned.
type Host struct {
	Kind
	New func() any // nil: the user gave none
	// Struct is a nil pointer to the entity's struct, and Exported how many
	// exported methods it had when its code was generated. Nil: unknown.
	Struct   any
	Exported int
	SetID    func(entity any, id string) error // nil: no field tagged id
	Dispatch map[string]Method
	// Reads names the methods that change no state; nil for none.
	Reads map[string]bool
	// NoContext names the methods with an unnamed context parameter, which they cannot use; nil for
	// none. Callers of the kind need not know them.
	NoContext map[string]bool
	// AppendState and DecodeState move the fields tagged state; nil without any. DecodeState
	// reports whether it skipped fields. Fields missing in StateFields, the fields known to this
	// program, are kept beside the entity.
	AppendState func(b []byte, entity any) ([]byte, error)
	DecodeState func(entity any, b []byte) (skipped bool, err error)
	StateFields Fields
	// Events is the journal; nil without one.
	Events *Events
	// Activate and Passivate are the user's hooks; nil without them.
	Activate  func(ctx context.Context, entity any, a Activation) error
	Passivate func(ctx context.Context, entity any, p Passivation) error
}

// Factory is a host function's factory as a [Host] wants it; nil for nil, which
// the node refuses.
func Factory[T any](factory func() *T) func() any {
	if factory == nil {
		return nil
	}
	return func() any { return factory() }
}

// CheckMethods returns an error when the entity's struct has got or lost exported
// methods since its code was generated. It counts them: to look at each would keep
// the linker from dropping any method of the program.
func (h *Host) CheckMethods() error {
	if h.Struct == nil {
		return nil
	}
	t := reflect.TypeOf(h.Struct)
	if now := t.NumMethod(); now != h.Exported {
		return fmt.Errorf("%v has %d exported methods and had %d when its code was generated (run go generate; methods for tests alone are better not exported)",
			t.Elem(), now, h.Exported)
	}
	return nil
}

// A Method decodes the arguments of one call, runs it on the entity and appends the encoded results
// to out, unless that is nil: nobody wants them. Undecodable arguments give an [*ArgumentsError],
// results that do not encode a [*ResultsError]; any other error is the method's own. It keeps
// neither args nor out.
type Method func(ctx context.Context, entity any, args, out []byte) ([]byte, error)

// Run makes a [Method] of a method without arguments and results. E is the type that
// entities are asserted to be.
func Run[E any](method func(e E, ctx context.Context) error) Method {
	return func(ctx context.Context, entity any, _, out []byte) ([]byte, error) {
		return out, method(entity.(E), ctx)
	}
}
