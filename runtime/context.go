package shard

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// AfterCommit has f called once the store has everything that the turn of ctx has changed and seen,
// before the turn's answer leaves. f gets nil, or an error if this home of the shard cannot know
// whether the store has it; the next home finds out. AfterCommit is for interceptors of a host, after
// next has returned; ctx is the interceptor's. It returns false and does not call f if there is
// nothing to wait for: the type is not durable, or the store already has all that the turn changed
// and saw. f must not block.
func AfterCommit(ctx context.Context, f func(err error)) bool { return node.AfterCommit(ctx, f) }

// ErrNoEpoch means that [Epoch] was called outside a turn of a durable type.
var ErrNoEpoch = node.ErrNoEpoch

// Epoch returns the epoch of the turn to which ctx belongs, for conditional writes to a
// database of your own. It is a number that only grows for the entity, over moves, crashes
// and full restarts. A write under an epoch lower than one that the database has seen comes
// from a former home and must be refused. It fails with ErrNoEpoch if ctx belongs to no turn
// of a durable type.
func Epoch(ctx context.Context) (uint64, error) { return node.Epoch(ctx) }

// Passivate passivates the entity at the end of the turn to which ctx belongs: its stop
// hook runs with [Idle], its state is kept and its value dropped. If calls wait, the
// entity is activated again at once. Until then the entity is not remembered (see
// [Remember]). Passivate fails if ctx belongs to no turn, or to a turn of a singleton,
// which is never passivated.
func Passivate(ctx context.Context) error { return node.Passivate(ctx) }

// Forget deletes the entity at the end of the turn to which ctx belongs: its stop hook
// runs with [Forgotten], its state is dropped, and it is no longer remembered. A later
// call begins a new entity. Forget fails if ctx belongs to no turn, to a turn of a
// singleton, which is never forgotten, or to a turn of a method marked //shard:read.
func Forget(ctx context.Context) error { return node.Forget(ctx) }

// Go starts a task of a singleton's instance: work that goes on between calls, such as a
// loop with a ticker. ctx is that of OnActivate or of a method.
//
// The task's context ends when the instance must stop: when it is handed off or dies, or
// when the node may no longer run it. The next instance, on any node, starts only after
// the task has returned, so the task should return soon. If the node has lost contact
// with the cluster, the context ends too, and task is called again when the contact is
// back.
//
// A task runs beside the methods. Fields that both use need a lock, or the task calls the
// singleton through its client. A task that returns nil has ended. An error, a panic or
// runtime.Goexit ends the instance, which is started again after a pause.
//
// A task of a durable singleton begins when the changes of the turn that starts it, or of
// OnActivate, are in the store. It must not change the state: it calls a method through the client,
// and the change is committed when the call is answered. A change that a task has made itself is
// undone before the next turn, and ends the instance.
//
// Go fails with [ErrNotSingleton] for other entities.
func Go(ctx context.Context, task func(context.Context) error) error {
	return node.StartTask(ctx, task)
}

// WithHeader returns a context whose calls and tells carry the header in addition to those of ctx. A header
// of the same key is replaced. Headers are for data that concerns many methods, such as a trace or a
// tenant. The called method gets them from [CallInfo]. A method's own calls do not carry them, unless it
// passes them on with WithHeader.
//
// A key has 1 to 64 of A-Z a-z 0-9 _ -, in any case, and is sent in lower case; a value is any
// string. A call carries at most 32 headers, and their keys and values have at most 4,096 bytes
// together; WithHeader fails beyond that. Headers prove nothing about the caller: a client may
// set each to any value.
func WithHeader(ctx context.Context, key, value string) (context.Context, error) {
	return node.WithHeader(ctx, key, value)
}

// CallInfo returns the description of the call whose turn ctx belongs to: the context of a method, or
// of OnActivate if a call activates the entity. It reports false for other contexts, also after the
// turn has ended. A local call keeps 16 bytes for it; the rest is put together here.
func CallInfo(ctx context.Context) (Info, bool) {
	c, ok := node.CallInfoOf(ctx)
	return infoOf(c), ok
}

// The names that user code and generated code share with package codegen.
type (
	// A Caller makes calls: a [*Node] or a [*Conn].
	Caller = codegen.Caller
	// A CallOption configures one reference; see [Timeout] and [CommandID].
	CallOption = codegen.CallOption
	// An Activation is the reason that OnActivate gets for the activation of its entity.
	Activation = codegen.Activation
	// A Passivation is the reason that OnPassivate gets for the end of its entity.
	Passivation = codegen.Passivation
)

// The reasons of an activation and of a passivation.
const (
	Fresh       = codegen.Fresh       // it has no state
	Reactivated = codegen.Reactivated // it was passivated here, and has its state
	Moved       = codegen.Moved       // its state came from another node
	Recovered   = codegen.Recovered   // it is of a durable type, and its state comes from the store

	Idle      = codegen.Idle      // it was not called for IdleAfter, it made room (MaxActive), or it called Passivate
	Moving    = codegen.Moving    // its shard moves to another node
	Stopping  = codegen.Stopping  // its node stops without giving its shard away
	Forgotten = codegen.Forgotten // it called Forget, or its supervisor stopped it
)

// Timeout bounds each call of a reference. The default is Config.CallTimeout, for calls
// whose context has no deadline. The method sees it as the deadline of its context.
func Timeout(d time.Duration) CallOption {
	return func(o *codegen.CallOptions) { o.Timeout = d }
}

// CommandID makes all calls of a reference to an entity of a durable type one command: the
// first call runs, and the others get its answer, also from other processes and after
// restarts. A request that has an id, of a payment for example, is thus carried out once
// although it was sent again. A call with the same key and another method or other arguments
// fails with [ErrCommandReused]. With an empty key every call of the reference fails (outcome NotExecuted): the
// request that the key was read from had none. With any other key
// the option has no effect on tells, nor on types that are not durable.
//
// That holds for calls that a turn of an entity makes, too: the key names the call instead of its place
// in the turn, so the call is one command with those of other turns. Tells do not use the key.
//
// A key is known for at least 10 minutes after the last call with it, always. Where there is no room for
// its answer, a call with it fails with [ErrAnswerForgotten] (outcome Executed), and does not run again: a
// shard has room for 16,384 ids and keys, of which a key takes two, with 16 MiB of answers. Where a new key
// could not be kept as long, because the shard has 65,536 of the last 10 minutes, its call fails with [ErrOverloaded] (outcome
// NotExecuted). In addition the entity keeps its last 128 keys with their answers for 24 hours, even while it is
// passivated and after [Forget], as far as they fit in 64 KiB, and together with the entity's state in
// 512 KiB. A key that is no longer kept counts as new, and its call runs. A method marked
// //shard:read, and one that changed nothing, is run each time.
func CommandID(key string) CallOption {
	return func(o *codegen.CallOptions) { o.CommandID = &key }
}
