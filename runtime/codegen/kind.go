package codegen

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

// A Kind describes one entity type to callers and hosts. All members of a cluster must agree on it;
// this is checked when a node joins.
type Kind struct {
	Name    string // on the wire, unique in a cluster
	Package string // import path of the struct, to tell two types of one name apart
	Shards  int    // a power of two; 0 means 256, if Durable 64
	// Singleton means that the kind has one instance in a cluster, and one shard. The singleton
	// manager, not the allocation of shards, chooses its node.
	Singleton bool
	// Pool means that the kind is a pool: instance i is the entity with id i, alone in the i-th
	// shard. Its Hash is that of [PoolHash].
	Pool bool
	// Again has the names of a pool's methods that may run twice: those that change no state.
	Again []string
	// HashName names the shard function: "xxh64", or "splitmix64(package.Func)" for a user's
	// function. Hash is that function; nil means XXH64 of the id's bytes.
	HashName string
	Hash     func(id string) (uint64, error)
	Methods  []string // names, sorted: the methods that a client of this contract may call
	// Errors adds the errors that callers can match; nil means none. It is called when the first
	// call of the kind fails.
	Errors func(*ErrorSet)
	// JSON returns the conversion of a method's arguments and results, or the zero value for a
	// method without these. It is nil if the directive does not have json.
	JSON     func(method string) JSONMethod
	Stateful bool // some fields are tagged state
	// Durable means that the state of the kind's entities is in the store, and a call is answered
	// only when its changes are stored.
	Durable bool
	// StateVersion is the version of the state of a durable kind; 0 means 1. Entities with a
	// version above 1 have a method MigrateState(from int) error.
	StateVersion int
	// Contract is a hash of the type's contract in shard.lock, to show operators that two programs
	// differ. It is "" in code of an older generator.
	Contract string
	// TTL is the time without a commit after which an entity of a durable kind expires; 0 means
	// never.
	TTL time.Duration
}

// A Host is a kind with the functions that make, run and encode its entities. Every entity passed
// to these functions was made by New.
type Host struct {
	Kind
	New func() any // nil: the user gave none
	// Struct is a nil pointer to the entity's struct, and Exported the number of its exported
	// methods when the code was generated. A nil Struct means unknown.
	Struct   any
	Exported int
	SetID    func(entity any, id string) error // nil: no field tagged id
	Dispatch map[string]Method
	// Reads has the names of the methods that change no state; nil means none.
	Reads map[string]bool
	// NoContext has the names of the methods whose context parameter is unnamed, so they cannot use
	// it; nil means none. Callers need not know these methods.
	NoContext map[string]bool
	// AppendState encodes the fields tagged state, and DecodeState decodes them and reports whether
	// it skipped fields. Both are nil if none are tagged. StateFields has the fields known to this
	// program; other fields are kept beside the entity.
	AppendState func(b []byte, entity any) ([]byte, error)
	DecodeState func(entity any, b []byte) (skipped bool, err error)
	StateFields Fields
	// Indexes are the indexed fields, in the order of their numbers. AppendIndexes appends their keys.
	// Both are nil if there are none.
	Indexes       []Index
	AppendIndexes func(b []byte, entity any) []byte
	// Events describes the journal; nil means that the type has none.
	Events *Events
	// Activate and Passivate call the user's hooks; nil means that the type has none.
	Activate  func(ctx context.Context, entity any, a Activation) error
	Passivate func(ctx context.Context, entity any, p Passivation) error
}

// Factory converts the factory that the user passes to a HostX function for use in a [Host]. A nil
// factory stays nil, which the node refuses.
func Factory[T any](factory func() *T) func() any {
	if factory == nil {
		return nil
	}
	return func() any { return factory() }
}

// CheckMethods returns an error if the entity's struct has gained or lost exported methods since
// its code was generated. It only counts them, because looking up methods by reflection keeps the
// linker from removing unused methods of the whole program.
func (h *Host) CheckMethods() error {
	if h.Struct == nil {
		return nil
	}
	t := reflect.TypeOf(h.Struct)
	if now := t.NumMethod(); now != h.Exported {
		return fmt.Errorf("%v has %d exported methods, but had %d when its code was generated (run go generate; do not export methods that only tests use)",
			t.Elem(), now, h.Exported)
	}
	return nil
}

// A Method decodes the arguments of one call, runs the method on the entity and appends the encoded
// results to out. A nil out means that the caller wants no results. A Method returns an
// [*ArgumentsError] if the arguments cannot be decoded and a [*ResultsError] if the results cannot
// be encoded; any other error is the method's own. It keeps neither args nor out.
type Method func(ctx context.Context, entity any, args, out []byte) ([]byte, error)

// Run makes a [Method] of a method without arguments and results. E is the entity's type.
func Run[E any](method func(e E, ctx context.Context) error) Method {
	return func(ctx context.Context, entity any, _, out []byte) ([]byte, error) {
		return out, method(entity.(E), ctx)
	}
}
