package shard

import (
	"context"

	"github.com/shardgen/shardgen/internal/driver/node"
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
