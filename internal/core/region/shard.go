package region

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// State is the stage of a shard at one node.
type State uint8

// The states of a shard at one node.
const (
	Closed     State = iota // not here
	Preparing               // its state arrives from the old home
	Prepared                // all its state is here; it waits for Open
	Open                    // here: turns run
	Draining                // moving away: only running turns and the calls nested in them run
	Sent                    // moving away: the state is on its way
	Forwarding              // moved away: calls that still arrive are sent on
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Preparing:
		return "preparing"
	case Prepared:
		return "prepared"
	case Open:
		return "open"
	case Draining:
		return "draining"
	case Sent:
		return "sent"
	case Forwarding:
		return "forwarding"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

var legal = map[State][]State{
	Closed:     {Preparing, Open},
	Preparing:  {Prepared, Open, Closed, Forwarding},
	Prepared:   {Open, Closed, Preparing, Forwarding},
	Open:       {Draining, Closed, Open},
	Draining:   {Sent, Open, Closed, Forwarding},
	Sent:       {Forwarding, Open, Closed},
	Forwarding: {Open, Preparing, Closed},
}

// A Shard is one shard at one node. It is not safe for concurrent use, except for Look.
//
// Invariants:
//  1. A turn is under way only in Open and Draining.
//  2. While the shard is Draining, running is the number of busy entities.
//  3. A mailbox is empty unless its entity is busy and wanted.
//  4. While the shard is Open, Closed, or Forwarding to a home that has not departed, a call waits
//     in the shard's queue only if the call's epoch is newer than the shard's.
//  5. A Forwarding shard remembers where it went, a Closed one does not.
//  6. In a shard that is Open, Draining, Sent or Forwarding, since is not 0 and at most epoch.
//  7. In a shard that is Sent no entity is active: each is encoded, or forgotten.
//  8. Only an Open shard is on offer, and only with Handoff.Serving.
//  9. Unless the shard is Open, every entity that is busy or live is wanted, and an idle one is
//     live if and only if it has a Value.
//  10. While a barrier is closed, and while calls are not direct, barred is set.
//  11. Every live entity is in the list of active entities, and live entities are counted.
//  12. A call has reserved its size if and only if it waits.
//  13. Senders owe a Flush only while the shard is Forwarding and not settled, and only a
//     Forwarding shard is settled.
//  14. A shard that is Closed or Forwarding has no entity.
//  15. The word of an entity counts tells exactly while a turn of tells is under way.
//  16. An entity whose turn belongs to a Call is busy and wanted.
type Shard struct {
	// Driver is for the driver alone. It is set once, before anything else.
	Driver any

	id     placement.ShardID
	self   transport.Address
	limits Limits

	// The stage of the shard at this node, by the placements and moves that are known here.
	state State
	epoch placement.Epoch   // of the latest placement known here
	term  uint32            // of the latest table known here
	since placement.Epoch   // the epoch from which on this node was its home without a break; 0 if Closed
	last  placement.Epoch   // if Forwarding, the last epoch under which this node was its home
	home  transport.Address // the home under epoch
	peer  transport.Address // the other end of a move
	moveE placement.Epoch   // the move's epoch

	// Where to forward calls and flushes that come after the shard has left. A shard that has moved
	// away is settled when no calls of known senders are expected here any more. From then on late
	// direct calls are answered with Moved, even while the shard comes back: an older call that was
	// refused may not have come here again. Its departures stay, because late flushes, and calls
	// that older homes forward, still take the route of the calls before them.
	departures departures
	shown      placement.Epoch // the highest epoch that a table named
	settled    bool            // Forwarding, and no calls of known senders are expected here
	over       placement.Epoch // the epoch of the latest departure after which the shard was settled
	owed       owed            // the senders that owe a Flush

	// Entities and their turns.
	entities index
	spare    []*entityCold // empty parts of entities, for reuse
	running  int           // turns under way, counted while Draining
	orphans  []*Entity     // the entities whose turns are under way although the shard was lost

	// Calls that wait for the shard and for its barriers.
	waiting   queue
	bytes     int // reserved by the calls that wait, also for turns
	barriers  barriers
	barred    atomic.Bool // set: no turn begins without the lock; see Entity.Enter
	direct    bool        // see Direct
	reopening int         // nested calls of reopen that are under way

	// A move to another home, and its stop hooks.
	pending     *move           // waits for the barriers
	offered     *move           // the shard is on offer and still runs turns (Handoff.Serving)
	granted     bool            // the new home is ready: no Init follows when the turns have ended
	off         placement.Epoch // moves up to this epoch are cancelled
	stops       bool            // the driver is between Stop and Stopped: no call begins a turn
	stopE       placement.Epoch // the epoch of the move for which Stop was called
	stopping    []*Entity       // the entities in the turns of which the stop hooks run
	passivating *Entity         // the entity in stopping whose hook the driver runs; nil means none yet
}

// New returns a shard that is Closed at this node, self.
func New(id placement.ShardID, self transport.Address, l Limits) *Shard {
	s := &Shard{id: id, self: self, limits: l}
	s.rebar()
	return s
}

func (s *Shard) become(to State) {
	if !slices.Contains(legal[s.state], to) {
		invariant.Failf("shard %v: a shard that is %v must not become %v", s.id, s.state, to)
	}
	s.state, s.settled, s.owed = to, false, nil
}

// ID returns the shard's type and number.
func (s *Shard) ID() placement.ShardID { return s.id }

// State returns the stage of the shard at this node.
func (s *Shard) State() State { return s.state }

// Epoch returns the epoch of the latest placement that this node knows.
func (s *Shard) Epoch() placement.Epoch { return s.epoch }

// Home returns the home in the latest placement that this node knows; zero means none.
func (s *Shard) Home() transport.Address { return s.home }

// Peer returns the other node of the latest move.
func (s *Shard) Peer() transport.Address { return s.peer }

// MoveEpoch returns the epoch of the latest move, which the new home gets.
func (s *Shard) MoveEpoch() placement.Epoch { return s.moveE }

// LastEpoch returns the last epoch under which this node was the home of a shard that is now
// Forwarding.
func (s *Shard) LastEpoch() placement.Epoch { return s.last }

// begins returns the first epoch of this node's present or last tenure or, while the shard
// arrives, of its next.
func (s *Shard) begins() placement.Epoch {
	if s.state == Preparing || s.state == Prepared {
		return s.moveE
	}
	return s.since
}

func (s *Shard) leaves() bool { return s.state == Draining || s.state == Sent }

func (s *Shard) check() {
	if invariant.Enabled {
		if err := s.Check(); err != nil {
			invariant.Failf("%v", err)
		}
	}
}

// Check returns the first broken invariant, or nil.
func (s *Shard) Check() error {
	running, alive := 0, 0
	for e := range s.entities.all() {
		w := e.word.Load()
		has := w & flags
		if of, idle := has&told != 0, has&busy == 0; of && (idle || tells(w) == 0) || idle && uint32(w)>>noteAt != 0 {
			return fmt.Errorf("shard %v: invariant 15: entity %q has flags %b, which contradict its count of tells or its note: %d", s.id, e.ID, has, uint32(w)>>noteAt)
		}
		if has&live != 0 {
			alive++
		}
		if has&live != 0 && !e.listed() {
			return fmt.Errorf("shard %v: invariant 11: entity %q is live but not in the list of active entities", s.id, e.ID)
		}
		if has&busy != 0 {
			running++
		}
		if e.mailbox().len() > 0 && has&(busy|wanted) != busy|wanted {
			return fmt.Errorf("shard %v: invariant 3: entity %q has flags %b although %d calls wait for it", s.id, e.ID, has, e.mailbox().len())
		}
		if e.Turn() != nil && has&(busy|wanted) != busy|wanted {
			return fmt.Errorf("shard %v: invariant 16: entity %q has flags %b although its turn has a call", s.id, e.ID, has)
		}
		if s.state != Open && has&(busy|live) != 0 && has&wanted == 0 {
			return fmt.Errorf("shard %v: invariant 9: entity %q has flags %b although the shard is %v", s.id, e.ID, has, s.state)
		}
		if s.state != Open && has&busy == 0 && (has&live != 0) != (e.Value != nil) {
			return fmt.Errorf("shard %v: invariant 9: entity %q has value %v, which contradicts flag live: its flags are %b", s.id, e.ID, e.Value, has)
		}
	}
	if alive != s.Live() {
		return fmt.Errorf("shard %v: invariant 11: %d entities are live, but the count is %d", s.id, alive, s.Live())
	}
	if !s.barred.Load() && (len(s.barriers.closed) > 0 || !s.direct) {
		return fmt.Errorf("shard %v: invariant 10: barred is not set, but %d barriers are closed or, if none is, calls are not direct", s.id, len(s.barriers.closed))
	}
	if forwarding := len(s.departures) > 0; s.state == Forwarding && !forwarding || s.state == Closed && forwarding {
		return fmt.Errorf("shard %v: invariant 5: the state is %v with departures %v", s.id, s.state, s.departures)
	}
	if ran := s.state == Open || s.state == Forwarding || s.leaves(); ran && (s.since == 0 || s.since > s.epoch) {
		return fmt.Errorf("shard %v: invariant 6: the state is %v since epoch %v, but the epoch is %v", s.id, s.state, s.since, s.epoch)
	}
	if s.state == Sent && s.active() {
		return fmt.Errorf("shard %v: invariant 7: the state is sent, but an entity is active", s.id)
	}
	if running > 0 && s.state != Open && s.state != Draining {
		return fmt.Errorf("shard %v: invariant 1: %d turns are under way while the state is %v", s.id, running, s.state)
	}
	if s.state == Open || s.state == Forwarding && !s.strays() || s.state == Closed {
		for c := range s.waiting.all() {
			if c.Epoch <= s.epoch {
				return fmt.Errorf("shard %v: invariant 4: the state is %v, but a call for %q of epoch %v waits", s.id, s.state, c.Entity, c.Epoch)
			}
		}
	}
	if err := s.checkSettled(); err != nil {
		return err
	}
	if err := s.checkRoom(); err != nil {
		return err
	}
	if n := s.entities.n; n > 0 && (s.state == Closed || s.state == Forwarding) {
		return fmt.Errorf("shard %v: invariant 14: the state is %v, but there are %d entities", s.id, s.state, n)
	}
	if s.offered != nil && (s.state != Open || !s.limits.Handoff.Serving) {
		return fmt.Errorf("shard %v: invariant 8: the state is %v, but the shard is on offer", s.id, s.state)
	}
	if s.state == Draining && running != s.running {
		return fmt.Errorf("shard %v: invariant 2: %d entities are busy, but the count is %d", s.id, running, s.running)
	}
	return nil
}

func (s *Shard) checkSettled() error {
	if away := s.state == Forwarding; s.settled && !away || len(s.owed) > 0 && (!away || s.settled) {
		return fmt.Errorf("shard %v: invariant 13: the state is %v and settled is %v, but %d senders owe a Flush", s.id, s.state, s.settled, len(s.owed))
	}
	return nil
}

func (s *Shard) checkRoom() error {
	sum, lost := 0, false
	count := func(q *queue) *Call {
		for c := range q.all() {
			sum += c.Size
			lost = lost || !c.held
		}
		return nil
	}
	for e := range s.entities.all() {
		count(e.mailbox())
	}
	count(&s.waiting)
	s.barriers.find(count)
	if s.reopening > 0 {
		return nil // calls that barriers held are on their way
	}
	if sum != s.bytes || lost {
		return fmt.Errorf("shard %v: invariant 12: calls of %d bytes wait, but %d bytes are reserved", s.id, sum, s.bytes)
	}
	return nil
}
