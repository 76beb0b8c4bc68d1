package node

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/driver/runner"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type shardEnv HostedShard

var _ shardhost.Host = (*shardEnv)(nil)

func (v *shardEnv) shard() *HostedShard { return (*HostedShard)(v) }

func (v *shardEnv) Now() time.Time { return time.Now() }

// Elapsed returns the time of the lease's clock.
func (v *shardEnv) Elapsed() int64 { return v.Host.driver.Lease.Now() }

// After calls f after d, unless the node has ended by then.
func (v *shardEnv) After(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		if !v.Host.driver.Closed() {
			f()
		}
	})
}

func (v *shardEnv) Session(to transport.Peer) (shardhost.Session, bool) {
	p := v.Host.driver.Sessions.Session(to, v.lane)
	return p, p != nil
}

// Departed returns the departed peers of the lane, the latest last.
func (v *shardEnv) Departed() []transport.Address { return v.Host.driver.Sessions.Departed(v.lane) }

// HasDeparted reports whether a process is one of the lane's departed peers.
func (v *shardEnv) HasDeparted(a transport.Address) bool {
	return v.Host.driver.Sessions.HasDeparted(a, v.lane)
}

// Departs reports whether the departure of a process is being handled.
func (v *shardEnv) Departs(a transport.Address) bool { return v.Host.driver.Data.Departs(a) }

// MaxPayload returns the broker's payload limit in bytes, at least minPayload.
func (v *shardEnv) MaxPayload() int { return max(v.Host.driver.Link().MaxPayload(), minPayload) }

// Learn passes the shard's new home to this process's route of the shard.
func (v *shardEnv) Learn(home transport.Address, epoch placement.Epoch) {
	v.Host.Kind.Route(v.ID.Shard).Learn(home, epoch, false)
}

// Run queues, at the shard's runner, a turn that has begun.
func (v *shardEnv) Run(e *region.Entity, c *shardhost.Call) {
	v.Host.driver.runner(v.ID.Shard).Add(runner.Turn{Entity: e, Call: c})
}

// Grant gives the entity e, whose turn has begun, to the waiting local caller of c; a nil e means
// that the caller must look for the home again.
func (v *shardEnv) Grant(c *shardhost.Call, e *region.Entity) { Inbound(&c.Call).granted <- e }

// Lead activates a singleton's instance in the turn of e, after the shard has opened.
func (v *shardEnv) Lead(e *region.Entity) { v.Host.Instance.Lead(e) }

// Release ends the back-offs of all restarted entities.
func (v *shardEnv) Release() { v.shard().releaseAll() }

// Drained is called when the shard has no running turn any more. On a new goroutine it hands off
// the shard, or ends the singleton's instance.
func (v *shardEnv) Drained() {
	if in := v.Host.Instance; in != nil {
		v.Host.driver.Group.Go(in.HandOff)
		return
	}
	v.Host.driver.Group.Go(v.shard().HandOff)
}

// part returns the number of the shard's part: see [Parts].
func (v *shardEnv) part() int { return int(v.ID.Shard - v.Host.Kind.Shards) }

// StopEntities encodes the entities, runs their stop hooks, and calls done.
func (v *shardEnv) StopEntities(entities []*region.Entity, done func(error)) {
	s, drv := v.shard(), v.Host.driver
	passivated := false
	defer func() {
		if !passivated && !drv.Closed() { // a method that encodes state has ended this goroutine
			drv.Group.Go(func() {
				s.cannotMove(errEncodeExits)
				done(errEncodeExits)
			})
		}
	}()
	if p := v.Host.Parts; p != nil {
		p.wait(v.part())
	}
	err := s.passivateAll(entities, codegen.Moving, s.mustGo())
	passivated = true
	if err != nil {
		s.cannotMove(err)
	} else if s.Durable != nil {
		s.Durable.leave()
	}
	done(err)
}

// Changed passes a change of the shard's state to the parts of the process that depend on the
// state. opened means that the shard has just opened.
func (v *shardEnv) Changed(opened bool) {
	if v.remembered != nil {
		v.remembered.ChangedLocked(opened)
	}
	if d := v.Durable; d != nil {
		d.placedLocked(opened)
	}
	if state := v.Core.State(); v.volatile != nil && (state == region.Closed || state == region.Forwarding) {
		v.volatile.clear()
	} else if v.volatile != nil && opened {
		v.volatile.opened()
	}
	if p := v.Host.Parts; p != nil {
		p.placed(v.part(), v.Core.State() == region.Open)
	}
}

// Answer brings an answer to the call's sender.
func (v *shardEnv) Answer(c *shardhost.Call, e *wire.Envelope) {
	v.Host.driver.answer(Inbound(&c.Call), e, nil)
}

// Forwarded records the session on which a call of this process was forwarded.
func (v *shardEnv) Forwarded(c *shardhost.Call, to shardhost.Session, seq uint64) {
	if drv := v.Host.driver; c.Sender.Address == drv.Local.Address && c.ID != 0 {
		drv.Pending.Sent(c.ID, to.(*peers.Session), seq)
	}
}

// LoseTell counts and logs an accepted tell that will not run.
func (v *shardEnv) LoseTell(c *shardhost.Call) {
	v.Host.driver.loseTell(v.shard().ID.Kind, c.Entity, wire.StringOf(c.Method))
}

// Canceler returns a function that cancels the context of the call's turn.
func (v *shardEnv) Canceler(c *shardhost.Call) func() {
	if t := Inbound(&c.Call).Encoded.Load(); t != nil {
		return t.giveUp
	}
	return nil
}

// InDoubt returns a function that answers another process's call with an unknown outcome, while the
// call's turn still runs. A leaving process needs this answer, because the turn's own answer would
// come only after the process's goodbye.
func (v *shardEnv) InDoubt(c *shardhost.Call) func() {
	drv := v.Host.driver
	held := &InCall{lane: Inbound(&c.Call).lane, from: Inbound(&c.Call).from}
	held.ID, held.Sender, held.Via = c.ID, c.Sender, c.Via
	return func() {
		drv.answer(held, &wire.Envelope{
			Type: wire.TypeAnswer, ID: held.ID, Code: wire.CodeInDoubt,
			Text: []byte(drv.Local.Address.String() + " left while the method ran"),
		}, nil)
	}
}

// Why returns the text that explains why a call was refused.
func (v *shardEnv) Why(c *shardhost.Call, verdict region.Verdict) string {
	return v.shard().explain(c, verdict)
}

// Exiting reports whether this node has given away all its shards.
func (v *shardEnv) Exiting() bool { return v.Host.driver.Exiting.Load() }

// MoveDone tells the coordinator that the shard has moved here.
func (v *shardEnv) MoveDone(e placement.Epoch) { v.Host.driver.Control.MoveDone(v.ID, e) }

// MoveAborted gives up the move and tells the coordinator.
func (v *shardEnv) MoveAborted(e placement.Epoch, reason string) {
	v.Host.driver.Control.MoveAborted(v.ID, e, reason)
}

// Progress wakes the control loop, because a change of the shard may let it go on.
func (v *shardEnv) Progress() { v.Host.driver.Control.Progress(v.ID) }

func (v *shardEnv) Carried() (with shardhost.Carried) {
	if v.remembered != nil {
		with = v.remembered.Leaving()
	}
	if v.volatile != nil {
		with.Reminders = v.volatile.leaving()
	}
	return with
}

// Arrived stores the remembered ids that came with the shard, until the shard opens, and takes the
// reminders.
func (v *shardEnv) Arrived(with shardhost.Carried) {
	if v.remembered != nil {
		v.remembered.ArrivedLocked(with)
	}
	if v.volatile != nil {
		v.volatile.arrived(with)
	}
}

// BarrierTimedOut counts a barrier that timed out. It logs only some of these barriers, because a
// hostile client can cause any number of them.
func (v *shardEnv) BarrierTimedOut(b region.Shut) {
	n, tell := v.Host.driver.AddSeldomOf(barrierTimedOut, b.Sender.Name)
	if !tell {
		return
	}
	v.Host.driver.Logger.Warn("ordering barrier timed out: a sender's Flush did not come through the shard's old home",
		"shard", v.ID.String(), "sender", b.Sender.String(), "via", b.Via.String(),
		"epoch", b.Epoch.String(), "calls", b.Held, "after", region.BarrierTimeout, "count", n)
}

var reasonOf = [...]Reason{
	shardhost.CallForwarded: callForwarded,
	shardhost.CallRefused:   callRefused,
	shardhost.CallDropped:   callDropped,
	shardhost.CallCancelled: callCancelled,
	shardhost.MovedIn:       shardMovedIn,
	shardhost.MovedOut:      shardMovedOut,
	shardhost.NoPeer:        dropNoPeer,
}

func (v *shardEnv) Count(c shardhost.Counter) { v.Host.driver.Counts.Add(reasonOf[c]) }
