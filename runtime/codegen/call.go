package codegen

import (
	"context"
	"errors"
	"time"
)

// A Caller reaches entities: a node that is a member, or a connection from
// outside. It is safe for concurrent use.
type Caller interface {
	// ShardPort returns the caller's way to one kind. It never fails: what is
	// wrong with the kind is answered by the calls.
	ShardPort(k Kind) Port
}

// A Port is one kind as one process reaches it.
type Port interface {
	// Begin starts a call of method on the entity. Either a turn of a local
	// entity has begun, and the Call holds it; or the Call wants arguments.
	Begin(ctx context.Context, r Ref, method string) (Call, error)
	// BeginTell is Begin for a call without an answer; it never holds an entity.
	BeginTell(ctx context.Context, r Ref, method string) (Call, error)
	// Do sends the call's arguments and waits for the encoded results.
	Do(c Call) ([]byte, error)
	// Send sends the arguments of a call without an answer.
	Send(c Call) error
	// Locate resolves an id to its hash and shard.
	Locate(id string) (hash uint64, shard uint32, err error)
}

// A Ref is one entity as its callers hold it: cheap to make, to copy and to keep.
type Ref struct {
	Port    Port
	ID      string // as on the wire; 1 to 1024 bytes
	Hash    uint64
	Err     error // why every call fails: a bad id
	Options CallOptions
}

// NewRef returns a reference to the entity with that id. A bad id, or err not
// nil, makes every call fail with it.
func NewRef(p Port, id string, err error, opts ...CallOption) Ref {
	r := Ref{Port: p, ID: id, Err: err}
	if err == nil {
		r.Hash, _, r.Err = p.Locate(id)
	}
	for _, o := range opts {
		o(&r.Options)
	}
	return r
}

// SingletonID is the id under which a singleton's only instance is called.
const SingletonID = "singleton"

// NewSingletonRef returns a reference to the only instance of a singleton.
func NewSingletonRef(p Port, opts ...CallOption) Ref {
	return NewRef(p, SingletonID, nil, opts...)
}

var errZeroRef = errors.New("call through a zero reference (get one from a client's Ref)")

// Begin starts a call with an answer.
func (r *Ref) Begin(ctx context.Context, method string) (Call, error) {
	if r.Port == nil {
		return Call{}, errZeroRef
	}
	return r.Port.Begin(ctx, *r, method)
}

// BeginTell starts a call without an answer.
func (r *Ref) BeginTell(ctx context.Context, method string) (Call, error) {
	if r.Port == nil {
		return Call{}, errZeroRef
	}
	return r.Port.BeginTell(ctx, *r, method)
}

// CallOptions are the settings of one reference.
type CallOptions struct {
	// Timeout bounds each call of the reference that has no earlier deadline.
	// 0 means the caller's CallTimeout.
	Timeout time.Duration
}

// A CallOption changes the settings of one reference.
type CallOption func(*CallOptions)

// A Call is one call under way. Generated code uses it so:
//
//	call, err := r.ref.Begin(ctx, "Reserve")
//	if err != nil {
//		return left, err
//	}
//	defer call.End(&err)
//	if e, ok := call.Entity.(*Stock); ok {
//		return e.Reserve(call.Context, order)
//	}
//	call.Args = codegen.AppendString(call.Args, 1, string(order))
//	reply, err := call.Do()
//	if err != nil {
//		return left, err
//	}
//	return decodeStockReserveReply(reply)
type Call struct {
	Context context.Context // what the method sees
	Entity  any             // the local entity whose turn this is; nil when remote
	Args    []byte          // encoded arguments, appended to by generated code
	Turn    Turn            // of Entity
	Ref     Ref
	Method  string
}

// A Turn is a local entity's turn, which generated code carries through [Call].
type Turn interface {
	// End ends the turn of the method: panicked is what it panicked with, err what
	// it returned. It returns the error that the caller gets.
	End(method string, panicked any, err error) error
}

// Do sends the arguments to the entity and returns its encoded results.
func (c *Call) Do() ([]byte, error) { return c.Ref.Port.Do(*c) }

// Send sends the arguments to the entity without waiting for it.
func (c *Call) Send() error { return c.Ref.Port.Send(*c) }

// End ends the call. It must be deferred directly, for it recovers a panic of
// the method and turns it into the caller's error.
func (c *Call) End(err *error) {
	if c.Entity == nil {
		return
	}
	panicked := recover()
	*err = c.Turn.End(c.Method, panicked, *err)
}
