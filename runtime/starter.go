package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/runtime/region"
)

// maxStarting bounds the remembered entities of a type that are activated at the
// same time at one node.
const maxStarting = 64

// starter brings a type's remembered entities to life: all at once or at a constant
// rate.
type starter struct {
	host  *host
	slots chan struct{}

	mu      sync.Mutex
	queue   []starting
	running bool

	// run's: until when left may be started; it outlives one filling of the queue.
	until time.Time
	left  int
}

// starting is entities of one shard that wait for being started.
type starting struct {
	shard *hostedShard
	ids   []string
}

func newStarter(h *host) *starter { return &starter{host: h, slots: make(chan struct{}, maxStarting)} }

// add leaves entities to be started. It does not block.
func (r *starter) add(s *hostedShard, ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, starting{s, ids})
	if !r.running && !r.host.plane.closed() {
		r.running = true
		r.host.plane.wg.Go(r.run)
	}
}

// next takes the next entity from the queue.
func (r *starter) next() (s *hostedShard, id string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 && len(r.queue[0].ids) == 0 {
		r.queue = r.queue[1:]
	}
	if len(r.queue) == 0 {
		r.queue, r.running = nil, false
		return nil, "", false
	}
	first := &r.queue[0]
	id, first.ids = first.ids[0], first.ids[1:]
	return first.shard, id, true
}

// run starts what is in the queue until it is empty.
func (r *starter) run() {
	pl := r.host.plane
	for {
		s, id, ok := r.next()
		if !ok {
			return
		}
		if !s.mayStart(id) {
			continue
		}
		if !r.pace() {
			return
		}
		select {
		case r.slots <- struct{}{}:
		case <-pl.stop:
			return
		}
		pl.wg.Go(func() {
			defer func() { <-r.slots }()
			s.startRemembered(id)
		})
	}
}

// pace waits until one more may be started. It reports false when the node ends.
func (r *starter) pace() bool {
	o := r.host.settings.remember
	if !o.ConstantRate {
		return true
	}
	if now := time.Now(); !now.Before(r.until) {
		r.until, r.left = now.Add(o.Every), o.Entities
	}
	if r.left == 0 {
		select {
		case <-time.After(time.Until(r.until)):
		case <-r.host.plane.stop:
			return false
		}
		r.until, r.left = time.Now().Add(o.Every), o.Entities
	}
	r.left--
	return true
}

// mayStart reports whether the entity does not live already, and the shard is here.
func (s *hostedShard) mayStart(id string) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Core.State() == region.Open && !s.Core.Lives(id)
}

// startRemembered brings an entity to life in a turn that is nobody's call. If it
// has a turn already, that one does it.
func (s *hostedShard) startRemembered(id string) {
	pl := s.plane()
	if pl.waitLease(pl.ctx) != nil {
		return
	}
	s.Mu.Lock()
	e := s.Core.Take(id, pl.clock.Load())
	s.Mu.Unlock()
	if e == nil {
		return
	}
	if e.Value != nil || !s.host.memory.has(s.ID, id) {
		s.endTurn(e)
		return
	}
	if !s.mayRun() { // lost between; the table, or the lease's return, decides
		s.endTurn(e)
		s.reviveLater(id)
		return
	}
	ctx, cancel := context.WithTimeout(pl.ctx, pl.cfg.CallTimeout)
	defer cancel()
	t := &turn{parent: ctx, entity: e}
	err := errors.New("runtime.Goexit in OnActivate or the factory")
	defer func() { // also when the hook ends this goroutine
		var failed *failure
		if err != nil {
			if n, tell := pl.counters.addSeldom(rememberedFailed); tell {
				pl.log.Error("a remembered entity's activation failed; it is tried again", "kind", s.ID.Kind, "entity", clip(id),
					"shard", s.ID.String(), "after", s.host.settings.remember.Backoff, "err", err, "count", n)
			}
			failed = &failure{"OnActivate", fmt.Errorf("%w: %w", ErrActivation, err)}
			s.reviveLater(id)
		} else {
			pl.counters.add(rememberedStarted)
		}
		t.end()
		s.endTurnOf(t, failed)
	}()
	err = s.wake(t, e)
}

// activate is wake for an entity that may have to be remembered.
func (s *hostedShard) activate(t *turn, e *region.Entity) error {
	m := s.host.memory
	if m == nil {
		return s.wake(t, e)
	}
	t.yieldLane()
	fresh, err := m.add(t, s, e.ID)
	if err != nil {
		if fresh {
			m.forget(s.ID, e.ID)
		} else {
			s.reviveLater(e.ID) // if it is remembered after all
		}
		return fmt.Errorf("remember %s/%s (shard %v): %w", s.ID.Kind, clip(e.ID), s.ID, err)
	}
	alive := false
	defer func() { // also when the hook ends this goroutine
		switch {
		case alive:
		case fresh:
			m.forget(s.ID, e.ID)
		default:
			s.reviveLater(e.ID)
		}
	}()
	err = s.wake(t, e)
	alive = err == nil
	return err
}

// forgetID ends the remembering of an entity, whose turn the caller has.
func (s *hostedShard) forgetID(id string) {
	if m := s.host.memory; m != nil {
		m.forget(s.ID, id)
	}
}

// revive starts a remembered entity again.
func (s *hostedShard) revive(id string) {
	if s.host.memory != nil {
		s.host.starter.add(s, []string{id})
	}
}

// reviveLater starts a remembered entity again after its back-off.
func (s *hostedShard) reviveLater(id string) {
	if s.host.memory == nil {
		return
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.reviving[id] != nil || s.Core.State() != region.Open && s.Core.State() != region.Draining {
		return // where the shard goes it is started anyway
	}
	if s.reviving == nil {
		s.reviving = map[string]*time.Timer{}
	}
	s.reviving[id] = time.AfterFunc(s.host.settings.remember.Backoff, func() {
		s.Mu.Lock()
		delete(s.reviving, id)
		s.Mu.Unlock()
		if !s.plane().closed() {
			s.revive(id)
		}
	})
}
