package singlehost

import (
	"context"
	"log/slog"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// A Home is the process that runs an instance, for the instance's shard. It is safe for
// concurrent use.
type Home interface {
	// Name is the process's, for errors.
	Name() string
	Log() *slog.Logger
	// WarnSeldom logs a warning, but for most of those that are alike in text and subject.
	WarnSeldom(text, subject string, args ...any)
	Count(shardhost.Event)

	// Context ends when the process stops.
	Context() context.Context
	// Go runs f on a goroutine that the process waits for before it has stopped.
	Go(f func())
	// Ticks is the coarse clock that region.Shard takes as now.
	Ticks() uint32

	// WaitLease waits until turns of the instance may run here. It fails when ctx ends, when
	// the process stops, and when the instance's own lease is over.
	WaitLease(ctx context.Context) error
	// MayRun reports whether turns of the instance may run here at this moment.
	MayRun() bool

	// Activate runs the factory and OnActivate in a turn that has begun, when turns may run.
	// ctx is the life of the instance.
	Activate(ctx context.Context, e *region.Entity) error
	// Lost notes that the instance is about to lose its value.
	Lost(e *region.Entity)
	// EndTurn ends the turn of an entity and begins the next one.
	EndTurn(e *region.Entity)
	// Rest runs the stop hooks of entities whose turns Core.Stop has begun.
	Rest(entities []*region.Entity, why codegen.Passivation)

	// Session returns the session with a process on the shard's lane; false: it was removed.
	Session(to transport.Peer) (shardhost.Session, bool)
	// HasDeparted reports whether nothing comes from a process any more on that lane.
	HasDeparted(a transport.Address) bool
	// Progress notes that the shard has changed; others may wait for that.
	Progress()
}
