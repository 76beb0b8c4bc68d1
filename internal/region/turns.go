package region

import (
	"cmp"
	"iter"
	"slices"
)

// turns are the entities of a shard, with their turns and mailboxes.
type turns struct {
	entities
	room

	shard   *Shard    // the one whose entities they are
	spare   []*seldom // empty parts of entities, for reuse
	running int       // turns under way, counted while Draining
	orphans []*Entity // whose turns are under way although the shard was lost
}

// Entities is the number of entities, active or passivated.
func (s *turns) Entities() int { return s.entities.n }

// Live is the number of entities that had a value when their last turn ended.
func (s *turns) Live() int { return s.entities.actives.live }

// entity is the one with that id, which is made if there is none.
func (s *turns) entity(id string) *Entity {
	e := s.entities.get(id)
	if e == nil {
		e = newEntity(s.shard, string(append([]byte(nil), id...))) // id may be a slice of a larger buffer
		s.entities.put(e)
	}
	return e
}

// Kept notes that the driver goes on with the entity's turn although the call that the turn
// was for is over: Find does not find that call any more.
func (s *turns) Kept(e *Entity) {
	if p := e.seldom.Load(); p != nil {
		p.turn = nil
	}
}

// maxSpare is how many empty parts of entities a shard keeps. Most turns that begin under the lock
// need one, and few are under way at a time.
const maxSpare = 8

// name notes the call whose turn it is.
func (s *turns) name(e *Entity, c *Call) {
	if last := len(s.spare) - 1; last >= 0 && e.seldom.CompareAndSwap(nil, s.spare[last]) {
		s.spare[last], s.spare = nil, s.spare[:last]
	}
	e.more().turn = c
}

// trim takes the part for seldom fields from the entity, if nothing is in it. The caller has the
// lock, and the turn is its own or none is under way and none can begin.
func (s *turns) trim(e *Entity) {
	p := e.seldom.Load()
	if p == nil || p.state != nil || p.kept != nil || p.turn != nil || p.mailbox.n > 0 {
		return
	}
	e.seldom.Store(nil)
	if len(s.spare) < maxSpare {
		p.why = 0
		s.spare = append(s.spare, p)
	}
}

// Listed is how many entities Survey has to look at to have seen every active one.
func (s *turns) Listed() int { return s.entities.actives.n }

// Survey looks at n entities of those that may be active, or at all if they are fewer,
// beginning with those that it has not looked at for longest. It calls f for each that
// has a value and no turn, with the time of its last use by the driver's coarse clock.
// To look at few at a time keeps the time short for which the driver has the lock.
func (s *turns) Survey(n int, f func(e *Entity, used uint32)) {
	a := &s.entities.actives
	for range min(n, a.n) {
		e := a.pop()
		w := e.word.Load()
		if w&(busy|live) == 0 {
			a.dead = max(a.dead-1, 0) // it may have left the index
			continue
		}
		a.push(e)
		if w&(busy|live) == live {
			f(e, lastUsed(w))
		}
	}
}

// Active counts the entities that have a value or a turn; it looks at each.
func (s *turns) Active() (n int) {
	for e := range s.entities.all() {
		if e.has(busy | live) {
			n++
		}
	}
	return n
}

// Queued counts the calls that wait for turns of their entities; it looks at each entity.
func (s *turns) Queued() (n int) {
	for e := range s.entities.all() {
		n += e.Mailbox()
	}
	return n
}

// UnderWay are the entities that have a turn; it looks at each. A turn that began without the lock may
// end meanwhile.
func (s *turns) UnderWay() iter.Seq[*Entity] {
	return func(yield func(*Entity) bool) {
		for e := range s.entities.all() {
			if e.has(busy) && !yield(e) {
				return
			}
		}
	}
}

// Lives reports whether an entity has a value or a turn.
func (s *turns) Lives(id string) bool {
	e := s.entities.get(id)
	return e != nil && e.has(busy|live)
}

// Orphans are the entities whose turns are under way although the shard was lost meanwhile. They end by
// End, and are in the index no more.
func (s *turns) Orphans() []*Entity { return s.orphans }

// WatchRunning is the number of turns under way; it looks at each entity. Those turns
// end by End, not by Entity.Leave, and each idle entity's next one begins under the
// lock.
func (s *turns) WatchRunning() (n int) {
	for e := range s.entities.all() {
		if e.want() {
			n++
		}
	}
	return n
}

// idle is [Shard.Idle] in an open shard.
func (s *turns) idle(t uint32, limit int) []*Entity {
	type candidate struct {
		*Entity
		used uint32
	}
	var idle []candidate
	for e := range s.entities.all() {
		if w := e.word.Load(); w&(busy|live) == live && lastUsed(w) < t {
			idle = append(idle, candidate{e, lastUsed(w)})
		}
	}
	slices.SortFunc(idle, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.ID, b.ID))
	})
	var out []*Entity
	for _, c := range idle {
		if len(out) < limit && c.take(c.used) { // else somebody called it meanwhile
			out = append(out, c.Entity)
		}
	}
	return out
}

// active reports whether any entity has a value.
func (s *turns) active() bool {
	for e := range s.entities.all() {
		if e.has(live) {
			return true
		}
	}
	return false
}

// begin begins the turn of the call, or puts the call into the entity's mailbox.
func (s *turns) begin(c *Call, now uint32) (*Entity, Verdict) {
	e := s.entity(c.Entity)
	if !e.take(now) {
		if c.Chain != nil && c.Chain.HoldsEntity(e.shard.id, c.Entity) {
			return nil, Circular
		}
		return nil, s.post(e, c)
	}
	s.name(e, c)
	s.running++
	return e, Run
}

// end ends the entity's turn in a shard of that state, and begins the turn of the next
// call in its mailbox.
func (s *turns) end(e *Entity, now uint32, in State) (next *Call) {
	if e.has(orphan) {
		s.orphans = slices.DeleteFunc(s.orphans, func(o *Entity) bool { return o == e })
		s.Kept(e)
		e.Clear()
		s.trim(e)
		e.rest(0, now)
		return nil
	}
	if mailbox := e.mailbox(); mailbox.len() > 0 && (in == Open || in == Draining) {
		next = mailbox.pop()
		s.name(e, next)
		s.release(next)
		return next
	}
	s.Kept(e)
	s.running--
	was, is := e.has(live), e.Value != nil
	var idle uint64
	if is {
		idle = live
	}
	if in != Open {
		idle |= wanted
	}
	forgotten := !is && e.State() == nil
	s.trim(e) // before another goroutine can begin a turn
	e.rest(idle, now)
	s.entities.actives.ended(e, was, is)
	if forgotten {
		s.entities.remove(e) // not activated after all, or forgotten
	}
	return nil
}
