package region

import (
	"slices"

	"github.com/shardgen/shardgen/runtime/placement"
)

// stopping runs the stop hooks of a shard that moves away, and drops entities that have left.
type stopping struct {
	delivery

	off         placement.Epoch // moves up to this epoch are cancelled
	stopE       placement.Epoch // of the move that Stop was for
	stopping    []*Entity       // the entities in the turns of which the stop hooks run
	passivating *Entity         // the one of stopping that the driver is at; nil means none yet
}

// An Encoded is an entity's encoded state. Nobody changes the bytes.
type Encoded struct {
	ID    string
	State []byte
}

// beginStops is [Shard.Stop].
func (s *stopping) beginStops() (entities []*Entity, ok bool) {
	if s.state != Draining || s.running > 0 || s.stops || s.moveE <= s.off {
		return nil, false
	}
	s.stops, s.stopE = true, s.moveE
	for _, e := range s.entities.sorted() {
		if e.Value != nil && e.take(lastUsed(e.word.Load())) {
			s.running++
			s.stopping = append(s.stopping, e)
		}
	}
	return slices.Clone(s.stopping), true
}

// MayPassivate reports whether the driver may run the entity's stop hook: the move is still
// on. If it is false, the driver goes on with Stopped at once: the move was given up,
// and other entities of the shard, this one included, may have turns again. Only the
// entity for which MayPassivate returned true last stays the driver's until Stopped.
func (s *stopping) MayPassivate(e *Entity) bool {
	if !s.leaving() {
		return false
	}
	s.passivating = e
	return true
}

// leaving reports whether the move is on for which the stop hooks run: no call's turn
// has begun since Stop.
func (s *stopping) leaving() bool {
	return s.stops && s.state == Draining && s.moveE == s.stopE && s.moveE > s.off
}

// States are the encoded states of all entities that have one, by id, to be sent if
// Stopped says so.
func (s *stopping) States() (all []Encoded) {
	if !s.leaving() {
		return nil
	}
	for _, e := range s.entities.sorted() {
		if state := e.State(); state != nil {
			all = append(all, Encoded{e.ID, state})
		}
	}
	return all
}

// unstop is for a shard that opens again while stop hooks run. It ends the turns that
// were begun for them, but for that of the entity whose hook runs now.
func (s *stopping) unstop(now uint32) Effects { return s.endStops(now, s.passivating) }

// endStops ends the turns of the entities that Stop began, but for one.
func (s *stopping) endStops(now uint32, but *Entity) (fx Effects) {
	stopping := s.stopping
	s.stopping = nil
	for _, e := range stopping {
		if e == but {
			s.stopping = []*Entity{e}
			continue
		}
		if next, _ := s.End(e, now); next != nil {
			fx.Start = append(fx.Start, Start{e, next})
		}
	}
	return fx
}

// orphan gives up the turns under way, whose entities end with them, and the
// calls that wait for them.
func (s *stopping) orphan() (fx Effects) {
	for _, e := range s.entities.sorted() {
		if e.abandon() == busy {
			s.orphans = append(s.orphans, e)
		} else {
			s.empty(e)
		}
		for c := e.mailbox().pop(); c != nil; c = e.mailbox().pop() {
			s.release(c)
			fx.Drop = append(fx.Drop, c)
		}
	}
	s.entities.clear()
	return fx
}

// dismiss drops the entities, which are encoded and live elsewhere now.
func (s *stopping) dismiss() {
	for e := range s.entities.all() {
		s.empty(e)
	}
	s.entities.clear()
}

// empty clears an entity that leaves the index: callers may keep it, but not its
// contents. While the driver encodes the shard's entities it owns their contents.
func (s *stopping) empty(e *Entity) {
	if !s.stops {
		e.Clear()
		s.trim(e)
	}
}
