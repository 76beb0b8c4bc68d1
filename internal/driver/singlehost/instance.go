package singlehost

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/runner"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// An Instance is the only entity of a hosted singleton. Besides the turns of calls it has two other
// turns. One activates the instance before any call. The other lasts from the instance's death to
// its next activation, so that calls wait. An Instance is safe for concurrent use.
type Instance struct {
	shard  *shardhost.Shard
	home   Home
	guard  runner.Lease // ends with the singleton's lease; without a lease it never ends
	post   func(singleton.Input)
	opened func(from transport.Address, epoch placement.Epoch)
	tasks  tasks

	// Guarded by shard.Mu.
	entity   *region.Entity  // the entity whose turn is held; nil means that no turn is held
	busy     bool            // a goroutine works on entity and will release it
	life     context.Context // ends when the instance must stop
	end      context.CancelFunc
	came     came // the state that came with the shard, while the instance is being activated
	relays   bool // no instance begins here: the state and calls that come with the shard are kept for the next member
	dying    bool // the instance has died: the turn that ends next is held
	stopping bool
	reason   string // why the instance died
}

type came struct {
	state []byte
	why   codegen.Activation
}

// NewInstance returns the instance of a shard, whose type must be a singleton.
func NewInstance(s *shardhost.Shard, home Home) *Instance {
	in := &Instance{shard: s, home: home}
	in.tasks.instance = in
	in.guard.Init(home.Now())
	in.guard.Renew(time.Time{})
	in.post = func(singleton.Input) {} // replaced when the singleton is hosted
	in.opened = func(transport.Address, placement.Epoch) {}
	in.life, in.end = context.WithCancel(home.Context())
	return in
}

// LeaseValid reports whether the singleton's own lease allows turns now. A singleton without a
// lease is always allowed to run turns.
func (in *Instance) LeaseValid() bool {
	return !in.guard.Bounded() || in.guard.ValidAt(int64(in.home.Now().Sub(in.guard.Base())))
}

// PredecessorOpened is called when the predecessor has sent Open under the given epoch. Open comes
// after all calls that waited at the predecessor.
func (in *Instance) PredecessorOpened(from transport.Address, epoch placement.Epoch) {
	in.opened(from, epoch)
}

func (in *Instance) at() (placement.Epoch, bool) {
	in.shard.Mu.Lock()
	defer in.shard.Mu.Unlock()
	return in.shard.Core.Epoch(), in.shard.Core.State() == region.Open
}

// holds reports whether the shard, or a part of its state, is here or on its way here.
func (in *Instance) holds() bool {
	o, ok := in.shard.Held()
	return ok && (o.State != coordinator.Forwarding || in.shard.Holds())
}

// arrivedFrom returns the predecessor of this member, if its state has arrived here and the shard
// has not opened yet. Otherwise it returns zero.
func (in *Instance) arrivedFrom() (from transport.Address) {
	in.shard.Mu.Lock()
	defer in.shard.Mu.Unlock()
	if in.shard.Core.State() == region.Prepared {
		from = in.shard.Core.Peer()
	}
	return from
}

// relay sets whether this member only passes the state and calls on to the next member.
func (in *Instance) relay(on bool) {
	in.shard.Mu.Lock()
	in.relays = on
	in.shard.Mu.Unlock()
}

// Lead takes the first turn after the shard has opened, and activates the instance in it. A member
// that only passes the state on begins no instance, but keeps the turn.
func (in *Instance) Lead(e *region.Entity) {
	in.shard.Mu.Lock()
	relays := in.relays
	in.entity, in.busy, in.dying, in.stopping = e, !relays, false, false
	in.shard.Mu.Unlock()
	if !relays {
		in.home.Go(func() { in.activate(e) })
	}
}

// again activates the instance again if the instance died here. Otherwise it returns false, and the
// caller must open the shard.
func (in *Instance) again() bool {
	in.shard.Mu.Lock()
	e := in.entity
	if e != nil {
		in.busy, in.dying = true, false
	}
	in.shard.Mu.Unlock()
	if e != nil {
		in.home.Go(func() { in.activate(e) })
	}
	return e != nil
}

// activate runs the factory and OnActivate, and then lets calls in. If the instance is stopped
// before that, the state goes to the next member unchanged.
func (in *Instance) activate(e *region.Entity) {
	s := in.shard
	in.end()
	life, end := context.WithCancel(in.home.Context())
	s.Mu.Lock()
	if in.stopping {
		in.entity, in.busy = nil, false
		s.Mu.Unlock()
		end()
		in.home.EndTurn(e)
		return
	}
	in.life, in.end = life, end
	in.tasks.had = false
	in.came = came{e.State(), e.Why()}
	s.Mu.Unlock()
	err := errors.New("runtime.Goexit in OnActivate or the factory")
	defer func() { // also when the hook ends this goroutine
		if err != nil {
			in.home.Log(slog.LevelError, "activation failed", "kind", s.ID.Kind, "entity", e.ID, "err", err)
			s.Mu.Lock()
			in.dying, in.reason = true, err.Error()
			s.Mu.Unlock()
			in.bury(e)
			return
		}
		in.post(singleton.InstanceStarted{})
		s.Mu.Lock()
		in.entity, in.busy, in.came = nil, false, came{}
		s.Mu.Unlock()
		in.home.EndTurn(e)
	}()
	err = in.home.Activate(life, e)
}

// Fail ends the instance after a panic, a Goexit, or a task's error. If a turn is running, that
// turn is the instance's last. If none is running, Fail takes a turn and keeps it, so that no
// call's turn begins.
func (in *Instance) Fail(reason string) {
	s := in.shard
	s.Mu.Lock()
	if in.dying || in.stopping {
		s.Mu.Unlock()
		return
	}
	in.dying, in.reason = true, reason
	e := s.Core.Take(codegen.SingletonID, in.home.Ticks())
	if e != nil {
		in.entity, in.busy = e, true
	}
	s.Mu.Unlock()
	in.home.Log(slog.LevelError, "singleton's instance died", "kind", s.ID.Kind, "why", reason)
	if e != nil {
		in.home.Go(func() { in.bury(e) })
	}
}

// KeepLocked reports whether the turn that ends is the instance's last. If so, the turn is held,
// and the next call does not begin. The caller has the shard's lock.
func (in *Instance) KeepLocked(e *region.Entity) bool {
	if !in.dying || in.stopping || in.entity != nil {
		return false
	}
	in.entity, in.busy = e, true
	in.shard.Core.Detach(e)
	in.home.Go(func() { in.bury(e) })
	return true
}

// bury reports the death of an instance after its tasks have ended. The state in memory may be
// wrong and is dropped.
func (in *Instance) bury(e *region.Entity) {
	in.end()
	in.tasks.then(func() { in.buried(e) })
}

func (in *Instance) buried(e *region.Entity) {
	s := in.shard
	in.home.Lost(e)
	e.Clear()
	s.Mu.Lock()
	in.busy = false
	reason, stopping := in.reason, in.stopping
	if stopping {
		in.entity = nil
		e.SetState(in.came.state, in.came.why) // nil, unless OnActivate failed
	}
	in.came = came{}
	s.Mu.Unlock()
	if stopping {
		in.home.EndTurn(e) // the goroutine that stops the instance waits for the turn's end
		return
	}
	in.post(singleton.InstanceStopped{Reason: reason})
}

// stop drains the shard and ends the instance. The next member, to, gets the state and waiting
// calls under epoch, unless to is zero or epoch is not new.
func (in *Instance) stop(to transport.Address, epoch placement.Epoch) {
	s := in.shard
	kept, open := in.endLife(func() {
		if known := s.Core.Epoch(); to.IsZero() || epoch <= known {
			to, epoch = transport.Address{}, known+1
		}
	})
	if !open {
		in.tasks.then(func() { in.post(singleton.InstanceStopped{}) })
		return
	}
	s.Do(func(uint32, time.Time) region.Effects { return s.Core.BeginMove(to, epoch) })
	if kept != nil {
		in.home.EndTurn(kept)
	}
}

// endLife ends the instance's context, and calls the function locked with the shard's lock held.
// kept is the entity whose held turn the caller must end, or nil. open reports whether the shard is
// open.
func (in *Instance) endLife(locked func()) (kept *region.Entity, open bool) {
	in.shard.Mu.Lock()
	in.stopping = true
	locked()
	if !in.busy {
		kept, in.entity = in.entity, nil
	}
	open = in.shard.Core.State() == region.Open
	end := in.end
	in.shard.Mu.Unlock()
	end()
	return kept, open
}

// HandOff ends the instance after the last turn. It waits for the tasks, runs the stop hook, and
// sends the state and the waiting calls to the successor, if there is one.
func (in *Instance) HandOff() {
	s := in.shard
	s.Mu.Lock()
	epoch, to := s.Core.MoveEpoch(), s.Core.Peer()
	entities, ok := s.Core.Stop()
	s.Mu.Unlock()
	if !ok {
		return
	}
	in.tasks.then(func() { in.handOff(entities, to, epoch) })
}

// handOff continues HandOff after all tasks have ended.
func (in *Instance) handOff(entities []*region.Entity, to transport.Address, epoch placement.Epoch) {
	s := in.shard
	why := codegen.Moving
	if to.IsZero() {
		why = codegen.Stopping
	}
	in.home.Passivate(entities, why)
	parts := s.Parts(epoch, shardhost.Carried{})
	var p shardhost.Session
	handed := false
	if !to.IsZero() {
		p, handed = in.home.Session(transport.Peer{Address: to})
	}
	has, stopped := handed, false
	s.Do(func(now uint32, _ time.Time) (fx region.Effects) {
		if fx, stopped = s.Core.Stopped(epoch, now); !stopped {
			return fx
		}
		handed = handed && p.AppendAll(parts) == nil
		return fx
	})
	if has {
		p.Flush()
	}
	if !stopped {
		return // a call came in between; handOff runs again after it
	}
	if !handed {
		in.close()
	}
	in.post(singleton.InstanceStopped{Handed: handed})
	in.home.Progress()
}

// close gives the shard up. Callers waiting here look for the instance again.
func (in *Instance) close() {
	s := in.shard
	s.Do(func(now uint32, at time.Time) region.Effects {
		return s.Core.Place(transport.Address{}, max(s.Core.Epoch(), s.Core.MoveEpoch())+1, false, now, at)
	})
}

// dropArrived drops the state that has come or is still coming from a predecessor. It is called
// when all members that could run the instance are leaving. It reports false if no state has come
// or is coming.
func (in *Instance) dropArrived() bool {
	s := in.shard
	s.Mu.Lock()
	state := s.Core.State()
	s.Mu.Unlock()
	if state != region.Preparing && state != region.Prepared {
		return false
	}
	in.close()
	return true
}

// abandon stops further turns, and ends the context of the tasks.
func (in *Instance) abandon() {
	in.guard.Renew(in.home.Now())
	in.shard.Mu.Lock()
	end := in.end
	in.shard.Mu.Unlock()
	end()
}

// forsaken gives the shard up if its state was sent to a member that is gone, and so cannot confirm
// it. The function gone reports whether a member is gone.
func (in *Instance) forsaken(gone func(transport.Address) bool) {
	s := in.shard
	s.Mu.Lock()
	sent := s.Core.State() == region.Sent && gone(s.Core.Peer())
	s.Mu.Unlock()
	if sent {
		in.close()
	}
}

// Quit ends the instance, because the process stops. It calls the function ended when all tasks of
// the instance have ended. The caller runs the stop hooks after that.
func (in *Instance) Quit(ended func()) {
	if kept, _ := in.endLife(func() {}); kept != nil {
		in.home.EndTurn(kept)
	}
	in.tasks.then(ended)
}

// Go starts a task of the instance: see shard.Go. It reports false if the instance is ending.
func (in *Instance) Go(task Task) bool {
	in.shard.Mu.Lock()
	defer in.shard.Mu.Unlock()
	if in.stopping || in.dying {
		return false
	}
	in.tasks.startLocked(in.life, task)
	return true
}

// Prepare returns the function start, which starts a task of the current instance. If this instance
// is ending when start is called, start does nothing. Prepare reports false if the instance is
// already ending when Prepare is called.
func (in *Instance) Prepare(task Task) (start func(), ok bool) {
	in.shard.Mu.Lock()
	defer in.shard.Mu.Unlock()
	if in.stopping || in.dying {
		return nil, false
	}
	life := in.life
	return func() {
		in.shard.Mu.Lock()
		defer in.shard.Mu.Unlock()
		if in.life == life && !in.stopping && !in.dying {
			in.tasks.startLocked(life, task)
		}
	}, true
}

// HadTasks reports whether the current instance has started a task.
func (in *Instance) HadTasks() bool {
	in.shard.Mu.Lock()
	defer in.shard.Mu.Unlock()
	return in.tasks.had
}
