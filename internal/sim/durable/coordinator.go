package durable

import (
	"slices"
	"time"
)

// coordinator allocates shards to homes, and is wrong at times. Its epochs fall when its term
// record is lost, it takes living homes for dead, and it cancels moves.
type coordinator struct {
	r      *run
	epoch  uint64
	places map[int]*place
	known  []*home // all homes that ever reported
	heard  map[*home]time.Duration
	leased map[*home]time.Duration // the end of a home's lease for reads
	gone   map[*home]bool          // homes that were taken for dead
	mute   time.Duration           // until then it restarts and does nothing
}

type place struct {
	home  *home
	epoch uint64
	to    *home // the shard moves there once home has given it up; nil means that it stays
}

type held struct {
	shard int
	epoch uint64
}

const (
	leaseTime = 800 * time.Millisecond
	deadAfter = 1500 * time.Millisecond
)

func newCoordinator(r *run) *coordinator {
	c := &coordinator{
		r: r, places: map[int]*place{}, heard: map[*home]time.Duration{},
		leased: map[*home]time.Duration{}, gone: map[*home]bool{},
	}
	c.tick()
	return c
}

// hear handles h's report of its shards. The maps met and handed have, for each shard, the highest
// epoch that h has met in the store and the highest that h has given up.
func (c *coordinator) hear(h *home, report []held, met, handed map[int]uint64) {
	if c.r.w.now < c.mute {
		return
	}
	c.heard[h] = c.r.w.now
	if !slices.Contains(c.known, h) {
		c.known = append(c.known, h)
	}
	delete(c.gone, h)
	has := map[int]uint64{}
	for _, s := range report {
		has[s.shard] = s.epoch
	}
	for _, shard := range c.r.shards() {
		p := c.places[shard]
		seen := max(met[shard], has[shard])
		if !c.r.plan.without.lostTerm {
			c.epoch = max(c.epoch, seen)
		}
		if p == nil {
			continue
		}
		_, holds := has[shard]
		switch {
		case p.home != h:
			if epoch := has[shard]; holds {
				c.order(h, func() { h.leave(shard, epoch) })
			}
		case p.to != nil:
			if !holds && handed[shard] >= p.epoch {
				c.give(shard, p.to)
			} else {
				epoch := p.epoch
				c.order(h, func() { h.leave(shard, epoch) })
			}
		case met[shard] >= p.epoch && !c.r.plan.without.lostTerm:
			c.give(shard, h)
		case has[shard] > p.epoch:
			c.give(shard, h)
		case has[shard] < p.epoch && handed[shard] >= p.epoch && met[shard] < p.epoch:
			c.give(shard, h) // the home gave the shard up while it counted as another home's
		case has[shard] < p.epoch:
			c.assign(shard, p)
		}
	}
	c.lease(h)
}

// lease lets a home answer reads by itself for leaseTime. The lease covers only shards given to the
// home by the coordinator, because a home once taken for dead may still hold others.
func (c *coordinator) lease(h *home) {
	until := c.r.w.now + leaseTime
	for _, shard := range c.r.shards() {
		if p := c.places[shard]; p != nil && p.home == h && p.to == nil {
			epoch := p.epoch
			c.leased[h] = until
			c.order(h, func() {
				if t := h.tenures[shard]; t != nil && t.epoch == epoch {
					t.leased = max(t.leased, until)
				}
			})
		}
	}
}

func (c *coordinator) order(h *home, f func()) {
	c.r.message(func() {
		if !h.cutControl && !h.cutCluster {
			h.do(f)
		}
	})
}

func (c *coordinator) give(shard int, to *home) {
	c.epoch++
	c.places[shard] = &place{home: to, epoch: c.epoch}
	c.assign(shard, c.places[shard])
}

func (c *coordinator) assign(shard int, p *place) {
	h, epoch := p.home, p.epoch
	c.order(h, func() { h.assign(shard, epoch) })
}

// tick allocates shards without a home, or with a dead home that has no lease.
func (c *coordinator) tick() {
	c.r.w.after(50*time.Millisecond, c.tick)
	if c.r.w.now < c.mute {
		return
	}
	for _, h := range c.known {
		if at, ok := c.heard[h]; ok && c.r.w.now-at > deadAfter {
			c.gone[h] = true
		}
	}
	for _, shard := range c.r.shards() {
		p := c.places[shard]
		switch {
		case p == nil || c.gone[p.home]:
			if p != nil && c.r.w.now < c.leased[p.home] {
				continue
			}
			if to := c.choose(nil); to != nil {
				c.give(shard, to)
			}
		case p.to != nil && c.gone[p.to]:
			p.to = nil
			c.give(shard, p.home)
		}
	}
}

func (c *coordinator) choose(not *home) *home {
	var all []*home
	for _, h := range c.r.homes {
		if _, ok := c.heard[h]; ok && !c.gone[h] && h != not {
			all = append(all, h)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[c.r.w.random.IntN(len(all))]
}

func (c *coordinator) move(shard int) {
	p := c.places[shard]
	if p == nil || p.to != nil || c.gone[p.home] {
		return
	}
	if p.to = c.choose(p.home); p.to != nil {
		c.r.w.trace("%d moves from %s to %s", shard, p.home.name, p.to.name)
	}
}

// cancel makes the home back the shard's home, unless the lease of another home lasts.
func (c *coordinator) cancel(shard int, back *home) {
	p := c.places[shard]
	if p == nil || c.gone[back] || c.r.w.now < c.leased[p.home] && p.home != back {
		return
	}
	c.r.w.trace("%d goes back to %s", shard, back.name)
	c.give(shard, back)
}

// forget loses the term record. The coordinator then learns the shards from the homes, and its
// epochs begin lower.
func (c *coordinator) forget() {
	c.epoch -= min(c.epoch, uint64(c.r.w.random.IntN(20)))
	c.r.w.trace("the coordinator starts again at epoch %d", c.epoch)
	until := c.r.w.now + leaseTime
	for _, t := range c.leased {
		until = max(until, t)
	}
	c.mute = until
	clear(c.places)
	clear(c.heard)
	clear(c.gone)
}

func (c *coordinator) homeOf(shard int) *home {
	if p := c.places[shard]; p != nil {
		return p.home
	}
	return nil
}
