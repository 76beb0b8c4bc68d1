package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/turnlease"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// instance is the only entity of a hosted singleton. Beside the turns of calls
// there are turns of its own: one that brings it to life before any call, and
// one that is kept from its death to its next life, so that calls wait.
//
// What is below shard is guarded by the shard's lock.
type instance struct {
	shard  *hostedShard
	guard  turnlease.Lease // over when the singleton's lease is; renewed forever without one
	post   func(singleton.Input)
	opened func(from transport.Address, epoch placement.Epoch)
	tasks  sync.WaitGroup

	entity   *region.Entity  // whose turn is kept
	busy     bool            // a goroutine works on entity and will let go of it
	life     context.Context // ends when the instance must stop
	end      context.CancelFunc
	dying    bool // it has died: the next end of a turn keeps the turn
	stopping bool
	reason   string // why it died
}

func newInstance(s *hostedShard) *instance {
	in := &instance{shard: s}
	in.guard.Init(time.Now())
	in.guard.Renew(time.Time{})
	in.post = func(singleton.Input) {} // until Start
	in.opened = func(transport.Address, placement.Epoch) {}
	in.life, in.end = context.WithCancel(s.plane().ctx)
	return in
}

// at is where the instance runs, for proxies: here, if the shard is open.
func (in *instance) at() (placement.Epoch, bool) {
	in.shard.Mu.Lock()
	defer in.shard.Mu.Unlock()
	return in.shard.Core.Epoch(), in.shard.Core.State() == region.Open
}

// holds reports whether something of the shard is still here, or on its way.
func (in *instance) holds() bool {
	o, ok := in.shard.Owned()
	return ok && (o.State != coordinator.Forwarding || in.shard.Holds())
}

// lead takes the first turn after the shard has opened.
func (in *instance) lead(e *region.Entity) {
	in.shard.Mu.Lock()
	in.entity, in.busy, in.dying, in.stopping = e, true, false, false
	in.shard.Mu.Unlock()
	in.shard.plane().wg.Go(func() { in.activate(e) })
}

// again brings an instance that died to life. It reports false when none died
// here: then the shard has to be opened.
func (in *instance) again() bool {
	in.shard.Mu.Lock()
	e := in.entity
	if e != nil {
		in.busy, in.dying = true, false
	}
	in.shard.Mu.Unlock()
	if e != nil {
		in.shard.plane().wg.Go(func() { in.activate(e) })
	}
	return e != nil
}

// activate runs the factory and OnActivate, then lets calls in.
func (in *instance) activate(e *region.Entity) {
	s := in.shard
	in.end()
	life, end := context.WithCancel(s.plane().ctx)
	s.Mu.Lock()
	in.life, in.end = life, end
	s.Mu.Unlock()
	err := errors.New("runtime.Goexit in OnActivate or the factory")
	defer func() { // also when the hook ends this goroutine
		if err != nil {
			s.plane().log.Error("activation failed", "kind", s.ID.Kind, "entity", clip(e.ID), "err", err)
			s.Mu.Lock()
			in.dying, in.reason = true, err.Error()
			s.Mu.Unlock()
			in.bury(e)
			return
		}
		in.post(singleton.InstanceStarted{})
		s.Mu.Lock()
		in.entity, in.busy = nil, false
		s.Mu.Unlock()
		s.endTurn(e)
	}()
	ctx, cancel := context.WithTimeout(life, s.plane().cfg.HandoffTimeout)
	defer cancel()
	t := &turn{parent: ctx, entity: e}
	defer t.end()
	if err = s.waitLease(ctx); err == nil {
		err = s.wake(t, e)
	}
}

// fail ends the instance after a panic, a Goexit, or a task's error: the turn
// under way is its last, or one is taken at once.
func (in *instance) fail(reason string) {
	s := in.shard
	s.Mu.Lock()
	if in.dying || in.stopping {
		s.Mu.Unlock()
		return
	}
	in.dying, in.reason = true, reason
	e := s.Core.Take(codegen.SingletonID, s.plane().clock.Load())
	if e != nil {
		in.entity, in.busy = e, true
	}
	s.Mu.Unlock()
	s.plane().log.Error("singleton's instance died", "kind", s.ID.Kind, "why", reason)
	if e != nil {
		s.plane().wg.Go(func() { in.bury(e) })
	}
}

// keepLocked reports whether the turn that ends is the instance's last: then it is
// kept, and the next call does not begin. The shard's lock is held.
func (in *instance) keepLocked(e *region.Entity) bool {
	if !in.dying || in.stopping || in.entity != nil {
		return false
	}
	in.entity, in.busy = e, true
	in.shard.Core.Kept(e)
	in.shard.plane().wg.Go(func() { in.bury(e) })
	return true
}

// bury ends what is left of a dead instance and reports its death. What it had
// in memory is not trusted any more.
func (in *instance) bury(e *region.Entity) {
	s := in.shard
	in.end()
	in.waitTasks()
	e.Value, e.State = nil, nil
	s.Mu.Lock()
	in.busy = false
	reason, stopping := in.reason, in.stopping
	if stopping {
		in.entity = nil
	}
	s.Mu.Unlock()
	if stopping {
		s.endTurn(e) // whoever stops it waits for that
		return
	}
	in.post(singleton.InstanceStopped{Reason: reason})
}

// stop drains the shard and ends the instance. With a successor its state and the
// calls that wait go there, under that epoch.
func (in *instance) stop(to transport.Address, epoch placement.Epoch) {
	s := in.shard
	s.Mu.Lock()
	in.stopping = true
	if known := s.Core.Epoch(); to.IsZero() || epoch <= known {
		to, epoch = transport.Address{}, known+1
	}
	var kept *region.Entity
	if !in.busy {
		kept, in.entity = in.entity, nil
	}
	open := s.Core.State() == region.Open
	end := in.end
	s.Mu.Unlock()
	end()
	if !open {
		s.plane().wg.Go(func() {
			in.waitTasks()
			in.post(singleton.InstanceStopped{})
		})
		return
	}
	s.Do(func(uint32, time.Time) region.Effects { return s.Core.BeginMove(to, epoch) })
	if kept != nil {
		s.endTurn(kept)
	}
}

// handOff runs when the last turn has ended: hooks, state, and what waits.
func (in *instance) handOff() {
	s, pl := in.shard, in.shard.plane()
	s.Mu.Lock()
	epoch, to := s.Core.MoveEpoch(), s.Core.Peer()
	entities, ok := s.Core.Stop()
	s.Mu.Unlock()
	if !ok {
		return
	}
	in.waitTasks()
	why := codegen.Moving
	if to.IsZero() {
		why = codegen.Stopping
	}
	_ = s.restAll(entities, why, true) // its node leaves, or it dies
	parts := s.Parts(epoch, shardhost.RememberedIDs{})
	var p *peerSession
	if !to.IsZero() {
		p = pl.session(transport.Peer{Address: to}, s.lane)
	}
	stopped, handed := false, p != nil
	s.Do(func(now uint32, _ time.Time) (fx region.Effects) {
		if fx, stopped = s.Core.Stopped(epoch, now); !stopped {
			return fx
		}
		handed = handed && p.AppendAll(parts) == nil
		return fx
	})
	if p != nil {
		p.Flush()
	}
	if !stopped {
		return // a call came in between; this runs again behind it
	}
	if !handed {
		in.close()
	}
	in.post(singleton.InstanceStopped{Handed: handed})
	pl.ctl.progress(s.ID)
}

// close gives the shard up: whoever waits here looks for the instance anew.
func (in *instance) close() {
	s := in.shard
	s.Do(func(now uint32, at time.Time) region.Effects {
		return s.Core.Place(transport.Address{}, max(s.Core.Epoch(), s.Core.MoveEpoch())+1, false, now, at)
	})
}

// dropArrived gives up what a predecessor sent, because no member is left that could
// run the instance: all of them leave.
func (in *instance) dropArrived() {
	s := in.shard
	s.Mu.Lock()
	state := s.Core.State()
	s.Mu.Unlock()
	if state == region.Preparing || state == region.Prepared {
		in.close()
	}
}

// abandon lets no turn begin any more, and ends the tasks' context.
func (in *instance) abandon() {
	in.guard.Renew(time.Now())
	in.shard.Mu.Lock()
	end := in.end
	in.shard.Mu.Unlock()
	end()
}

// successorGone gives up handing over to a node that is lost, or that refused.
func (in *instance) successorGone(a transport.Address) {
	s := in.shard
	s.Mu.Lock()
	sent := s.Core.State() == region.Sent && s.Core.Peer() == a
	s.Mu.Unlock()
	if sent {
		in.close()
	}
}

// quit ends the instance of a node that stops; the hooks run after it.
func (in *instance) quit(ctx context.Context) {
	s := in.shard
	s.Mu.Lock()
	in.stopping = true
	var kept *region.Entity
	if !in.busy {
		kept, in.entity = in.entity, nil
	}
	end := in.end
	s.Mu.Unlock()
	end()
	if kept != nil {
		s.endTurn(kept)
	}
	ended := make(chan struct{})
	s.plane().wg.Go(func() { // outlives this call only if a task does, which the plane waits for too
		in.tasks.Wait()
		close(ended)
	})
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// errNoLease: the singleton's lease is over.
var errNoLease = errors.New("the singleton's lease is over (retry: its next instance takes the call)")

// waitLease waits until turns may run here: see plane.waitLease. The turn of a
// singleton whose own lease is over never may.
func (s *hostedShard) waitLease(ctx context.Context) error {
	if err := s.plane().waitLease(ctx); err != nil {
		return err
	}
	if in := s.host.instance; in != nil && !in.guard.Valid() {
		return fmt.Errorf("run %s: %w", s.ID.Kind, errNoLease)
	}
	return nil
}

// mayRun reports whether a turn may begin at this moment.
func (s *hostedShard) mayRun() bool {
	return s.plane().lease.Valid() && (s.host.instance == nil || s.host.instance.guard.Valid())
}

// mayRunAt is mayRun for who has just read the lease's clock.
func (s *hostedShard) mayRunAt(now int64) bool {
	return s.plane().lease.ValidAt(now) && (s.host.instance == nil || s.host.instance.guard.Valid())
}
