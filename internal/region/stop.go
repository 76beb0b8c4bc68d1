package region

import (
	"slices"

	"github.com/shardgen/shardgen/runtime/placement"
)

// Stop begins a turn of each active entity for the stop hooks, and returns those
// entities, by id. The driver calls Rest before it runs the hook of each, in that
// order; at the end States, and Stopped. ok is false when the shard is not drained,
// the move is off, or the hooks of a move run already.
func (s *Shard) Stop() (entities []*Entity, ok bool) {
	defer s.check()
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

// Rest reports whether the driver may run the entity's stop hook: the move is still
// on. If it is false, the driver goes on with Stopped at once: the move was given up,
// and other entities of the shard, this one included, may have turns again. Only the
// entity for which Rest returned true last stays the driver's until Stopped.
func (s *Shard) Rest(e *Entity) bool {
	if !s.leaving() {
		return false
	}
	s.resting = e
	return true
}

// leaving reports whether the move is on for which the stop hooks run: no call's turn
// has begun since Stop.
func (s *Shard) leaving() bool {
	return s.stops && s.state == Draining && s.moveE == s.stopE && s.moveE > s.off
}

// An Encoded is an entity's encoded state. Nobody changes the bytes.
type Encoded struct {
	ID    string
	State []byte
}

// States are the encoded states of all entities that have one, by id, to be sent if
// Stopped says so.
func (s *Shard) States() (all []Encoded) {
	if !s.leaving() {
		return nil
	}
	for _, e := range s.entities.sorted() {
		if e.State != nil {
			all = append(all, Encoded{e.ID, e.State})
		}
	}
	return all
}

// Stopped reports that the stop hooks ran and the state was encoded into the
// entities' State, for the move to that epoch. When sent is true the driver sends
// Init now; else the move is off, or a call came in between.
func (s *Shard) Stopped(epoch placement.Epoch, now uint32) (fx Effects, sent bool) {
	defer s.check()
	fx.add(s.endStops(now, nil))
	s.resting, s.stops = nil, false
	drained := s.state == Draining && s.running == 0 && s.moveE > s.off
	if drained && s.moveE == epoch && !s.active() {
		s.become(Sent)
		if !s.granted {
			return fx, true
		}
		fx.add(s.follow())
		fx.Open = true
		return fx, false
	}
	fx.Drained = drained
	return fx, false
}

// unstop is for a shard that opens again while stop hooks run. It ends the turns that
// were begun for them, but for that of the entity whose hook runs now.
func (s *Shard) unstop(now uint32) Effects { return s.endStops(now, s.resting) }

// endStops ends the turns of the entities that Stop began, but for one.
func (s *Shard) endStops(now uint32, but *Entity) (fx Effects) {
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

// active reports whether any entity has a value.
func (s *Shard) active() bool {
	for e := range s.entities.all() {
		if e.has(live) {
			return true
		}
	}
	return false
}
