package region

import (
	"cmp"
	"slices"
)

// Active counts the entities that have a value or a turn; it looks at each.
func (s *Shard) Active() (n int) {
	for e := range s.entities.all() {
		if e.has(busy | live) {
			n++
		}
	}
	return n
}

// Lives reports whether an entity has a value or a turn.
func (s *Shard) Lives(id string) bool {
	e := s.entities.get(id)
	return e != nil && e.has(busy|live)
}

// WatchRunning is the number of turns under way; it looks at each entity. Those turns
// end by End, not by Entity.Leave, and each idle entity's next one begins under the
// lock.
func (s *Shard) WatchRunning() (n int) {
	for e := range s.entities.all() {
		if e.want() {
			n++
		}
	}
	return n
}

// Idle begins a turn, for passivation, of each active entity that was last used
// before t by the driver's coarse clock, at most limit of them, longest unused
// first. The driver passivates them and calls End.
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
