package node

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// end runs an entity's stop hook, and then drops the entity. If forget is set, it also drops the
// entity's remembered id. The caller has the entity's turn.
func (s *HostedShard) end(e *region.Entity, forget bool) {
	if e.Value != nil {
		s.Host.tally.passivations[codegen.Forgotten].Add(1)
		if err := s.Host.stopHook(e, codegen.Forgotten); err != nil {
			drv := s.driver()
			drv.Limiter.error(drv.Logger, "stop hook failed", s.ID.Kind, "", "kind", s.ID.Kind, "entity", clip(e.ID), "err", err)
		}
	}
	s.driver().Counts.Add(entityForgotten)
	s.Host.lost(e)
	s.Mu.Lock()
	delete(s.failures, e.ID)
	s.Mu.Unlock()
	e.Clear()
	s.dropReminders(e)
	switch {
	case s.remembered == nil:
	case forget:
		s.remembered.Forget(e.ID)
	default:
		s.remembered.ActivateLater(e.ID)
	}
	s.FinishTurn(e)
}

func (s *HostedShard) dropReminders(e *region.Entity) {
	if s.volatile != nil {
		s.volatile.drop(e.ID)
	}
}

type failureRecord struct {
	times int
	last  time.Time
}

// maxFailures bounds a shard's failureRecords.
const maxFailures = 1024

// restart drops the entity and, after the back-off, ends its turn.
func (s *HostedShard) restart(e *region.Entity) {
	s.Host.lost(e)
	e.Clear()
	s.dropReminders(e)
	first, longest := s.Host.Settings.Backoff, s.Host.Settings.BackoffMost
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
		s.FinishTurn(e)
		if s.remembered != nil {
			s.remembered.ActivateAgain(e.ID)
		}
	}
}

func (s *HostedShard) release(e *region.Entity) {
	s.Mu.Lock()
	timer := s.backingOff[e]
	delete(s.backingOff, e)
	s.Mu.Unlock()
	if timer != nil {
		timer.Stop()
		s.FinishTurn(e)
		if s.remembered != nil {
			s.remembered.ActivateAgain(e.ID)
		}
	}
}

func (s *HostedShard) releaseAll() {
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
