package handoff

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
)

// A coordinator decides as runtime/coordinator does, over a control channel that
// delays. It outlives everything.
type coordinator struct {
	w       *world
	version uint64
	shards  map[placement.ShardID]*placed
	removed map[*process]bool
}

// placed is one shard as the coordinator knows it.
type placed struct {
	id    placement.ShardID
	owner *process
	epoch placement.Epoch
	last  placement.Epoch
	move  *move
}

type phase int

const (
	moving    phase = iota // the old home is told
	askingNew              // it gave up; the new home must forget the move
	askingOld              // the new home is gone; has the shard gone with it?
)

type move struct {
	from, to *process
	epoch    placement.Epoch
	phase    phase
}

func newCoordinator(w *world) *coordinator {
	c := &coordinator{w: w, shards: map[placement.ShardID]*placed{}, removed: map[*process]bool{}}
	for _, id := range w.shardIDs() {
		s := &placed{id: id, last: placement.MakeEpoch(1, 0)}
		c.shards[id] = s
		c.give(s, w.procs[w.r.IntN(w.plan.hosts)])
	}
	c.publish()
	return c
}

func (c *coordinator) next(s *placed) placement.Epoch {
	s.last++
	return s.last
}

func (c *coordinator) give(s *placed, to *process) {
	s.owner, s.epoch = to, c.next(s)
	c.w.log("coordinator: %v belongs to %s at %v", s.id, to.name, s.epoch)
}

// send delivers a word of the coordinator's, or to it.
func (c *coordinator) send(do func()) {
	c.w.after(c.w.between(time.Millisecond, 15*time.Millisecond), do)
}

// publish brings the table to all.
func (c *coordinator) publish() {
	c.version++
	version := c.version
	var entries []placement.Entry
	for _, id := range c.w.shardIDs() {
		s := c.shards[id]
		entries = append(entries, placement.Entry{ShardID: id, Owner: s.owner.self.Address, Epoch: s.epoch})
	}
	for _, p := range c.w.procs {
		d := c.w.between(time.Millisecond, 30*time.Millisecond)
		if p.late && version > 1 {
			d += c.w.upTo(c.w.plan.stale)
		}
		c.w.after(d, func() { p.setTable(version, entries) })
	}
}

// pick is a host that can take a shard, nil if there is none.
func (c *coordinator) pick(not *process) *process {
	var can []*process
	for _, p := range c.w.procs[:c.w.plan.hosts] {
		if p != not && !c.removed[p] && !p.leaving {
			can = append(can, p)
		}
	}
	if len(can) == 0 {
		return nil
	}
	return can[c.w.r.IntN(len(can))]
}

// moveAny begins the move of some shard.
func (c *coordinator) moveAny() {
	ids := c.w.shardIDs()
	s := c.shards[ids[c.w.r.IntN(len(ids))]]
	if to := c.pick(s.owner); s.move == nil && to != nil && !c.removed[s.owner] {
		c.begin(s, to)
	}
}

func (c *coordinator) begin(s *placed, to *process) {
	m := &move{from: s.owner, to: to, epoch: c.next(s)}
	s.move = m
	c.w.log("coordinator: %v moves %s → %s at %v", s.id, m.from.name, to.name, m.epoch)
	c.order(s, m, s.epoch)
}

// order tells the old home, again and again while the move lasts.
func (c *coordinator) order(s *placed, m *move, from placement.Epoch) {
	if s.move != m || m.phase != moving {
		return
	}
	c.send(func() {
		if h := m.from.shards[s.id]; m.from.alive && h.core.Epoch() == from && h.core.Owner() == m.from.self.Address {
			h.beginMove(m.to.self.Address, m.epoch)
		}
	})
	c.w.after(500*time.Millisecond, func() { c.order(s, m, from) })
}

// moveOf is the move that a message speaks of, nil when it is over.
func (c *coordinator) moveOf(id placement.ShardID, epoch placement.Epoch) (*placed, *move) {
	s := c.shards[id]
	if s.move == nil || s.move.epoch != epoch {
		return s, nil
	}
	return s, s.move
}

// opened is a home's word that a shard runs there.
func (c *coordinator) opened(p *process, id placement.ShardID, epoch placement.Epoch) {
	c.send(func() {
		if s, m := c.moveOf(id, epoch); m != nil && p == m.to {
			s.move, s.owner, s.epoch = nil, m.to, m.epoch
			c.w.log("coordinator: %v committed to %s at %v", id, p.name, epoch)
			c.publish()
		}
	})
}

// aborted is an old home's word that it keeps the shard.
func (c *coordinator) aborted(p *process, id placement.ShardID, epoch placement.Epoch) {
	c.send(func() {
		s, m := c.moveOf(id, epoch)
		switch {
		case m == nil || p != m.from:
		case m.phase == moving:
			m.phase = askingNew
			c.w.log("coordinator: %v: %s gave up the move at %v", id, p.name, epoch)
			if c.removed[m.to] {
				c.resume(s, m)
				return
			}
			c.send(func() {
				if !m.to.alive {
					return
				}
				if h := m.to.shards[id]; h.cancelMove(epoch) {
					c.send(func() {
						if s.move == m {
							c.resume(s, m)
						}
					})
				} else {
					c.opened(m.to, id, epoch)
				}
			})
		case m.phase == askingOld:
			c.resume(s, m)
		}
	})
}

func (c *coordinator) resume(s *placed, m *move) {
	s.move = nil
	c.give(s, m.from)
	c.publish()
}

// remove takes a process off the books, and decides about its shards.
func (c *coordinator) remove(p *process) {
	if c.removed[p] {
		return
	}
	c.removed[p] = true
	for _, id := range c.w.shardIDs() {
		s := c.shards[id]
		switch m := s.move; {
		case m == nil && s.owner == p, m != nil && c.removed[m.from] && c.removed[m.to]:
			s.move = nil
			c.give(s, c.pick(nil))
		case m == nil:
		case p == m.from:
			s.move = nil
			c.give(s, m.to)
		case p == m.to && m.phase == askingNew:
			c.resume(s, m)
		case p == m.to && m.phase == moving:
			m.phase = askingOld
			c.askOld(s, m)
		}
	}
	c.publish()
}

// askOld asks the old home whether the shard has gone with the new one.
func (c *coordinator) askOld(s *placed, m *move) {
	c.send(func() {
		if !m.from.alive {
			return
		}
		off := m.from.shards[s.id].cancelMove(m.epoch)
		c.send(func() {
			switch {
			case s.move != m:
			case off:
				c.resume(s, m)
			default:
				s.move = nil
				c.give(s, c.pick(nil))
				c.publish()
			}
		})
	})
}

// leave empties a host and lets it go.
func (c *coordinator) leave(p *process) {
	if !p.alive || p.leaving {
		return
	}
	c.w.log("%s leaves", p.name)
	p.leaving = true
	c.empty(p)
}

func (c *coordinator) empty(p *process) {
	if !p.alive {
		return
	}
	left := false
	for _, id := range c.w.shardIDs() {
		s := c.shards[id]
		if s.move != nil {
			left = left || s.move.from == p || s.move.to == p
			continue
		}
		if s.owner == p {
			left = true
			if to := c.pick(p); to != nil {
				c.begin(s, to)
			}
		}
		core := p.shards[id].core
		if st := core.State(); st != region.Closed && st != region.Forwarding || core.Waiting() > 0 || core.Gated() {
			left = true
		}
		left = left || p.routes[id].core.Held() > 0
	}
	if left || len(p.pending) > 0 {
		c.w.after(20*time.Millisecond, func() { c.empty(p) })
		return
	}
	c.w.after(100*time.Millisecond, func() { p.farewell() })
}

// farewell ends a process in order: it handles nothing more, and says so.
func (p *process) farewell() {
	if !p.alive {
		return
	}
	p.publish()
	p.w.log("%s says goodbye", p.name)
	for _, l := range p.sortedLinks() {
		if l.gone {
			continue
		}
		l.flush()
		if l.core.Next() > 1 || l.core.Received() > 0 {
			p.w.transmit(l, 0, slices.Clone(l.core.Bye(l.handled)))
		}
	}
	p.alive = false
	p.w.bury(p, 3*time.Second)
}
