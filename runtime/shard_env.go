package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/loglevel"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/remembering"
	"github.com/shardgen/shardgen/internal/runner"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/singlehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// shardEnv implements the interface of package shardhost for a hostedShard.
type shardEnv hostedShard

var _ shardhost.Host = (*shardEnv)(nil)

func (v *shardEnv) shard() *hostedShard { return (*hostedShard)(v) }

// Now returns the time.
func (v *shardEnv) Now() time.Time { return time.Now() }

// Elapsed returns the time of the lease's clock.
func (v *shardEnv) Elapsed() int64 { return v.host.driver.lease.Now() }

// After calls f after d unless the node has ended.
func (v *shardEnv) After(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		if !v.host.driver.closed() {
			f()
		}
	})
}

// Session returns the session with a process on the shard's lane.
func (v *shardEnv) Session(to transport.Peer) (shardhost.Session, bool) {
	p := v.host.driver.peers.Session(to, v.lane)
	return p, p != nil
}

// Departed returns the departed peers of the lane, latest last.
func (v *shardEnv) Departed() []transport.Address { return v.host.driver.peers.Departed(v.lane) }

// HasDeparted reports whether a process is a departed peer of the lane.
func (v *shardEnv) HasDeparted(a transport.Address) bool {
	return v.host.driver.peers.HasDeparted(a, v.lane)
}

// MaxPayload returns the broker's payload limit, at least minPayload.
func (v *shardEnv) MaxPayload() int { return max(v.host.driver.link().MaxPayload(), minPayload) }

// Learn passes the shard's home to the route.
func (v *shardEnv) Learn(home transport.Address, epoch placement.Epoch) {
	v.host.kind.route(v.ID.Shard).Learn(home, epoch, false)
}

// Run gives a turn that has begun to a runner.
func (v *shardEnv) Run(e *region.Entity, c *shardhost.Call) {
	v.host.driver.runner(v.ID.Shard).Add(runner.Turn{Entity: e, Call: c})
}

// Grant wakes a local caller.
func (v *shardEnv) Grant(c *shardhost.Call, e *region.Entity) { inbound(&c.Call).granted <- e }

// Lead activates a singleton's instance.
func (v *shardEnv) Lead(e *region.Entity) { v.host.instance.Lead(e) }

// Release ends all back-offs.
func (v *shardEnv) Release() { v.shard().releaseAll() }

// Drained hands off the shard, or ends a singleton's instance, on a goroutine of its
// own.
func (v *shardEnv) Drained() {
	if in := v.host.instance; in != nil {
		v.host.driver.group.Go(in.HandOff)
		return
	}
	v.host.driver.group.Go(v.shard().HandOff)
}

// StopEntities encodes the entities and runs their stop hooks.
func (v *shardEnv) StopEntities(entities []*region.Entity, done func(error)) {
	s, drv := v.shard(), v.host.driver
	passivated := false
	defer func() {
		if !passivated && !drv.closed() { // a method that encodes state has ended this goroutine
			drv.group.Go(func() {
				s.cannotMove(errEncodeExits)
				done(errEncodeExits)
			})
		}
	}()
	err := s.passivateAll(entities, codegen.Moving, s.mustGo())
	passivated = true
	if err != nil {
		s.cannotMove(err)
	} else if s.durable != nil {
		s.durable.leave()
	}
	done(err)
}

// Changed follows a change of the shard's state.
func (v *shardEnv) Changed(opened bool) {
	if v.remembered != nil {
		v.remembered.ChangedLocked(opened)
	}
	if d := v.durable; d != nil {
		d.placedLocked(opened)
	}
}

// Answer brings an answer to the call's sender.
func (v *shardEnv) Answer(c *shardhost.Call, e *wire.Envelope) {
	v.host.driver.answer(inbound(&c.Call), e, nil)
}

// Forwarded records where a call of this process was forwarded.
func (v *shardEnv) Forwarded(c *shardhost.Call, to shardhost.Session, seq uint64) {
	if drv := v.host.driver; c.Sender.Address == drv.self.Address && c.ID != 0 {
		drv.pending.Sent(c.ID, to.(*peers.Session), seq)
	}
}

// LoseTell counts a tell that was accepted and will not run.
func (v *shardEnv) LoseTell(*shardhost.Call) { v.host.driver.counters.add(tellLost) }

// Canceler cancels the context of a call's turn.
func (v *shardEnv) Canceler(c *shardhost.Call) func() {
	if t := inbound(&c.Call).encoded.Load(); t != nil {
		return t.giveUp
	}
	return nil
}

// Why explains a verdict.
func (v *shardEnv) Why(c *shardhost.Call, verdict region.Verdict) string {
	switch verdict {
	case region.Overloaded:
		return v.shard().noRoom(&c.Call).Error()
	case region.Circular:
		return shardhost.Chain(c.Links).String() + v.ID.Kind + "/" + clip(c.Entity)
	}
	return ""
}

// Exiting reports whether this node has nothing left to give away.
func (v *shardEnv) Exiting() bool { return v.host.driver.exiting.Load() }

// MoveDone reports a completed move to the coordinator.
func (v *shardEnv) MoveDone(e placement.Epoch) { v.host.driver.ctl.moveDone(v.ID, e) }

// MoveAborted gives up the move and reports that to the coordinator.
func (v *shardEnv) MoveAborted(e placement.Epoch, reason string) {
	v.host.driver.ctl.moveAborted(v.ID, e, reason)
}

// Progress wakes the control loop.
func (v *shardEnv) Progress() { v.host.driver.ctl.progress(v.ID) }

// Remembered returns the remembered ids of the shard.
func (v *shardEnv) Remembered() (ids shardhost.RememberedIDs) {
	if v.remembered != nil {
		ids = v.remembered.Leaving()
	}
	return ids
}

// Arrived stores the remembered ids that arrived, until the shard opens.
func (v *shardEnv) Arrived(ids shardhost.RememberedIDs) {
	if v.remembered != nil {
		v.remembered.ArrivedLocked(ids)
	}
}

// BarrierTimedOut counts a barrier that timed out, and logs it seldom: a hostile client makes as
// many as it likes.
func (v *shardEnv) BarrierTimedOut(b region.Shut) {
	n, tell := v.host.driver.addSeldomOf(barrierTimedOut, b.Sender.Name)
	if !tell {
		return
	}
	v.host.driver.log.Warn("ordering barrier timed out: a sender's Flush did not come through the shard's old home",
		"shard", v.ID.String(), "sender", b.Sender.String(), "via", b.Via.String(),
		"epoch", b.Epoch.String(), "calls", b.Held, "after", region.BarrierTimeout, "count", n)
}

// reasonOf maps the counters of package shardhost to those of this process.
var reasonOf = [...]reason{
	shardhost.CallForwarded: callForwarded,
	shardhost.CallRefused:   callRefused,
	shardhost.CallDropped:   callDropped,
	shardhost.CallCancelled: callCancelled,
	shardhost.MovedIn:       shardMovedIn,
	shardhost.MovedOut:      shardMovedOut,
	shardhost.NoPeer:        dropNoPeer,
}

// Count raises a counter by one.
func (v *shardEnv) Count(c shardhost.Counter) { v.host.driver.counters.add(reasonOf[c]) }

// singletonHome implements the interface of package singlehost for the shard of a
// singleton.
type singletonHome hostedShard

var (
	_ singlehost.Home  = (*singletonHome)(nil)
	_ remembering.Home = (*rememberedHome)(nil)
)

func (v *singletonHome) shard() *hostedShard { return (*hostedShard)(v) }

// Log logs a line.
func (v *singletonHome) Log(l loglevel.Level, text string, args ...any) {
	v.host.driver.log.Log(context.Background(), slog.Level(l), text, args...)
}

// Count raises a counter by one.
func (v *singletonHome) Count(c shardhost.Counter) { v.host.driver.counters.add(reasonOf[c]) }

// Context ends when the node stops.
func (v *singletonHome) Context() context.Context { return v.host.driver.ctx }

// Go runs f on a goroutine that the node waits for.
func (v *singletonHome) Go(f func()) { v.host.driver.group.Go(f) }

// After calls f once, after d.
func (v *singletonHome) After(d time.Duration, f func()) { (*shardEnv)(v).After(d, f) }

// Now returns the time.
func (v *singletonHome) Now() time.Time { return time.Now() }

// Ticks returns the coarse clock, by which entities are passivated.
func (v *singletonHome) Ticks() uint32 { return v.host.driver.clock.Load() }

// RunTask runs a task of the instance on a goroutine of its own.
func (v *singletonHome) RunTask(life context.Context, task singlehost.Task, ended func(error)) {
	r := &taskRun{home: v.shard(), kind: v.ID.Kind, log: v.host.driver.log, life: life, task: task}
	v.Go(func() { r.run(ended) })
}

// Activate runs the factory and OnActivate in a turn that has begun, when turns may run.
func (v *singletonHome) Activate(ctx context.Context, e *region.Entity) error {
	ctx, cancel := context.WithTimeout(ctx, v.host.driver.cfg.HandoffTimeout)
	defer cancel()
	t := &turn{parent: ctx, entity: e}
	defer t.end()
	if err := v.shard().waitLease(ctx); err != nil {
		return err
	}
	if v.durable != nil {
		return v.durable.activateInstance(t, e)
	}
	return v.shard().wake(t, e)
}

// Lost notes that an instance is about to lose its value.
func (v *singletonHome) Lost(e *region.Entity) { v.host.lost(e) }

// EndTurn ends the turn of an entity and begins the next one.
func (v *singletonHome) EndTurn(e *region.Entity) { v.shard().endTurn(e) }

// Passivate runs the stop hooks of entities whose turns Core.Stop has begun. The state of a durable
// singleton is in the store afterwards, from where the next home takes it.
func (v *singletonHome) Passivate(entities []*region.Entity, why codegen.Passivation) {
	if v.durable != nil {
		for _, e := range entities {
			v.durable.undoStray(e)
		}
		defer v.durable.leave()
	}
	_ = v.shard().passivateAll(entities, why, true) // its node leaves, or it dies
}

// Session returns the session with a process on the shard's lane.
func (v *singletonHome) Session(to transport.Peer) (shardhost.Session, bool) {
	p := v.host.driver.peers.Session(to, v.lane)
	return p, p != nil
}

// HasDeparted reports whether a process is a departed peer of the lane.
func (v *singletonHome) HasDeparted(a transport.Address) bool {
	return v.host.driver.peers.HasDeparted(a, v.lane)
}

// Progress wakes the control loop.
func (v *singletonHome) Progress() { v.host.driver.ctl.progress(v.ID) }

// rememberedHome implements the interface of package remembering for a shard of a type
// whose entities are remembered.
type rememberedHome hostedShard

func (v *rememberedHome) shard() *hostedShard { return (*hostedShard)(v) }

// MayRun reports whether a turn may begin at this moment.
func (v *rememberedHome) MayRun() bool { return v.shard().mayRun() }

// Ticks returns the coarse clock, by which entities are passivated.
func (v *rememberedHome) Ticks() uint32 { return v.host.driver.clock.Load() }

// EndTurn ends the turn of an entity and begins the next one.
func (v *rememberedHome) EndTurn(e *region.Entity) { v.shard().endTurn(e) }

// Activate activates an entity in a turn without a call.
func (v *rememberedHome) Activate(e *region.Entity, ended func(error)) {
	drv := v.host.driver
	ctx, cancel := context.WithTimeout(drv.ctx, drv.cfg.CallTimeout)
	defer cancel()
	t := &turn{parent: ctx, entity: e}
	err := errors.New("runtime.Goexit in OnActivate or the factory")
	defer func() { // also when the hook ends this goroutine
		ended(err)
		var failed *failure
		if err != nil {
			failed = &failure{method: "OnActivate", err: fmt.Errorf("%w: %w", ErrActivation, err)}
		}
		t.end()
		v.shard().endTurnOf(e, t.after(), failed)
	}()
	err = v.shard().wake(t, e)
}
