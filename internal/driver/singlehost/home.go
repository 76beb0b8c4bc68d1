package singlehost

import (
	"context"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// A Home is the process that runs an instance, for the instance's shard. It is safe for
// concurrent use. RunTask, Now and Ticks may be called with the shard's lock held.
type Home interface {
	Log(l slog.Level, text string, args ...any)
	Count(shardhost.Counter)

	// Context ends when the process stops.
	Context() context.Context
	// Go calls f soon and not from here. f may block; the process waits for it before it has
	// stopped.
	Go(f func())
	// After calls f once, after d, unless the process has ended by then.
	After(d time.Duration, f func())
	Now() time.Time
	// Ticks is the coarse clock that region.Shard takes as now.
	Ticks() uint32

	// RunTask runs a task, beside the turns and not from here. A task that returns because
	// the process may not run the instance for the moment is run again later. RunTask calls
	// ended when the task is over, with an error if that ends the instance; after the end of
	// life it does not.
	RunTask(life context.Context, task Task, ended func(error))

	// Activate runs the factory and OnActivate in a turn that has begun, when turns may run.
	// ctx is the life of the instance.
	Activate(ctx context.Context, e *region.Entity) error
	// Lost notes that the instance is about to lose its value.
	Lost(e *region.Entity)
	// EndTurn ends the turn of an entity and begins the next one.
	EndTurn(e *region.Entity)
	// Passivate runs the stop hooks of entities whose turns Core.Stop has begun.
	Passivate(entities []*region.Entity, why codegen.Passivation)

	// Session returns the session with a process on the shard's lane; false means that it was
	// removed.
	Session(to transport.Peer) (shardhost.Session, bool)
	// HasDeparted reports whether nothing comes from a process any more on that lane.
	HasDeparted(a transport.Address) bool
	// Progress reports a change of the shard; others may wait for it.
	Progress()
}
