package shard

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// AfterCommit calls f when the store has all changes that the turn of ctx made or read, before the
// turn's answer is sent. f then gets nil. f gets an error if this home of the shard cannot know
// whether the store has the changes; only the next home finds out. Call AfterCommit in an
// interceptor of a host, with the interceptor's ctx and after next has returned. AfterCommit
// returns false and does not call f if there is nothing to wait for: the type is not durable, or
// the store already has all these changes. f must not block.
func AfterCommit(ctx context.Context, f func(err error)) bool { return node.AfterCommit(ctx, f) }

// ErrNoEpoch means that [Epoch] was called outside a turn of a durable type.
var ErrNoEpoch = node.ErrNoEpoch

// Epoch returns the epoch of the turn of ctx, for conditional writes to a database of your own. The
// epochs of an entity never fall, even over moves, crashes and full restarts. So let the database
// refuse a write whose epoch is lower than the highest epoch that it has seen for the entity: such
// a write comes from a former home. Epoch fails with ErrNoEpoch if ctx belongs to no turn of a
// durable type.
func Epoch(ctx context.Context) (uint64, error) { return node.Epoch(ctx) }

// Passivate passivates the entity at the end of the turn of ctx: the entity's stop hook runs with
// [Idle], its state is kept encoded, and its value is dropped. If calls wait, the entity is
// activated again at once. A passivated entity is not remembered (see [Remember]). Passivate fails
// if ctx belongs to no turn, or to a turn of a singleton or a pool: their instances are never
// passivated.
func Passivate(ctx context.Context) error { return node.Passivate(ctx) }

// Forget deletes the entity at the end of the turn of ctx: its stop hook runs with [Forgotten], its
// state is dropped, and its id is no longer remembered. A later call begins a new entity. Forget
// fails if ctx belongs to no turn, to a turn of a singleton or a pool, or to a turn of a method marked
// //shard:read.
func Forget(ctx context.Context) error { return node.Forget(ctx) }

// Go starts a task in the instance of a singleton or a pool. A task is work that goes on between
// calls, such as a loop with a ticker. ctx is the context of OnActivate or of a method. Go fails
// with [ErrNotSingleton] for other entities.
//
// The task's context ends when the instance must stop. The next instance, on any node, starts only
// after the task has returned. The context also ends if the node loses contact with the cluster;
// when the contact is back, the node calls task again. A task runs concurrently with the methods,
// so fields that both use need a lock.
//
// A task that returns nil is not run again. In a singleton, an error, a panic or runtime.Goexit in
// a task ends the instance, and a new instance starts after a pause. In a pool, a task that fails
// or panics runs again in the same instance, after 1 s, doubling up to 1 min; after runtime.Goexit
// it is not run again.
//
// A task of a durable singleton begins when the store has the changes of the turn that started the
// task. To change the state, the task calls a method through the client. If the task changes the
// state itself, the change is undone before the next turn, and the instance ends.
func Go(ctx context.Context, task func(context.Context) error) error {
	return node.StartTask(ctx, task)
}

// WithHeader returns a context whose calls and tells carry the headers of ctx and the given header.
// If ctx has a header with the same key, the given header replaces it. The called method reads the
// headers from [CallInfo]. Calls that this method makes do not carry them.
//
// A key has 1 to 64 of A-Z a-z 0-9 _ -, and is sent in lower case; a value is any string. A call
// carries at most 32 headers, with at most 4,096 bytes of keys and values together; WithHeader
// fails beyond these limits. A client may set any header to any value.
func WithHeader(ctx context.Context, key, value string) (context.Context, error) {
	return node.WithHeader(ctx, key, value)
}

// CallInfo returns the description of the call whose turn ctx belongs to: ctx is the context of a
// method, or of OnActivate if a call activated the entity. CallInfo reports false for other
// contexts, and after the turn has ended. The description is built only when CallInfo is called;
// until then a local call keeps 16 bytes for it.
func CallInfo(ctx context.Context) (Info, bool) {
	c, ok := node.CallInfoOf(ctx)
	return infoOf(c), ok
}

// Names of package codegen that user code and generated code both use.
type (
	// A Caller makes calls: a [*Node] or a [*Conn].
	Caller = codegen.Caller
	// A CallOption configures one reference to an entity; see [Timeout] and [CommandID].
	CallOption = codegen.CallOption
	// An Activation is the reason for an entity's activation, passed to OnActivate.
	Activation = codegen.Activation
	// A Passivation is the reason for an entity's end in memory, passed to OnPassivate.
	Passivation = codegen.Passivation
)

// The reasons for an activation and for a passivation.
const (
	Fresh       = codegen.Fresh       // there is no state
	Reactivated = codegen.Reactivated // passivated here; the state was kept
	Moved       = codegen.Moved       // the state came from another node
	Recovered   = codegen.Recovered   // the type is durable, and the state comes from the store

	Idle      = codegen.Idle      // not called for IdleAfter, more than MaxActive were active, or Passivate was called
	Moving    = codegen.Moving    // the shard moves to another node
	Stopping  = codegen.Stopping  // the node stops without giving the shard away
	Forgotten = codegen.Forgotten // Forget was called, or the supervisor stopped the entity
)

// Timeout bounds each call of a reference. Without Timeout, a call whose context has no deadline is
// bounded by Config.CallTimeout. The called method sees the bound as the deadline of its context.
func Timeout(d time.Duration) CallOption {
	return func(o *codegen.CallOptions) { o.Timeout = d }
}

// CommandID sets the idempotency key of a reference to an entity of a durable type. The first call
// with the key runs. Other calls with the key get the answer of the first call, also from other
// processes, from other turns and after restarts. A call with the same key but another
// method or other arguments fails with [ErrCommandReused]. With an empty key every call fails
// (outcome NotExecuted). A non-empty key has no effect on tells or on types that are not durable.
//
// A key is known for at least 10 minutes after the last call with it. A call with a key that is no
// longer known runs again. Bounds:
//
//   - A shard keeps the answers of 16,384 commands, in at most 16 MiB; a command with a key counts
//     twice. If the answer of a known key was dropped, a call fails with [ErrAnswerForgotten]
//     (outcome Executed).
//   - If a shard knows 65,536 commands of the last 10 minutes, a call with a new key fails with
//     [ErrOverloaded] (outcome NotExecuted).
//   - An entity keeps its last 128 keys with their answers for 24 hours, also after [Forget], if
//     they fit in 64 KiB and, together with the entity's state, in 512 KiB.
//
// A call runs each time if its method is marked //shard:read, or if the method changed nothing.
func CommandID(key string) CallOption {
	return func(o *codegen.CallOptions) { o.CommandID = &key }
}
