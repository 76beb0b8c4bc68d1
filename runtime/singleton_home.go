package shard

import (
	"context"
	"log/slog"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// singletonHome is the shard of a hosted singleton as package singlehost uses it: this
// process, for one instance.
type singletonHome hostedShard

var _ singlehost.Home = (*singletonHome)(nil)

func (v *singletonHome) shard() *hostedShard { return (*hostedShard)(v) }

// Name is the node's.
func (v *singletonHome) Name() string { return v.host.plane.self.Name }

// Log is the node's.
func (v *singletonHome) Log() *slog.Logger { return v.host.plane.log }

// WarnSeldom logs a warning, but for most of those that are alike.
func (v *singletonHome) WarnSeldom(text, subject string, args ...any) {
	v.host.plane.seldom.warn(v.host.plane.log, text, subject, "", args...)
}

// Count counts an event.
func (v *singletonHome) Count(e shardhost.Event) { v.host.plane.counters.add(reasonOf[e]) }

// Context ends when the node stops.
func (v *singletonHome) Context() context.Context { return v.host.plane.ctx }

// Go runs f on a goroutine that the node waits for.
func (v *singletonHome) Go(f func()) { v.host.plane.wg.Go(f) }

// Ticks is the coarse clock by which entities go to rest.
func (v *singletonHome) Ticks() uint32 { return v.host.plane.clock.Load() }

// WaitLease waits until turns of the instance may run here.
func (v *singletonHome) WaitLease(ctx context.Context) error { return v.shard().waitLease(ctx) }

// MayRun reports whether turns of the instance may run here at this moment.
func (v *singletonHome) MayRun() bool { return v.shard().mayRun() }

// Activate runs the factory and OnActivate in a turn that has begun, when turns may run.
func (v *singletonHome) Activate(ctx context.Context, e *region.Entity) error {
	ctx, cancel := context.WithTimeout(ctx, v.host.plane.cfg.HandoffTimeout)
	defer cancel()
	t := &turn{parent: ctx, entity: e}
	defer t.end()
	if err := v.shard().waitLease(ctx); err != nil {
		return err
	}
	return v.shard().wake(t, e)
}

// EndTurn ends the turn of an entity and begins the next one.
func (v *singletonHome) EndTurn(e *region.Entity) { v.shard().endTurn(e) }

// Rest runs the stop hooks of entities whose turns Core.Stop has begun.
func (v *singletonHome) Rest(entities []*region.Entity, why codegen.Passivation) {
	_ = v.shard().restAll(entities, why, true) // its node leaves, or it dies
}

// Session is the session with a process on the shard's lane.
func (v *singletonHome) Session(to transport.Peer) (shardhost.Session, bool) {
	p := v.host.plane.peers.Session(to, v.lane)
	return p, p != nil
}

// HasDeparted reports whether nothing comes from a process any more on the lane.
func (v *singletonHome) HasDeparted(a transport.Address) bool {
	return v.host.plane.peers.HasDeparted(a, v.lane)
}

// Progress wakes the control loop.
func (v *singletonHome) Progress() { v.host.plane.ctl.progress(v.ID) }
