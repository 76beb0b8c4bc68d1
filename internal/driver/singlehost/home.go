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

// A Home is what an instance and its shard need of their process. It is safe for concurrent use.
// RunTask, Now and Ticks may be called with the shard's lock held.
type Home interface {
	Log(l slog.Level, text string, args ...any)
	Count(shardhost.Counter)

	// Context ends when the process stops.
	Context() context.Context
	// Go calls f soon, but not before Go returns. f may block. The process waits for f before it has
	// stopped.
	Go(f func())
	// After calls f once, after d, unless the process has ended by then.
	After(d time.Duration, f func())
	Now() time.Time
	// Ticks returns the coarse clock, which is the parameter now of region.Shard's methods.
	Ticks() uint32

	// RunTask starts a task beside the turns, and returns before it runs. If the task returns
	// because the process may not run the instance for the moment, it runs again later. When the
	// task is done, ended is called, with an error if the instance must end. After the end of life
	// the error is nil.
	RunTask(life context.Context, task Task, ended func(error))

	// Activate waits until turns may run, and then runs the factory and OnActivate in the turn,
	// which has begun. ctx ends with the instance.
	Activate(ctx context.Context, e *region.Entity) error
	// Lost records that the instance is about to lose its value in memory.
	Lost(e *region.Entity)
	// EndTurn ends the entity's turn. If a call waits, the next turn begins.
	EndTurn(e *region.Entity)
	// Passivate runs the stop hooks of entities whose turns Core.Stop has begun.
	Passivate(entities []*region.Entity, why codegen.Passivation)

	// Session returns the session with a process on the shard's lane. It reports false if the
	// process was removed.
	Session(to transport.Peer) (shardhost.Session, bool)
	// HasDeparted reports whether a process has departed on the lane, so that nothing more comes
	// from it.
	HasDeparted(a transport.Address) bool
	// Progress reports a change of the shard. A leaving process or a new coordinator may wait for
	// it.
	Progress()
}
