package region

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Handoff configures how a shard moves. Both homes must have the same one. With the zero value
// the shard's state moves too, and each sender's calls run in the order in which they were made.
// Numbers in parentheses are the options of the Akka Cluster specification (graceful handoff); the
// zero value is its 2b, 3b and 4a.
type Handoff struct {
	// Serving: the old home runs turns until the new one is ready (2a). State changed by these
	// turns does not move.
	Serving bool
	// DropCalls: the old home drops calls that arrive while it gives the shard away (2c).
	// Their senders may try again.
	DropCalls bool
	// Unordered: the new home runs a sender's calls as they arrive, even while older
	// ones may still arrive through the old home (3a).
	Unordered bool
	// Refusing: once the new home has the shard, the old home refuses calls that still
	// arrive, and names the new home (4b).
	Refusing bool
	// DropState: the state does not move.
	DropState bool
}

// CheckState returns an error if entities with state cannot move with this Handoff.
func (h Handoff) CheckState() error {
	var bad []string
	if h.Serving {
		bad = append(bad, "serving would lose changes that turns make while the state is being sent")
	}
	if h.Unordered && !h.DropState {
		bad = append(bad, "unordered would run calls out of order")
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("the type has state: %s", strings.Join(bad, ", and "))
}

// String joins the names of the set fields with "+", or returns "ordered" if none is set. With
// DropState it returns only "drop-state", which implies other fields.
func (h Handoff) String() string {
	if h.DropState {
		return "drop-state"
	}
	var words []string
	for _, o := range []struct {
		on   bool
		word string
	}{{h.Serving, "serving"}, {h.DropCalls, "drop-calls"}, {h.Unordered, "unordered"}, {h.Refusing, "refusing"}} {
		if o.on {
			words = append(words, o.word)
		}
	}
	if words == nil {
		return "ordered"
	}
	return strings.Join(words, "+")
}

type move struct {
	to    transport.Address
	epoch placement.Epoch
}

// MayBackOff reports whether an entity may keep its turn while it waits before a restart. While the
// shard is to move, no entity may, because the move waits for turns to end.
func (s *Shard) MayBackOff() bool { return s.state == Open && s.pending == nil }

// BeginMove starts to move the shard away, under the epoch that the new home will have. If to is
// zero, the shard ends: it stays Sent until the table shows no home. BeginMove ignores a repeated
// or late order. While a barrier of this tenure is closed the move waits; otherwise the barrier's
// calls would have to pass through two homes.
func (s *Shard) BeginMove(to transport.Address, epoch placement.Epoch) Effects {
	defer s.check()
	if s.state != Open || epoch <= s.epoch || epoch <= s.off || s.offered != nil && epoch <= s.offered.epoch {
		return Effects{}
	}
	if s.holdsBack() {
		s.pending = &move{to, epoch}
		return Effects{}
	}
	if s.limits.Handoff.Serving && !to.IsZero() {
		s.offered = &move{to, epoch}
		s.peer, s.moveE = to, epoch
		return Effects{Offer: true} // the driver sends an Init without state
	}
	s.peer, s.moveE, s.granted = to, epoch, false
	return s.drain()
}

// Underway returns the move of a shard that is still open: the move waits for barriers, or the
// shard is on offer. A new coordinator must learn of such a move, because the move continues by
// itself.
func (s *Shard) Underway() (to transport.Address, epoch placement.Epoch, ok bool) {
	switch {
	case s.state != Open:
	case s.offered != nil:
		return s.offered.to, s.offered.epoch, true
	case s.pending != nil:
		return s.pending.to, s.pending.epoch, true
	}
	return transport.Address{}, 0, false
}

// Ready handles the new home's answer that it has the shard's state. This node then forwards the
// waiting calls to the new home and sends Open, which makes the new home the shard's home. With
// Handoff.Serving, turns still run here; then this node first lets them end.
func (s *Shard) Ready(from transport.Address, epoch placement.Epoch) Effects {
	defer s.check()
	if s.peer != from || s.moveE != epoch || epoch <= s.off {
		return Effects{}
	}
	if s.offered != nil && s.state == Open {
		fx := s.drain() // afterwards the shard belongs to the new home
		s.granted = true
		return fx
	}
	if s.state != Sent || s.granted {
		return Effects{}
	}
	fx := s.follow()
	fx.Open = true
	return fx
}

func (s *Shard) drain() (fx Effects) {
	s.become(Draining)
	s.offered = nil
	later := s.waiting
	s.waiting = queue{}
	s.running = 0
	for _, e := range s.entities.sorted() {
		if e.want() {
			s.running++
		}
		s.waiting.take(e.mailbox())
	}
	s.waiting.take(&later)
	if s.limits.Handoff.DropCalls {
		fx.Drop = s.sift(&s.waiting, func(c *Call) bool { return c.Epoch <= s.epoch || c.Local })
	}
	fx.Drained = s.running == 0
	return fx
}

// Stopped ends the stop hooks of the move under the given epoch, after the entities' states were
// encoded. If sent is true, the driver must send Init now. sent is false if the move was cancelled,
// if a call has begun a turn meanwhile, or if the new home is already ready.
func (s *Shard) Stopped(epoch placement.Epoch, now uint32) (fx Effects, sent bool) {
	defer s.check()
	fx.add(s.endStops(now, nil))
	s.passivating, s.stops = nil, false
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

func (s *Shard) follow() Effects {
	s.become(Forwarding)
	s.last = s.epoch
	s.home, s.epoch = s.peer, s.moveE
	s.departures.add(s.peer, s.moveE)
	s.barriers.returned = nil
	s.dismiss()
	s.granted = false
	waited := s.sift(&s.waiting, func(c *Call) bool { return c.Epoch <= s.epoch })
	var fx Effects
	for _, c := range waited {
		if s.onward(c) == Forward {
			fx.Forward = append(fx.Forward, c)
		} else {
			fx.Refuse = append(fx.Refuse, c)
		}
	}
	fx.add(Effects{Flushed: s.barriers.take(func(f Flush) bool { return f.Epoch >= s.moveE })})
	for _, f := range fx.Flushed {
		if at, owes := s.owed[f.Sender.Address]; owes {
			s.repay(f, at)
		}
	}
	return fx
}

// An Encoded is an entity's encoded state. The bytes must not be changed.
type Encoded struct {
	ID    string
	State []byte
}

// Stop begins a turn of each active entity for its stop hook, and returns these entities, ordered
// by id. The driver runs their stop hooks in that order, and calls MayPassivate before each. At the
// end it calls States and Stopped. ok is false if the shard is not drained, the move was cancelled,
// or stop hooks already run.
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

// MayPassivate reports whether the driver may run the entity's stop hook. false means that the move
// was given up: entities may have turns again, and the driver must call Stopped at once. Until
// Stopped, the driver owns only the last entity for which MayPassivate returned true.
func (s *Shard) MayPassivate(e *Entity) bool {
	if !s.leaving() {
		return false
	}
	s.passivating = e
	return true
}

// leaving reports whether the move that runs the stop hooks is still under way: no call has begun a
// turn since Stop, and the move was not cancelled.
func (s *Shard) leaving() bool {
	return s.stops && s.state == Draining && s.moveE == s.stopE && s.moveE > s.off
}

// States returns the encoded state of each entity that has one, ordered by id. If Stopped then
// returns sent, the driver sends these states to the new home. States returns nil if the move was
// given up.
func (s *Shard) States() (all []Encoded) {
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

func (s *Shard) orphan() (fx Effects) {
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

// dismiss drops the entities, which have moved in encoded form.
func (s *Shard) dismiss() {
	for e := range s.entities.all() {
		s.empty(e)
	}
	s.entities.clear()
}

// empty clears an entity that leaves the index, so that callers that still refer to the entity do
// not keep its contents in memory. From Stop to Stopped the contents belong to the driver, and
// empty does nothing.
func (s *Shard) empty(e *Entity) {
	if !s.stops {
		e.Clear()
		s.trim(e)
	}
}
