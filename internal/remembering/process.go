package remembering

import (
	"context"
	"log/slog"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/remember"
	"github.com/shardgen/shardgen/transport"
)

// A Process is the member that a Memory is part of. It is safe for concurrent use.
type Process interface {
	Self() transport.Address
	Cluster() string
	Log() *slog.Logger
	// Send sends a message to a member.
	Send(to transport.Address, m remember.Message)

	// Context ends when the process stops, and Stopped returns the error for that.
	Context() context.Context
	Stopped() error
	// Go runs f on a goroutine that the process waits for before it has stopped.
	Go(f func())

	// MayAnswer reports whether this process may answer for its shards at this moment, and
	// WaitLease waits until it may run turns, or until ctx ends or the process stops.
	MayAnswer() bool
	WaitLease(ctx context.Context) error

	// Full returns the error of an entity that is not remembered because of err: its shard
	// remembers as many as it may.
	Full(err error) error
	// Count raises a counter by one, and returns its value and whether it is to be
	// logged.
	Count(c Counter) (n uint64, tell bool)
}

// A Counter is one of the counters of a process, which [Process.Count] raises by one.
type Counter uint8

// The counters.
const (
	Activated        Counter = iota // a remembered entity was activated again
	ActivationFailed                // such an entity's activation failed
	Late                            // an id was not stored or copied in time
	StoreFailed                     // the store of remembered ids failed
)

// A Home runs the entities of one shard. It is safe for concurrent use.
type Home interface {
	// MayRun reports whether a turn may begin at this moment.
	MayRun() bool
	// Ticks returns the coarse clock that region.Shard uses.
	Ticks() uint32
	// Activate activates an entity in a turn that has begun. Before it ends the turn it calls
	// ended, with the reason if the activation failed.
	Activate(e *region.Entity, ended func(error))
	// EndTurn ends the turn of an entity and begins the next one.
	EndTurn(e *region.Entity)
}
