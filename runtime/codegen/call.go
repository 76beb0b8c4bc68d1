package codegen

import (
	"context"
	"errors"
	"sync/atomic"
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
	// Begin begins a turn of the entity on the caller's goroutine. The zero Turn
	// without an error says that the call must be encoded: see [Ref.Call].
	Begin(ctx context.Context, r *Ref, method string) (Turn, error)
	// BeginTell returns why a call without an answer cannot be sent.
	BeginTell(ctx context.Context, r *Ref, method string) error
	// Do sends the call's arguments and waits for the encoded results.
	Do(c Call) ([]byte, error)
	// Send sends the arguments of a call without an answer.
	Send(c Call) error
	// Failed returns the caller's error of a call whose arguments do not encode or, if
	// it ran, whose results do not decode.
	Failed(r *Ref, method string, ran bool, err error) error
	// Locate resolves an id to its hash and shard.
	Locate(id string) (hash uint64, shard uint32, err error)
}

// A Ref is one entity as its callers hold it: cheap to make and to keep, and safe for
// concurrent use.
type Ref struct {
	Port Port
	Hash uint64
	ID   string       // as on the wire; 1 to 1024 bytes
	Near atomic.Value // the Port's own: what it found at an earlier call
	Odd  *Odd         // nil for most, so that a Ref fits a cache line
}

// Odd is what is special about a reference.
type Odd struct {
	Err     error // why every call fails: a bad id
	Options CallOptions
}

// NewRef returns a reference to the entity with that id. A bad id, or err not
// nil, makes every call fail with it.
func NewRef(p Port, id string, err error, opts ...CallOption) *Ref {
	r := &Ref{Port: p, ID: id}
	if err == nil {
		r.Hash, _, err = p.Locate(id)
	}
	if err != nil || len(opts) > 0 {
		r.Odd = &Odd{Err: err}
	}
	for _, o := range opts {
		o(&r.Odd.Options)
	}
	return r
}

// Err is why every call fails; nil for a good id.
func (r *Ref) Err() error {
	if r.Odd == nil {
		return nil
	}
	return r.Odd.Err
}

// Timeout is that of the reference's options; 0: none.
func (r *Ref) Timeout() time.Duration {
	if r.Odd == nil {
		return 0
	}
	return r.Odd.Options.Timeout
}

// SingletonID is the id under which a singleton's only instance is called.
const SingletonID = "singleton"

// NewSingletonRef returns a reference to the only instance of a singleton.
func NewSingletonRef(p Port, opts ...CallOption) *Ref {
	return NewRef(p, SingletonID, nil, opts...)
}

var errZeroRef = errors.New("call through a zero reference (get one from a client's Ref)")

// Begin begins a turn of the entity on the caller's goroutine, if it lives here and
// may run. The zero Turn without an error says that the call goes by [Ref.Call].
func (r *Ref) Begin(ctx context.Context, method string) (Turn, error) {
	if r == nil {
		return Turn{}, errZeroRef
	}
	return r.Port.Begin(ctx, r, method)
}

// BeginTell starts a call without an answer.
func (r *Ref) BeginTell(ctx context.Context, method string) (Call, error) {
	if r == nil {
		return Call{}, errZeroRef
	}
	if err := r.Port.BeginTell(ctx, r, method); err != nil {
		return Call{}, err
	}
	return r.Call(ctx, method), nil
}

// NotEncoded returns the caller's error of a call whose arguments do not encode.
func (r *Ref) NotEncoded(method string, err error) error { return r.Port.Failed(r, method, false, err) }

// NotDecoded returns the caller's error of a call whose results do not decode.
func (r *Ref) NotDecoded(method string, err error) error { return r.Port.Failed(r, method, true, err) }

// Call is a call that wants its arguments encoded. Begin or BeginTell comes before.
func (r *Ref) Call(ctx context.Context, method string) Call {
	return Call{Context: ctx, Args: NewArgs(), Ref: r, Method: method}
}

// CallOptions are the settings of one reference.
type CallOptions struct {
	// Timeout bounds each call of the reference that has no earlier deadline.
	// 0 means the caller's CallTimeout.
	Timeout time.Duration
}

// A CallOption changes the settings of one reference.
type CallOption func(*CallOptions)

// A Turn is a local entity's turn on its caller's goroutine, for one call. Zero: it
// has none. Generated code uses it so, and goes on with a [Call] where there is none:
//
//	turn, err := r.ref.Begin(ctx, "Reserve")
//	if err != nil {
//		return left, err
//	}
//	if e, ok := turn.Entity.(*Stock); ok {
//		defer turn.End("Reserve", &err)
//		return e.Reserve(turn.Context, order)
//	}
type Turn struct {
	Entity  any             // whose turn it is
	Context context.Context // what the method sees; it is an [Ender]
}

// An Ender ends a turn.
type Ender interface {
	// End ends the turn of the method: panicked is what it panicked with, err what
	// it returned. It returns the error that the caller gets.
	End(method string, panicked any, err error) error
}

// End ends the turn of a method. It must be deferred directly, for it recovers a
// panic of the method and turns it into the caller's error.
func (t Turn) End(method string, err *error) {
	panicked := recover()
	*err = t.Context.(Ender).End(method, panicked, *err)
}

// A Call is one call that goes encoded. Generated code uses it so:
//
//	call := r.ref.Call(ctx, "Reserve")
//	call.Args = codegen.AppendString(call.Args, 1, string(order))
//	reply, err := call.Do()
//	if err != nil {
//		return left, err
//	}
//	if left, err = decodeStockReserveReply(reply); err != nil {
//		return left, r.ref.NotDecoded("Reserve", err)
//	}
//	return left, nil
type Call struct {
	Context context.Context
	Args    []byte // encoded arguments, appended to by generated code
	Ref     *Ref
	Method  string
}

// Do sends the arguments to the entity and returns its encoded results.
func (c *Call) Do() ([]byte, error) { return c.Ref.Port.Do(*c) }

// Send sends the arguments to the entity without waiting for it.
func (c *Call) Send() error { return c.Ref.Port.Send(*c) }
