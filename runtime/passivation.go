package shard

import (
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/region"
)

// clockTick is the coarse clock's step: to which an entity's last use is known.
const clockTick = 100 * time.Millisecond

// sweep advances the coarse clock, and every second passivates what was idle for
// long or is too much.
func (n *Node) sweep() {
	ticker := time.NewTicker(clockTick)
	defer ticker.Stop()
	for {
		select {
		case <-n.plane.stop:
			return
		case <-ticker.C:
		}
		now := n.plane.clock.Add(1)
		if now%uint32(time.Second/clockTick) != 0 {
			continue
		}
		for _, h := range n.hosted() {
			if h.settings.idle > 0 {
				h.passivateIdle(now)
			}
			if h.settings.maxActive > 0 {
				h.countActive()
				h.evict()
			}
		}
	}
}

// passivateIdle rests entities that nobody called for the type's idle time.
func (h *host) passivateIdle(now uint32) {
	ticks := uint32(h.settings.idle / clockTick)
	if now <= ticks {
		return
	}
	for i := range h.shards {
		s := &h.shards[i]
		for s.restOne(now-ticks, codegen.Idle) {
		}
	}
}

// restOne rests one idle entity last used before t, and reports whether there was
// one: one at a time, so that the others stay callable.
func (s *hostedShard) restOne(t uint32, why codegen.Passivation) bool {
	if !s.plane().lease.valid() {
		return false // another node may have the entity
	}
	s.mu.Lock()
	idle := s.core.Idle(t, 1)
	s.mu.Unlock()
	if len(idle) == 0 {
		return false
	}
	s.rest(idle[0], why)
	s.endTurn(idle[0])
	return true
}

// countActive counts the active entities anew: a shard that is lost takes its own
// with it, uncounted.
func (h *host) countActive() {
	n := 0
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		n += s.core.Active()
		s.mu.Unlock()
	}
	h.active.Store(int64(n))
}

// woke notes one more active entity, and makes room if there are too many.
func (h *host) woke() {
	most := int64(h.settings.maxActive)
	if n := h.active.Add(1); most > 0 && n > most && h.evicting.CompareAndSwap(false, true) {
		h.plane.wg.Go(func() {
			h.evict()
			h.evicting.Store(false)
		})
	}
}

// lost notes that an entity is about to lose its value.
func (h *host) lost(e *region.Entity) {
	if e.Value != nil {
		h.active.Add(-1)
	}
}

// evict rests the longest unused entities until there are at most the type's
// limit, and some fewer, so that the next few need no look at all of them.
func (h *host) evict() {
	most := h.settings.maxActive
	over := int(h.active.Load()) - most
	if over <= 0 {
		return
	}
	over += most / 16
	ages := map[uint32]int{}
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		s.core.LastUses(func(at uint32) { ages[at]++ })
		s.mu.Unlock()
	}
	for now := h.plane.clock.Load(); over > 0 && len(ages) > 0; {
		oldest := now
		for at := range ages {
			oldest = min(oldest, at)
		}
		for i := range h.shards {
			for s := &h.shards[i]; over > 0 && s.restOne(oldest+1, codegen.Idle); over-- {
				h.plane.ledger.add(entityEvicted)
			}
		}
		delete(ages, oldest)
	}
}
