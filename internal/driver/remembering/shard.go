package remembering

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/remember"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/util/bounded"
)

// A Shard remembers the entities of one shard at its home. It is safe for concurrent use. Methods
// that end in Locked are called with the shard's lock held.
type Shard struct {
	kind  *Type
	shard *shardhost.Shard
	home  Home

	// Guarded by shard.Mu.
	open       bool                   // the memory knows that the shard runs here
	backingOff map[string]*time.Timer // the timers of entities that wait to be activated again
	coming     *shardhost.Carried     // the ids that come with the shard
}

// Leaving returns the ids that move with the shard. It is called after the shard's turns have
// ended.
func (s *Shard) Leaving() (l shardhost.Carried) {
	ids, known := s.kind.memory.ids(s.shard.ID)
	l.IDs, l.All = make(map[string]struct{}, len(ids)), known
	for _, id := range ids {
		l.IDs[id] = struct{}{}
	}
	return l
}

// ArrivedLocked stores the ids that came with a part of the shard's state. The shard uses them when
// it opens.
func (s *Shard) ArrivedLocked(part shardhost.Carried) {
	if s.coming == nil || s.coming.Epoch != part.Epoch {
		s.coming = &shardhost.Carried{Epoch: part.Epoch, IDs: map[string]struct{}{}}
	}
	maps.Copy(s.coming.IDs, part.IDs)
	s.coming.All = s.coming.All || part.All
}

// ChangedLocked handles a change of the shard's state. opened means that the shard now runs here
// under a new epoch.
func (s *Shard) ChangedLocked(opened bool) {
	switch state := s.shard.Core.State(); {
	case opened:
		o := remember.Open{ShardID: s.shard.ID, Epoch: s.shard.Core.Epoch()}
		if l := s.coming; l != nil && l.All {
			o.IDs, o.Known = slices.Sorted(maps.Keys(l.IDs)), true
		}
		s.open, s.coming = true, nil
		s.kind.memory.post(o.Kind, o)
	case state == region.Preparing, state == region.Prepared:
	case state == region.Open, state == region.Draining, state == region.Sent:
		s.coming = nil
	default:
		s.coming = nil
		if s.open {
			s.open = false
			for _, t := range s.backingOff {
				t.Stop()
			}
			s.backingOff = nil
			s.kind.memory.post(s.shard.ID.Kind, remember.Close{ShardID: s.shard.ID})
		}
	}
}

// Activate remembers an entity, and then calls wake to activate it. If ctx ends before the entity
// is remembered, Activate fails and does not call wake. The caller has the entity's turn.
func (s *Shard) Activate(ctx context.Context, id string, wake func() error) error {
	fresh, err := s.kind.memory.add(ctx, s.kind, s.shard.ID, id)
	if err != nil {
		if fresh {
			s.Forget(id)
		} else {
			s.ActivateLater(id) // in case it becomes remembered after all
		}
		return fmt.Errorf("remember %s/%s (shard %v): %w", s.shard.ID.Kind, bounded.ID(id), s.shard.ID, err)
	}
	alive := false
	defer func() { // also when the hook ends this goroutine
		switch {
		case alive:
		case fresh:
			s.Forget(id)
		default:
			s.ActivateLater(id)
		}
	}()
	err = wake()
	alive = err == nil
	return err
}

// Forget stops remembering an entity. The caller has the entity's turn. Forget returns before the
// Memory has handled it: see WaitForgotten.
func (s *Shard) Forget(id string) {
	s.kind.memory.post(s.shard.ID.Kind, remember.Remove{ShardID: s.shard.ID, ID: id})
}

// ForgetPassivated is like Forget, for a passivated entity. It does nothing if this process has
// lost the shard since the passivation. The shard's present home, perhaps this process again, then
// remembers the entity.
func (s *Shard) ForgetPassivated(e *region.Entity) {
	s.shard.Mu.Lock()
	defer s.shard.Mu.Unlock()
	if !e.Lost() {
		s.Forget(e.ID)
	}
}

// WaitForgotten waits until the Memory has handled all earlier calls of Forget, because callers can
// be faster than the Memory.
func (s *Shard) WaitForgotten() { ask(s.kind.memory, func() bool { return true }) }

// ActivateAgain queues an entity to be activated again, if it is remembered.
func (s *Shard) ActivateAgain(id string) { s.kind.activate(s, []string{id}) }

// ActivateLater does the same as ActivateAgain, after the type's back-off.
func (s *Shard) ActivateLater(id string) {
	s.shard.Mu.Lock()
	defer s.shard.Mu.Unlock()
	if state := s.shard.Core.State(); s.backingOff[id] != nil || state != region.Open && state != region.Draining {
		return // the shard's next home activates the entity anyway
	}
	if s.backingOff == nil {
		s.backingOff = map[string]*time.Timer{}
	}
	s.backingOff[id] = time.AfterFunc(s.kind.settings.Backoff, func() {
		s.shard.Mu.Lock()
		delete(s.backingOff, id)
		s.shard.Mu.Unlock()
		if s.kind.memory.process.Context().Err() == nil {
			s.ActivateAgain(id)
		}
	})
}

func (s *Shard) mayActivate(id string) bool {
	s.shard.Mu.Lock()
	defer s.shard.Mu.Unlock()
	return s.shard.Core.State() == region.Open && !s.shard.Core.Lives(id)
}

// activateUncalled activates a remembered entity that nobody has called. It does nothing if a turn
// of the entity is running, because that turn activates the entity.
func (s *Shard) activateUncalled(id string) {
	p := s.kind.memory.process
	if p.WaitLease(p.Context()) != nil {
		return
	}
	if shard, err := s.kind.settings.Locate(id); err != nil || shard != s.shard.ID.Shard {
		// Calls of the entity go to another shard, where it would be active a second time.
		if n, tell := p.Count(ActivationFailed); tell {
			p.Log().Error("a remembered entity is not activated, because its id now belongs to another shard (did the shard function change? give it a new name, so that the ids are moved)",
				"kind", s.shard.ID.Kind, "entity", bounded.ID(id), "shard", s.shard.ID.String(), "now", shard, "err", err, "count", n)
		}
		return
	}
	s.shard.Mu.Lock()
	e := s.shard.Core.Take(id, s.home.Ticks())
	s.shard.Mu.Unlock()
	if e == nil {
		return
	}
	if e.Value != nil || !s.kind.memory.has(s.shard.ID, id) {
		s.home.EndTurn(e)
		return
	}
	if !s.home.MayRun() { // lost meanwhile: the shard table or the lease's return decides
		s.home.EndTurn(e)
		s.ActivateLater(id)
		return
	}
	s.home.Activate(e, func(err error) {
		if err == nil {
			p.Count(Activated)
			return
		}
		if n, tell := p.Count(ActivationFailed); tell {
			p.Log().Error("a remembered entity's activation failed; it is tried again", "kind", s.shard.ID.Kind, "entity", bounded.ID(id),
				"shard", s.shard.ID.String(), "after", s.kind.settings.Backoff, "err", err, "count", n)
		}
		s.ActivateLater(id)
	})
}
