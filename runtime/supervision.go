package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// ErrEscalated is the error of a node that a supervisor ended because of an entity's
// error.
var ErrEscalated = errors.New("escalated by a supervisor")

// Supervise sets the function that decides about an entity whose turn failed. Its
// argument is the error that the method returned, unchanged. For a panic or
// runtime.Goexit it is an [*EntityError] with Panic set, which is ErrPanic to
// errors.Is. For a failed activation it is [ErrActivation] with its cause. The caller
// gets its answer in any case. The function is called from many goroutines; if it
// panics, the entity resumes. Default: every entity resumes, because its state has no
// other copy. Members may differ.
func Supervise(decide func(err error) SupervisorAction) HostOption {
	return func(s *hostSettings) { s.decide = decide }
}

// RestartBackoff sets how long an entity that [Supervise] restarts waits for its next
// turn: first, then twice as long for each further failure, at most longest. It begins
// with first again when the entity had no failure for twice the longest. A shard that
// moves does not wait. Default 100ms to 10s, minimum 0. Members may differ.
func RestartBackoff(first, longest time.Duration) HostOption {
	return func(s *hostSettings) { s.backoff, s.backoffMost = first, longest }
}

// StopTimeout bounds OnPassivate of one entity. A hook that has not returned by then
// is abandoned, and its entity keeps the state that it had before the hook. Until then
// the entity's calls wait, and so does a move of its shard; other entities go on.
// Default Config.HandoffTimeout less 5s, at least 1s; minimum 1ms. Members may differ.
func StopTimeout(d time.Duration) HostOption { return func(s *hostSettings) { s.stopTimeout = d } }

var errReadForgets = errors.New("the method is marked //shard:read, and changes nothing (remove the mark)")

var errNoTurn = errors.New("ctx is not the context of an entity's method (pass the method's own, before it returns)")

// Passivate passivates the entity at the end of the turn to which ctx belongs: its stop
// hook runs with [Idle], its state is kept and its value dropped. If calls wait, the
// entity is activated again at once. Until then the entity is not remembered (see
// [Remember]). Passivate fails if ctx belongs to no turn, or to a turn of a singleton,
// which is never passivated.
func Passivate(ctx context.Context) error { return endWith(ctx, "passivate", passivateAfter) }

// Forget deletes the entity at the end of the turn to which ctx belongs: its stop hook
// runs with [Forgotten], its state is dropped, and it is no longer remembered. A later
// call begins a new entity. Forget fails if ctx belongs to no turn, to a turn of a
// singleton, which is never forgotten, or to a turn of a method marked //shard:read.
func Forget(ctx context.Context) error { return endWith(ctx, "forget", forgetAfter) }

func endWith(ctx context.Context, what string, after uint32) error {
	t := turnOf(ctx)
	if t == nil {
		return fmt.Errorf("%s: %w", what, errNoTurn)
	}
	if t.shard().host.instance != nil {
		return fmt.Errorf("%s %s: %w", what, t.shard().ID.Kind, errSingletonStays)
	}
	if after == forgetAfter && t.shard().durable != nil {
		if d := durableOf(t); d == nil || d.read {
			return fmt.Errorf("%s %s/%s: %w", what, t.shard().ID.Kind, clip(t.entity.ID), errReadForgets)
		}
	}
	t.flags.Or(after)
	return nil
}

// end runs the stop hook of an entity and ends it: permanently if forget is set, and
// otherwise until it is activated again. The caller has the entity's turn.
func (s *hostedShard) end(e *region.Entity, forget bool) {
	if e.Value != nil {
		s.host.tally.passivations[codegen.Forgotten].Add(1)
		if err := s.host.stopHook(e, codegen.Forgotten); err != nil {
			drv := s.driver()
			drv.seldom.error(drv.log, "stop hook failed", s.ID.Kind, "", "kind", s.ID.Kind, "entity", clip(e.ID), "err", err)
		}
	}
	s.driver().counters.add(entityForgotten)
	s.host.lost(e)
	s.Mu.Lock()
	delete(s.failures, e.ID)
	s.Mu.Unlock()
	e.Clear()
	switch {
	case s.remembered == nil:
	case forget:
		s.remembered.Forget(e.ID)
	default:
		s.remembered.ActivateLater(e.ID)
	}
	s.endTurn(e)
}

// failureRecord counts the failures of an entity, for its back-off.
type failureRecord struct {
	times int
	last  time.Time
}

// maxFailures bounds the entities of one shard whose failures are recorded.
const maxFailures = 1024

// restart drops the entity and ends its turn after the back-off.
func (s *hostedShard) restart(e *region.Entity) {
	s.host.lost(e)
	e.Clear()
	first, longest := s.host.settings.backoff, s.host.settings.backoffMost
	now := time.Now()
	s.Mu.Lock()
	if s.failures == nil || len(s.failures) >= maxFailures {
		s.failures = map[string]failureRecord{}
	}
	f := s.failures[e.ID]
	if now.Sub(f.last) > 2*longest {
		f.times = 0
	}
	delay := min(first<<min(f.times, 30), longest)
	f.times, f.last = f.times+1, now
	s.failures[e.ID] = f
	wait := delay > 0 && s.Core.MayBackOff()
	if wait {
		if s.backingOff == nil {
			s.backingOff = map[*region.Entity]*time.Timer{}
		}
		s.backingOff[e] = time.AfterFunc(delay, func() { s.release(e) })
	}
	s.Mu.Unlock()
	if !wait {
		s.endTurn(e)
		if s.remembered != nil {
			s.remembered.ActivateAgain(e.ID)
		}
	}
}

// release ends the back-off of an entity, unless that happened before.
func (s *hostedShard) release(e *region.Entity) {
	s.Mu.Lock()
	timer := s.backingOff[e]
	delete(s.backingOff, e)
	s.Mu.Unlock()
	if timer != nil {
		timer.Stop()
		s.endTurn(e)
		if s.remembered != nil {
			s.remembered.ActivateAgain(e.ID)
		}
	}
}

// releaseAll ends all back-offs: the shard moves, or the node leaves.
func (s *hostedShard) releaseAll() {
	s.Mu.Lock()
	var all []*region.Entity
	for e := range s.backingOff {
		all = append(all, e)
	}
	s.Mu.Unlock()
	for _, e := range all {
		s.release(e)
	}
}
