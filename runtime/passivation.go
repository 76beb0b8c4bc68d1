package shard

import (
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// clockTick is the step of the coarse clock, and so the precision of an entity's last
// use.
const clockTick = 100 * time.Millisecond

// ticksASecond is how often the coarse clock ticks in a second.
const ticksASecond = uint32(time.Second / clockTick)

// passivator passivates the idle entities of one type: those that were not called for
// the type's idle time and, when more than the allowed number are active, those that
// were unused for the longest time.
//
// One goroutine looks for them, a few at a time, so that it never holds a shard's lock
// for long. It takes the turn of one entity at a time and encodes its state without the
// shard's lock. The other entities stay callable, and a move of the shard waits for one
// entity at most. If the type has a stop hook, separate workers do this, because a hook
// may take long or hang; a move then waits for as many entities as hooks are running.
type passivator struct {
	host    *host
	workers *passivationWorkers // of a type with a stop hook

	round  int          // number of seconds that have passed
	batch  []idleEntity // found by a survey; reused
	since  int          // entities passivated since the last yield
	paused time.Time    // when the last pause ended
}

const (
	// surveyed is the number of entities that are looked at while the shard is
	// locked.
	surveyed = 128
	// passivatedAtOnce is the number of entities that are passivated before other
	// goroutines may run.
	passivatedAtOnce = 32
	// pauseAfter and pauseTime leave half of the time to calls while very many idle
	// entities are passivated.
	pauseAfter = time.Millisecond
	pauseTime  = time.Millisecond
	// rarestLook is the longest time, in seconds, between two looks at a shard.
	rarestLook = 5
)

func newPassivator(h *host) *passivator {
	return &passivator{host: h, workers: newPassivationWorkers(h)}
}

func (p *passivator) run() {
	defer func() {
		if !p.host.driver.closed() { // a method that encodes state ended this goroutine
			p.host.driver.group.Go(p.run)
		}
	}()
	for {
		select {
		case <-p.host.driver.stop:
			return
		case <-p.host.second:
			if p.host.settings.maxActive > 0 {
				p.host.countActive()
				p.makeRoom()
			}
			p.passivateIdle()
		case <-p.host.excess:
			p.makeRoom()
		}
	}
}

// passivateIdle passivates entities that were not called for the type's idle time. If
// that is long, it looks at a part of the shards each second, so that each is looked at
// at least sixteen times in that time.
func (p *passivator) passivateIdle() {
	h := p.host
	ticks := uint32(h.settings.idle / clockTick)
	if ticks == 0 {
		return
	}
	every := min(max(int(h.settings.idle/(16*time.Second)), 1), rarestLook)
	p.round++
	p.paused = time.Now()
	defer p.workers.begin()()
	for i := p.round % every; i < len(h.shards); i += every {
		if now := h.driver.clock.Load(); now > ticks {
			p.passivateBefore(&h.shards[i], now-ticks, nil)
		}
	}
}

// passivateBefore passivates the shard's entities that were last used before t, restricted by
// which unless it is nil. It returns the number of entities found. It pauses from time
// to time, except when it must make room.
func (p *passivator) passivateBefore(s *hostedShard, t uint32, which func(used uint32) bool) (found int) {
	s.Mu.Lock()
	left := s.Core.Listed()
	s.Mu.Unlock()
	for ; left > 0 && s.host.mayPassivate(); left -= surveyed {
		p.batch = p.batch[:0]
		s.Mu.Lock()
		s.Core.Survey(min(left, surveyed), func(e *region.Entity, used uint32) {
			if used < t && (which == nil || which(used)) {
				p.batch = append(p.batch, idleEntity{s, e, t})
			}
		})
		s.Mu.Unlock()
		p.passivateBatch()
		found += len(p.batch)
		p.paceForgetting(s, len(p.batch))
		clear(p.batch)
		p.yield(1)
		if which == nil {
			p.pause()
		}
	}
	return found
}

// passivateBatch passivates the entities of the batch. Stop hooks may still be running when
// it returns.
func (p *passivator) passivateBatch() {
	if len(p.batch) == 0 {
		return
	}
	if p.host.desc.Passivate != nil {
		p.workers.passivate(p.batch)
		return
	}
	for _, r := range p.batch {
		r.now()
		p.yield(1)
	}
}

// yield lets other goroutines run from time to time, so that calls do not wait for
// passivation.
func (p *passivator) yield(n int) {
	if p.since += n; p.since >= passivatedAtOnce {
		p.since = 0
		runtime.Gosched()
	}
}

// pause pauses after work for pauseAfter.
func (p *passivator) pause() {
	if time.Since(p.paused) >= pauseAfter {
		time.Sleep(pauseTime)
		p.paused = time.Now()
	}
}

// idleEntity is an entity that is to be passivated, unless it was used since t.
type idleEntity struct {
	shard  *hostedShard
	entity *region.Entity
	t      uint32
}

// begin takes the entity's turn, if it may still be passivated.
func (r idleEntity) begin() bool {
	s := r.shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.host.mayPassivate() && s.Core.BeginPassivation(r.entity, r.t)
}

// now passivates the entity, if that is still allowed.
func (r idleEntity) now() {
	if r.begin() {
		defer r.shard.endTurn(r.entity)
		r.shard.passivate(r.entity, codegen.Idle)
	}
}

// paceForgetting waits until the memory of remembered ids has handled the passivated
// entities, because entities are passivated faster than their ids are forgotten.
func (p *passivator) paceForgetting(s *hostedShard, passivated int) {
	if s.remembered != nil && passivated > 0 {
		s.remembered.WaitForgotten()
	}
}

// makeRoom passivates the entities that were unused for the longest time until there are
// somewhat fewer than the type's limit, so that it seldom has to look at all entities.
func (p *passivator) makeRoom() {
	h := p.host
	most := h.settings.maxActive
	over := int(h.active.Load()-h.passivating.Load()) - most
	if most == 0 || over <= 0 {
		return
	}
	defer p.workers.begin()()
	limit, atLimit := oldest(p.ages(), over+most/16)
	for i := range h.shards {
		n := p.passivateBefore(&h.shards[i], limit+1, func(used uint32) bool {
			if used == limit {
				atLimit--
			}
			return used < limit || atLimit >= 0
		})
		for range n {
			h.driver.counters.add(entityPassivatedForRoom)
		}
	}
}

// ages counts the entities that could be passivated by the time of their last use.
func (p *passivator) ages() map[uint32]int {
	ages := map[uint32]int{}
	for i := range p.host.shards {
		s := &p.host.shards[i]
		s.Mu.Lock()
		left := s.Core.Listed()
		s.Mu.Unlock()
		for ; left > 0 && !p.host.driver.closed(); left -= surveyed {
			s.Mu.Lock()
			s.Core.Survey(min(left, surveyed), func(_ *region.Entity, used uint32) { ages[used]++ })
			s.Mu.Unlock()
			p.yield(1)
		}
	}
	return ages
}

// oldest returns a limit that selects the n entities that were unused for the longest
// time: all that were last used before limit, and atLimit of those that were last used
// at limit.
func oldest(ages map[uint32]int, n int) (limit uint32, atLimit int) {
	for _, limit = range slices.Sorted(maps.Keys(ages)) {
		if n <= ages[limit] {
			return limit, n
		}
		n -= ages[limit]
	}
	return limit, ages[limit]
}
