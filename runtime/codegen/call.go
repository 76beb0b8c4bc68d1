package codegen

import (
	"context"
	"errors"
	"sync"
	"time"
	"unsafe"
)

// A Caller reaches entities: a node that is a member, or a connection from
// outside. It is safe for concurrent use.
type Caller interface {
	// ShardInvoker returns the Invoker of one kind. It never fails: the calls return
	// the faults of the kind.
	ShardInvoker(k Kind) Invoker
}

// An Invoker calls the entities of one kind for one process.
type Invoker interface {
	// Begin begins a turn of the entity on the caller's goroutine. The zero Turn
	// without an error says that the call must be encoded. With noContext the method does
	// not name its context.
	Begin(ctx context.Context, r *Ref, method string, noContext bool) (Turn, error)
	// Check returns why a call cannot be sent, before anything is encoded for it.
	Check(ctx context.Context, r *Ref, method string) error
	// Do sends arguments, in a buffer of NewArgs, and waits for the encoded results.
	// The buffer is its own from then on.
	Do(ctx context.Context, r *Ref, method string, args []byte) ([]byte, error)
	// Send is Do for a call without an answer. It returns why the call cannot be sent.
	Send(ctx context.Context, r *Ref, method string, args []byte) error
	// Failed returns the caller's error for a call with arguments that do not encode or, after it
	// ran, with results that do not decode.
	Failed(r *Ref, method string, ran bool, err error) error
	// Hash returns the hash of an id, by which its shard is found, or why the id is bad.
	Hash(id string) (hash uint64, err error)
	// Refs returns the references that may be given out again; nil for none.
	Refs() *RefCache
}

// A Ref is one entity as its callers hold it: cheap to make and to keep, and safe for
// concurrent use.
type Ref struct {
	Invoker Invoker
	Hash    uint64
	ID      string // as on the wire; 1 to 1024 bytes
	// Near is the Invoker's own: the result of an earlier lookup. It is read and written by
	// sync/atomic.
	Near unsafe.Pointer
}

// RefWithOptions is the Invoker of a reference with unusual properties. Most references have none, and need no
// memory for them.
type RefWithOptions struct {
	Invoker
	Err     error // why every call fails: a bad id
	Options CallOptions
}

// NewRef returns a reference to the entity with that id. A bad id, or err not
// nil, makes every call fail with it.
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

// Err is why every call fails; nil for a good id.
func (r *Ref) Err() error {
	if odd, is := r.Invoker.(*RefWithOptions); is {
		return odd.Err
	}
	return nil
}

// Timeout is that of the reference's options; 0 means none.
func (r *Ref) Timeout() time.Duration {
	if odd, is := r.Invoker.(*RefWithOptions); is {
		return odd.Options.Timeout
	}
	return 0
}

// SingletonID is the id under which a singleton's only instance is called.
const SingletonID = "singleton"

// NewSingletonRef returns a reference to the only instance of a singleton.
func NewSingletonRef(by Invoker, opts ...CallOption) *Ref {
	return NewRef(by, SingletonID, nil, opts...)
}

var errZeroRef = errors.New("call through a zero reference (get one from a client's Ref)")

// Begin begins a turn of the entity on the caller's goroutine, if it lives here and
// may run. The zero Turn says that the call goes by Ask or Run, with the error.
func (r *Ref) Begin(ctx context.Context, method string) (t Turn, err error) {
	if r == nil {
		return t, errZeroRef
	}
	return r.Invoker.Begin(ctx, r, method, false)
}

// BeginNoContext is Begin for a method that does not name its context. Such a turn needs no
// memory. Its Context is only to be passed to the method, and has ended if the method uses it after
// all.
func (r *Ref) BeginNoContext(ctx context.Context, method string) (t Turn, err error) {
	if r == nil {
		return t, errZeroRef
	}
	return r.Invoker.Begin(ctx, r, method, true)
}

// Ask sends a call and returns a decoder of its results. The arguments, in a buffer of
// NewArgs, are the reference's own from then on. Where err, from Begin, is not nil
// nothing is sent. It, or the call's other failure, is the decoder's error: see
// [Decoder.Results].
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

// Tell sends a call without an answer. The arguments, in a buffer of NewArgs, are the
// reference's own from then on. It returns why the call cannot be sent.
func (r *Ref) Tell(ctx context.Context, method string, args []byte) error {
	if r == nil {
		return errZeroRef
	}
	return r.Invoker.Send(ctx, r, method, args)
}

// NotEncoded returns the caller's error of a call whose arguments do not encode.
func (r *Ref) NotEncoded(method string, err error) error {
	if r == nil {
		return errZeroRef
	}
	return r.Invoker.Failed(r, method, false, encodeError("arguments", err))
}

// CallOptions are the settings of one reference.
type CallOptions struct {
	// Timeout bounds each call of the reference that has no earlier deadline.
	// 0 means the caller's CallTimeout.
	Timeout time.Duration
	// CommandID names the command that each call of the reference is; nil means each call is one
	// of its own. It is for durable types. The empty name is bad, and every call fails with it.
	CommandID *string
}

// A CallOption changes the settings of one reference.
type CallOption func(*CallOptions)

// argsPool keeps the buffers that arguments are encoded into.
var argsPool = sync.Pool{New: func() any { return new(argsBuffer) }}

type argsBuffer [2 << 10]byte

// NewArgs is an empty buffer for the arguments of a call, to be given back by Recycle.
func NewArgs() []byte { return argsPool.Get().(*argsBuffer)[:0] }

// Recycle gives the arguments of a call back, when nobody has them any more. A slice that
// has outgrown its buffer is left to the garbage collector.
func Recycle(args []byte) {
	if cap(args) == len(argsBuffer{}) {
		argsPool.Put((*argsBuffer)(args[:cap(args)]))
	}
}
