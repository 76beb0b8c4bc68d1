package region

import (
	"cmp"
	"iter"
	"slices"
)

// Look finds an entity by its id without the shard's lock. It returns nil if the shard has no such
// entity, and sometimes also while the index changes. hash is [Hash] of id. Look may be called at
// any time from any goroutine. Callers may keep the returned entity for later calls.
func (s *Shard) Look(hash uint64, id string) *Entity { return s.entities.look(hash, id) }

// Entities returns the number of entities, active or passivated.
func (s *Shard) Entities() int { return s.entities.n }

// Live returns the number of entities that had a value when their last turn ended.
func (s *Shard) Live() int { return s.entities.actives.live }

func (s *Shard) entity(id string) *Entity {
	e := s.entities.get(id)
	if e == nil {
		e = newEntity(s, string(append([]byte(nil), id...))) // id may be a slice of a larger buffer
		s.entities.put(e)
	}
	return e
}

// Detach separates the entity's turn from its call, after the call has ended but while the turn
// goes on: Find does not find the call any more.
func (s *Shard) Detach(e *Entity) {
	if p := e.cold.Load(); p != nil {
		p.turn = nil
	}
}

// maxSpare is how many unused cold parts a shard keeps. Few of the turns that need one are under
// way at a time.
const maxSpare = 8

func (s *Shard) name(e *Entity, c *Call) {
	if last := len(s.spare) - 1; last >= 0 && e.cold.CompareAndSwap(nil, s.spare[last]) {
		s.spare[last], s.spare = nil, s.spare[:last]
	}
	e.more().turn = c
}

// trim removes an empty cold part. The caller holds the lock. It also holds the turn, or knows
// that no turn is under way or can begin.
func (s *Shard) trim(e *Entity) {
	p := e.cold.Load()
	if p == nil || p.state != nil || p.data != nil || p.turn != nil || p.mailbox.n > 0 {
		return
	}
	e.cold.Store(nil)
	if len(s.spare) < maxSpare {
		p.why = 0
		s.spare = append(s.spare, p)
	}
}

// Listed returns the number of entities in the list of possibly active ones, which Survey examines.
func (s *Shard) Listed() int { return s.entities.actives.n }

// Survey examines n entities that may be active, or all of them if there are fewer than n. It
// begins with those that were examined longest ago. For each that has a Value and no turn under
// way, it calls f. used is the driver's coarse clock at the entity's last use. The driver passes a
// small n, to hold the shard's lock only briefly.
func (s *Shard) Survey(n int, f func(e *Entity, used uint32)) {
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

// Active returns the number of entities that have a value or a turn. It examines every entity.
func (s *Shard) Active() (n int) {
	for e := range s.entities.all() {
		if e.has(busy | live) {
			n++
		}
	}
	return n
}

// IDs yields the ids of the entities, in no particular order. If active is set, it yields only the
// ids of entities that have a value or a turn. It leaves out the empty id, which stands for the
// shard itself. In either case it examines every entity.
func (s *Shard) IDs(active bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for e := range s.entities.all() {
			if (!active || e.has(busy|live)) && e.ID != "" && !yield(e.ID) {
				return
			}
		}
	}
}

// Queued returns the number of calls that wait for turns of their entities. It examines every
// entity.
func (s *Shard) Queued() (n int) {
	for e := range s.entities.all() {
		n += e.Mailbox()
	}
	return n
}

// UnderWay yields the entities that have a turn. It examines every entity. A turn that began
// without the lock may end meanwhile.
func (s *Shard) UnderWay() iter.Seq[*Entity] {
	return func(yield func(*Entity) bool) {
		for e := range s.entities.all() {
			if e.has(busy) && !yield(e) {
				return
			}
		}
	}
}

// Used returns the time of the entity's last use, which does not change while a turn is under way.
func (e *Entity) Used() uint32 { return lastUsed(e.word.Load()) }

// Lives reports whether an entity has a value or a turn.
func (s *Shard) Lives(id string) bool {
	e := s.entities.get(id)
	return e != nil && e.has(busy|live)
}

// Orphans returns entities whose turns are still under way although the shard was lost. They are
// not in the index; their turns end by End.
func (s *Shard) Orphans() []*Entity { return s.orphans }

// WatchRunning returns the number of turns under way. It examines every entity. From then on these
// turns end by End, not by Entity.Leave, and each idle entity's next turn begins under the lock.
func (s *Shard) WatchRunning() (n int) {
	for e := range s.entities.all() {
		if e.want() {
			n++
		}
	}
	return n
}

func (s *Shard) active() bool {
	for e := range s.entities.all() {
		if e.has(live) {
			return true
		}
	}
	return false
}

func (s *Shard) begin(c *Call, now uint32) (*Entity, Verdict) {
	e := s.entity(c.Entity)
	if !e.take(now) {
		if c.Chain != nil && c.Chain.HoldsEntity(s.id, c.Entity) {
			return nil, Circular
		}
		return nil, s.post(e, c)
	}
	s.name(e, c)
	s.running++
	return e, Run
}

// End ends the entity's turn. If a call waits for the entity, the call's turn begins: End returns
// the call as next, and the driver runs it. drained reports that a move waited for this turn, and
// that the driver must continue the move.
func (s *Shard) End(e *Entity, now uint32) (next *Call, drained bool) {
	if e.has(orphan) {
		s.orphans = slices.DeleteFunc(s.orphans, func(o *Entity) bool { return o == e })
		s.Detach(e)
		e.Clear()
		s.trim(e)
		e.rest(0, now)
		return nil, false
	}
	if mailbox := e.mailbox(); mailbox.len() > 0 && (s.state == Open || s.state == Draining) {
		next = mailbox.pop()
		s.name(e, next)
		s.release(next)
		e.SetNote(now, 0)
		return next, false
	}
	s.Detach(e)
	s.running--
	was, is := e.has(live), e.Value != nil
	var idle uint64
	if is {
		idle = live
	}
	if s.state != Open {
		idle |= wanted
	}
	forgotten := !is && e.State() == nil
	s.trim(e) // before another goroutine can begin a turn
	e.rest(idle, now)
	s.entities.actives.ended(e, was, is)
	if forgotten {
		s.entities.remove(e) // not activated after all, or forgotten
	}
	return nil, s.state == Draining && s.running == 0
}

// Begin begins a turn of the entity for a local caller, after Enter has refused. It returns nil if
// the shard is not open, a barrier is closed, or the entity is busy; the caller then makes a Call
// and delivers it.
func (s *Shard) Begin(id string, now uint32) *Entity {
	if len(s.barriers.closed) > 0 {
		return nil
	}
	return s.Take(id, now)
}

// Take begins a turn for the driver itself. It returns nil if the shard is not open or the entity
// is busy. Barriers do not matter, because the turn has no call.
func (s *Shard) Take(id string, now uint32) *Entity {
	if s.state != Open {
		return nil
	}
	if e := s.entity(id); e.take(now) {
		return e
	}
	return nil
}

// lead begins a turn of the entity Limits.Lead for the driver, unless that entity has a value or
// a turn.
func (s *Shard) lead(now uint32) *Entity {
	id := s.limits.Lead
	if id == "" || s.Lives(id) {
		return nil
	}
	return s.Take(id, now)
}

// BeginPassivation begins a turn to passivate an entity from Survey; the driver then passivates the
// entity and calls End. It returns false if the shard is not open, or if the entity is inactive,
// has a turn, or was used at t or later.
func (s *Shard) BeginPassivation(e *Entity, t uint32) bool {
	return s.state == Open && e.takeIdle(t)
}

// Idle begins a turn to passivate each active entity last used before t, a time of the driver's
// coarse clock: at most limit entities, those unused for longest first. The driver passivates them
// and calls End.
func (s *Shard) Idle(t uint32, limit int) []*Entity {
	if s.state != Open {
		return nil
	}
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
