package node

import (
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// ClockTick is the interval of the coarse clock, and so the precision of an entity's time of last
// use.
const ClockTick = 100 * time.Millisecond

// TicksASecond is the number of ticks of the coarse clock in a second.
const TicksASecond = uint32(time.Second / ClockTick)

// Passivator passivates the idle entities of one type. An entity is idle if it was not called for
// the type's idle time. If more entities than allowed are active, those unused for the longest time
// are passivated too.
//
// One goroutine looks for idle entities, a few at a time, so that it never holds a shard's lock for
// long. It takes the turn of one entity at a time and encodes that entity's state without the
// shard's lock. Meanwhile other entities can be called, and a move of the shard waits for at most
// one entity. If the type has a stop hook, workers passivate instead, because a hook may take long
// or hang. A move then waits for as many entities as hooks are running.
type Passivator struct {
	host    *Host
	workers *passivationWorkers // for a type with a stop hook; else nil

	round  int          // number of seconds that have passed
	batch  []idleEntity // entities found by a survey; reused
	since  int          // number of entities passivated since the last yield
	paused time.Time    // when the last pause ended
}

const (
	// surveyed is how many entities are looked at under one lock.
	surveyed = 128
	// passivatedAtOnce is how many entities are passivated before other goroutines may run.
	passivatedAtOnce = 32
	// pauseAfter and pauseTime are equal, so that calls get half of the time during much
	// passivation.
	pauseAfter = time.Millisecond
	pauseTime  = time.Millisecond
	// RarestLook is the longest time between two looks at a shard, in seconds.
	RarestLook = 5
)

func NewPassivator(h *Host) *Passivator {
	return &Passivator{host: h, workers: newPassivationWorkers(h)}
}

func (p *Passivator) Run() {
	defer func() {
		if !p.host.driver.Closed() { // a method that encodes state ended this goroutine
			p.host.driver.Group.Go(p.Run)
		}
	}()
	for {
		select {
		case <-p.host.driver.Stop:
			return
		case <-p.host.Second:
			if p.host.Settings.MaxActive > 0 {
				p.host.CountActive()
				p.MakeRoom()
			}
			p.PassivateIdle()
		case <-p.host.excess:
			p.MakeRoom()
		}
	}
}

// PassivateIdle passivates entities that were not called for the type's idle time. It is called
// every second. If the idle time is long, one call looks at only some of the shards, but each shard
// is looked at sixteen times or more within that time, and at least every RarestLook seconds.
func (p *Passivator) PassivateIdle() {
	h := p.host
	ticks := uint32(h.Settings.Idle / ClockTick)
	if ticks == 0 {
		return
	}
	every := min(max(int(h.Settings.Idle/(16*time.Second)), 1), RarestLook)
	p.round++
	p.paused = time.Now()
	defer p.workers.begin()()
	for i := p.round % every; i < len(h.Shards); i += every {
		if now := h.driver.Clock.Load(); now > ticks {
			p.passivateBefore(&h.Shards[i], now-ticks, nil)
		}
	}
}

// passivateBefore passivates the entities of a shard that were last used before t and that the
// given filter (which) accepts. A nil filter accepts all. It returns the number of such entities.
func (p *Passivator) passivateBefore(s *HostedShard, t uint32, which func(used uint32) bool) (found int) {
	s.Mu.Lock()
	left := s.Core.Listed()
	s.Mu.Unlock()
	for ; left > 0 && s.Host.mayPassivate(); left -= surveyed {
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

// passivateBatch passivates the entities in p.batch. Stop hooks may still run when it returns.
func (p *Passivator) passivateBatch() {
	if len(p.batch) == 0 {
		return
	}
	if p.host.Desc.Passivate != nil {
		p.workers.passivate(p.batch)
		return
	}
	for _, r := range p.batch {
		r.now()
		p.yield(1)
	}
}

// yield counts n more entities, and lets other goroutines run after every passivatedAtOnce
// entities.
func (p *Passivator) yield(n int) {
	if p.since += n; p.since >= passivatedAtOnce {
		p.since = 0
		runtime.Gosched()
	}
}

func (p *Passivator) pause() {
	if time.Since(p.paused) >= pauseAfter {
		time.Sleep(pauseTime)
		p.paused = time.Now()
	}
}

type idleEntity struct {
	shard  *HostedShard
	entity *region.Entity
	t      uint32
}

func (r idleEntity) begin() bool {
	s := r.shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Host.mayPassivate() && s.Core.BeginPassivation(r.entity, r.t)
}

func (r idleEntity) now() {
	if r.begin() {
		defer r.shard.FinishTurn(r.entity)
		r.shard.passivate(r.entity, codegen.Idle)
	}
}

// paceForgetting waits until passivated ids are forgotten, because forgetting is slower than
// passivation.
func (p *Passivator) paceForgetting(s *HostedShard, passivated int) {
	if s.remembered != nil && passivated > 0 {
		s.remembered.WaitForgotten()
	}
}

// MakeRoom passivates the entities unused for the longest time until somewhat fewer than the type's
// limit are active. Because of this margin, MakeRoom rarely has to look at all entities.
func (p *Passivator) MakeRoom() {
	h := p.host
	most := h.Settings.MaxActive
	over := int(h.active.Load()-h.passivating.Load()) - most
	if most == 0 || over <= 0 {
		return
	}
	defer p.workers.begin()()
	limit, atLimit := oldest(p.ages(), over+most/16)
	for i := range h.Shards {
		n := p.passivateBefore(&h.Shards[i], limit+1, func(used uint32) bool {
			if used == limit {
				atLimit--
			}
			return used < limit || atLimit >= 0
		})
		for range n {
			h.driver.Counts.Add(entityPassivatedForRoom)
		}
	}
}

func (p *Passivator) ages() map[uint32]int {
	ages := map[uint32]int{}
	for i := range p.host.Shards {
		s := &p.host.Shards[i]
		s.Mu.Lock()
		left := s.Core.Listed()
		s.Mu.Unlock()
		for ; left > 0 && !p.host.driver.Closed(); left -= surveyed {
			s.Mu.Lock()
			s.Core.Survey(min(left, surveyed), func(_ *region.Entity, used uint32) { ages[used]++ })
			s.Mu.Unlock()
			p.yield(1)
		}
	}
	return ages
}

// oldest selects the n least recently used entities: all entities last used before limit, and
// atLimit of those last used at limit. ages has the number of entities by the time of last use.
func oldest(ages map[uint32]int, n int) (limit uint32, atLimit int) {
	for _, limit = range slices.Sorted(maps.Keys(ages)) {
		if n <= ages[limit] {
			return limit, n
		}
		n -= ages[limit]
	}
	return limit, ages[limit]
}
