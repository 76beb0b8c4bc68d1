package codegen

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"
	"unsafe"
)

// A Caller makes calls to entities: a member's node, or a connection from a process that is not a
// member. It is safe for concurrent use.
type Caller interface {
	// ShardInvoker returns the Invoker of one kind. It never fails: if something is wrong with the
	// kind, the calls return the error.
	ShardInvoker(k Kind) Invoker
}

// An Invoker calls the entities of one kind for one process.
type Invoker interface {
	// Begin begins a turn of the entity on the caller's goroutine. If it returns the zero Turn and
	// no error, the call must be encoded. noContext says that the method does not use its context.
	Begin(ctx context.Context, r *Ref, method string, noContext bool) (Turn, error)
	// Check returns the reason why a call cannot be sent, before its arguments are encoded.
	Check(ctx context.Context, r *Ref, method string) error
	// Do sends encoded arguments, in a buffer from NewArgs, and waits for the encoded results. The
	// Invoker owns the buffer from then on.
	Do(ctx context.Context, r *Ref, method string, args []byte) ([]byte, error)
	// Send is Do for a call without an answer. It returns the reason why the call cannot be sent.
	Send(ctx context.Context, r *Ref, method string, args []byte) error
	// Failed makes the caller's error from err. If ran is set, err is an error of decoding the
	// results, otherwise of encoding the arguments.
	Failed(r *Ref, method string, ran bool, err error) error
	// Hash returns the hash of an id, which determines the shard, or the reason why the id is
	// invalid.
	Hash(id string) (hash uint64, err error)
	// Refs returns the cache of references for reuse, or nil for none.
	Refs() *RefCache
}

// A Lister is an Invoker that can list the entities of its kind.
type Lister interface {
	// List yields ids, or keys if l has an Index, in the order of their bytes. It ends after the
	// first error.
	List(ctx context.Context, l Listing) iter.Seq2[string, error]
}

// A Listing says which ids of a type to list, or which keys of an index: see [AppendStringIndex].
type Listing struct {
	Prefix string // what the ids or keys begin with, as on the wire
	After  string // only those above this one; "" means all
	To     string // only those below this one; "" means all
	Active bool   // only entities that are active
	// Index is the Kind of an [Index], and Field its Field. "" lists ids.
	Index, Field string
}

// A Ref is a reference to one entity. It is cheap to make and to keep, and safe for concurrent use.
type Ref struct {
	Invoker Invoker
	Hash    uint64
	ID      string // as on the wire; 1 to 1024 bytes
	// Near is for the Invoker only: the result of an earlier lookup. It is read and written by
	// sync/atomic.
	Near unsafe.Pointer
}

// RefWithOptions is the Invoker of a reference with options or an error. Most references have
// neither, so [Ref] has no fields for options and errors.
type RefWithOptions struct {
	Invoker
	Err     error // why every call fails: a bad id
	Options CallOptions
}

// NewRef returns a reference to the entity with the given id. If err is not nil, every call of the
// reference fails with err. If the id is invalid, every call fails with the reason.
func NewRef(by Invoker, id string, err error, opts ...CallOption) *Ref {
	var hash uint64
	if err == nil {
		hash, err = by.Hash(id)
	}
	if err == nil && len(opts) == 0 {
		if refs := by.Refs(); refs != nil {
			return refs.get(by, id, hash)
		}
	}
	if err != nil || len(opts) > 0 {
		odd := &RefWithOptions{Invoker: by, Err: err}
		for _, o := range opts {
			o(&odd.Options)
		}
		by = odd
	}
	return &Ref{Invoker: by, ID: id, Hash: hash}
}

// Err returns the reason why every call of the reference fails, or nil if there is none.
func (r *Ref) Err() error {
	if odd, is := r.Invoker.(*RefWithOptions); is {
		return odd.Err
	}
	return nil
}

// Timeout returns the timeout of the reference's options; 0 means none.
func (r *Ref) Timeout() time.Duration {
	if odd, is := r.Invoker.(*RefWithOptions); is {
		return odd.Options.Timeout
	}
	return 0
}

// SingletonID is the id of a singleton's only instance.
const SingletonID = "singleton"

// NewSingletonRef returns a reference to the only instance of a singleton.
func NewSingletonRef(by Invoker, opts ...CallOption) *Ref {
	return NewRef(by, SingletonID, nil, opts...)
}

var errZeroRef = errors.New("call through a zero reference (get one from a client's Ref)")

// Begin begins a turn of the entity on the caller's goroutine, if the entity lives in this process
// and may run. If it returns the zero Turn, the caller makes the call by passing err to Ask or Run.
func (r *Ref) Begin(ctx context.Context, method string) (t Turn, err error) {
	if r == nil {
		return t, errZeroRef
	}
	return r.Invoker.Begin(ctx, r, method, false)
}

// BeginNoContext is Begin for a method whose context parameter has no name. Such a turn allocates
// no context: its Context is only for passing to the method, and has already ended.
func (r *Ref) BeginNoContext(ctx context.Context, method string) (t Turn, err error) {
	if r == nil {
		return t, errZeroRef
	}
	return r.Invoker.Begin(ctx, r, method, true)
}

// Ask sends a call and returns a decoder of its results. The arguments are in a buffer from
// NewArgs, which Ask owns from then on. If err, which Begin returned, is not nil, Ask sends
// nothing. The decoder's error is err or the error of the call: see [Decoder.Results].
func (r *Ref) Ask(ctx context.Context, method string, args []byte, err error) Decoder {
	results, err := r.do(ctx, method, args, err)
	d := NewDecoder(results)
	if err != nil {
		d.err = err
	} else {
		d.ref, d.method = r, method
	}
	return d
}

// Run is Ask for a method without results.
func (r *Ref) Run(ctx context.Context, method string, args []byte, err error) error {
	_, err = r.do(ctx, method, args, err)
	return err
}

func (r *Ref) do(ctx context.Context, method string, args []byte, err error) ([]byte, error) {
	if err != nil {
		Recycle(args)
		return nil, err
	}
	return r.Invoker.Do(ctx, r, method, args)
}

// Tell sends a call without an answer. The arguments are in a buffer from NewArgs, which Tell owns
// from then on. If the call cannot be sent, Tell returns the reason.
func (r *Ref) Tell(ctx context.Context, method string, args []byte) error {
	if r == nil {
		return errZeroRef
	}
	return r.Invoker.Send(ctx, r, method, args)
}

// NotEncoded returns the caller's error for a call whose arguments cannot be encoded.
func (r *Ref) NotEncoded(method string, err error) error {
	if r == nil {
		return errZeroRef
	}
	return r.Invoker.Failed(r, method, false, encodeError("arguments", err))
}

// CallOptions are the options of one reference.
type CallOptions struct {
	// Timeout bounds each call of the reference whose context has no earlier deadline. 0 means the
	// caller's Config.CallTimeout.
	Timeout time.Duration
	// CommandID is the idempotency key of every call of the reference; nil gives each call an id of
	// its own. It is for durable types. With an empty key every call fails.
	CommandID *string
	// Delay turns the reference's tells into reminders; nil sends them at once.
	Delay *Delay
}

// A Delay says when a tell is due. It is made by options of package shard.
type Delay struct {
	Err     error  // why every tell fails; nil means none
	Name    string // of the reminder; "" means that of the method
	Kind    uint8  // of the schedule: once, at equal periods, or cron
	At      time.Time
	After   time.Duration // instead of At, from the turn that sets it
	Period  time.Duration
	Cron    string
	Zone    string
	Jitter  time.Duration // the upper bound
	CatchUp bool
	// SkipLate is the lateness above which a due time is dropped; 0 drops none.
	SkipLate time.Duration
}

// A CallOption sets an option of one reference.
type CallOption func(*CallOptions)

var argsPool = sync.Pool{New: func() any { return new(argsBuffer) }}

type argsBuffer [2 << 10]byte

// NewArgs returns an empty buffer for the arguments of a call. Recycle puts it back into the pool.
func NewArgs() []byte { return argsPool.Get().(*argsBuffer)[:0] }

// Recycle puts the buffer of a call's arguments back into the pool. Call it when nobody uses args
// any more. A slice that has outgrown its buffer is left to the garbage collector.
func Recycle(args []byte) {
	if cap(args) == len(argsBuffer{}) {
		argsPool.Put((*argsBuffer)(args[:cap(args)]))
	}
}
