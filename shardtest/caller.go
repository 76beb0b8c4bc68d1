package shardtest

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// A Caller replaces a cluster in unit tests of entities that call other entities: clients made with
// it call plain structs of the test, on the goroutine of the call. A Caller records the calls. It
// is safe for concurrent use. Unlike a cluster, it does not run an entity's calls one at a time.
//
//	auctions := shardtest.NewCaller()
//	auctions.Put("Auction", "vase", &auction.Auction{High: 50, Bidder: "bob"})
//	ann := &auction.User{ID: "ann", Money: 100, Auctions: auction.NewAuctionClient(auctions)}
type Caller struct {
	mu       sync.Mutex
	entities map[entityKey]any
	failures map[entityKey]error
	calls    []Call
	messages []Message
}

var _ shard.Caller = (*Caller)(nil)

type entityKey struct{ kind, id string }

// A Call is a call that was made through a Caller.
type Call struct {
	Kind, ID, Method string
	Tell             bool // the call was one-way: no method ran
}

// String returns a text such as "User/ann.Deposit".
func (c Call) String() string {
	if c.Tell {
		return fmt.Sprintf("tell %s/%s.%s", c.Kind, c.ID, c.Method)
	}
	return fmt.Sprintf("%s/%s.%s", c.Kind, c.ID, c.Method)
}

// NewCaller returns a Caller without entities. An ask to an entity that was not given to Put fails
// with ErrNoHost and outcome NotExecuted; tells are only recorded.
func NewCaller() *Caller {
	return &Caller{entities: map[entityKey]any{}, failures: map[entityKey]error{}}
}

// Put makes asks to the entity with this kind and id run on a struct of the test. entity is a
// pointer to the struct, whose type must be that of the kind. id is in its wire form; for a
// singleton it is "singleton".
func (c *Caller) Put(kind, id string, entity any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entities[entityKey{kind, id}] = entity
}

// Fail makes asks and tells to an entity fail with err, until Fail is called with a nil err.
// Callers get err in a shard.CallError with the given outcome. No method runs.
func (c *Caller) Fail(kind, id string, outcome shard.Outcome, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.failures, entityKey{kind, id})
	if err != nil {
		c.failures[entityKey{kind, id}] = &shard.CallError{Kind: kind, ID: id, Outcome: outcome, Err: err}
	}
}

// Calls returns the calls so far, in order.
func (c *Caller) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// A Message is what a method published with a context of [Caller.Context].
type Message struct {
	Subject    string
	Data       []byte
	BestEffort bool
}

// String returns the subject and the data.
func (m Message) String() string { return m.Subject + " " + string(m.Data) }

// Context returns a context for methods of plain structs that call shard.Publish. Outside a
// cluster, Publish fails with other contexts. The Caller records what these methods publish.
func (c *Caller) Context(ctx context.Context) context.Context {
	return codegen.WithPublish(ctx, func(subject string, data []byte, bestEffort bool) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.messages = append(c.messages, Message{subject, data, bestEffort})
		return nil
	})
}

// Published returns the messages so far, in order.
func (c *Caller) Published() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.messages)
}

// note records a call and returns the called entity, the error given to Fail, or an error if the
// test has no such entity.
func (c *Caller) note(call Call) (entity any, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	at := entityKey{call.Kind, call.ID}
	if failed, ok := c.failures[at].(*shard.CallError); ok {
		err := *failed
		err.Method = call.Method
		return nil, &err
	}
	entity, ok := c.entities[at]
	if !ok {
		return nil, &shard.CallError{Kind: call.Kind, ID: call.ID, Method: call.Method, Outcome: shard.NotExecuted, Err: fmt.Errorf("%w: the test has no such entity (add it with Put)", shard.ErrNoHost)}
	}
	return entity, nil
}

// ShardInvoker is called by generated code only.
func (c *Caller) ShardInvoker(k codegen.Kind) codegen.Invoker { return &invoker{c, k} }

type invoker struct {
	caller *Caller
	kind   codegen.Kind
}

// Begin returns a turn on the test's struct, so that generated code calls the struct directly.
func (i *invoker) Begin(ctx context.Context, r *codegen.Ref, method string, _ bool) (codegen.Turn, error) {
	if err := r.Err(); err != nil {
		return codegen.Turn{}, i.Failed(r, method, false, err)
	}
	if err := ctx.Err(); err != nil {
		return codegen.Turn{}, i.Failed(r, method, false, err)
	}
	entity, err := i.caller.note(Call{Kind: i.kind.Name, ID: r.ID, Method: method})
	if err != nil {
		return codegen.Turn{}, err
	}
	return codegen.Turn{Entity: entity, Context: &turn{Context: ctx, kind: i.kind.Name, id: r.ID}}, nil
}

// Check returns nil, because every call can be sent.
func (i *invoker) Check(context.Context, *codegen.Ref, string) error { return nil }

// Do returns the error for an entity whose type differs from that of the generated code. Calls of
// other entities do not reach Do.
func (i *invoker) Do(_ context.Context, r *codegen.Ref, method string, _ []byte) ([]byte, error) {
	return nil, i.Failed(r, method, false, fmt.Errorf("%w: the value given to Put is not a pointer to a %s", shard.ErrMismatch, i.kind.Name))
}

// Send records a tell.
func (i *invoker) Send(_ context.Context, r *codegen.Ref, method string, _ []byte) error {
	if err := r.Err(); err != nil {
		return i.Failed(r, method, false, err)
	}
	_, err := i.caller.note(Call{Kind: i.kind.Name, ID: r.ID, Method: method, Tell: true})
	if i.caller.failing(i.kind.Name, r.ID) {
		return err
	}
	return nil
}

func (c *Caller) failing(kind, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failures[entityKey{kind, id}] != nil
}

var _ codegen.Lister = (*invoker)(nil)

// List yields the ids of the test's entities of the kind or, for an index, the keys of entities
// whose struct has the field. All entities count as active.
func (i *invoker) List(ctx context.Context, l codegen.Listing) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		ids := i.caller.ids(i.kind.Name)
		if l.Index != "" {
			ids = i.caller.keys(i.kind.Name, l, ids)
		}
		for _, id := range ids {
			if err := ctx.Err(); err != nil {
				yield("", fmt.Errorf("list %s: %w", i.kind.Name, err))
				return
			}
			if id > l.After && (l.To == "" || id < l.To) && strings.HasPrefix(id, l.Prefix) && !yield(id, nil) {
				return
			}
		}
	}
}

func (c *Caller) ids(kind string) (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := range c.entities {
		if at.kind == kind {
			ids = append(ids, at.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// keys returns the index keys of the entities with these ids.
func (c *Caller) keys(kind string, l codegen.Listing, ids []string) (keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		v := reflect.Indirect(reflect.ValueOf(c.entities[entityKey{kind, id}]))
		if v.Kind() != reflect.Struct || !v.FieldByName(l.Field).IsValid() {
			continue // the test's struct is not of the entity's type
		}
		if key := keyOf(l.Index, v.FieldByName(l.Field)); key != nil {
			keys = append(keys, string(key)+id)
		}
	}
	slices.Sort(keys)
	return keys
}

// keyOf returns the index key of a field's value.
func keyOf(index string, v reflect.Value) []byte {
	field, err := strconv.Atoi(index[:len(index)-1])
	if err != nil {
		return nil
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Time]() && v.CanAddr():
		return codegen.AppendTimeIndex(nil, field, *(*time.Time)(v.Addr().UnsafePointer())) // Interface panics for an unexported field
	case v.Kind() == reflect.String:
		return codegen.AppendStringIndex(nil, field, v.String())
	case v.Kind() == reflect.Bool:
		return codegen.AppendBoolIndex(nil, field, v.Bool())
	case v.CanInt():
		return codegen.AppendIntIndex(nil, field, v.Int())
	case v.CanUint():
		return codegen.AppendUintIndex(nil, field, v.Uint())
	}
	return nil
}

// Failed returns the caller's error for a failed call.
func (i *invoker) Failed(r *codegen.Ref, method string, ran bool, err error) error {
	outcome := shard.NotExecuted
	if ran {
		outcome = shard.Executed
	}
	return &shard.CallError{Kind: i.kind.Name, ID: r.ID, Method: method, Outcome: outcome, Err: err}
}

// Refs returns nil: references are not cached.
func (i *invoker) Refs() *codegen.RefCache { return nil }

// Hash checks the id and returns 0, because a plain struct needs no hash.
func (i *invoker) Hash(id string) (hash uint64, err error) { return 0, codegen.CheckID(id) }

// A turn is the context of a method on a test's struct.
type turn struct {
	context.Context
	kind, id string
}

// Value returns nil, because a method does not see the values of its caller's context.
func (t *turn) Value(any) any { return nil }

// End returns the method's error unchanged. If the method panicked, End panics with the same value.
func (t *turn) End(method string, panicked any, err error) error {
	if panicked != nil {
		panic(panicked)
	}
	return err
}
