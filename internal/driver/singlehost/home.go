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

// A Home is the process that runs an instance, as the instance's shard needs it. It is safe for
// concurrent use. RunTask, Now and Ticks may be called with the shard's lock held.
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

	// RunTask runs a task beside the turns, after RunTask has returned. If a task returns because
	// the process may not run the instance for the moment, RunTask runs it again later. It calls
	// ended when the task is done, with an error if that ends the instance. After the end of life
	// that error is nil.
	RunTask(life context.Context, task Task, ended func(error))

	// Activate runs the factory and OnActivate in a turn that has begun, when turns may run. ctx
	// ends with the instance.
	Activate(ctx context.Context, e *region.Entity) error
	// Lost records that the instance is about to lose its value.
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
	// Progress reports a change of the shard that others may wait for.
	Progress()
}
