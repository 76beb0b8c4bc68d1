package region

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/invariant"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// State is where a shard stands at this node.
type State uint8

// The states of a shard at one node.
const (
	Closed     State = iota // not here
	Preparing               // its state arrives from the old home
	Prepared                // all state is here, waiting for Open
	Open                    // here: turns run
	Draining                // moving away: running turns end, no new ones begin
	Sent                    // moving away: the state is on its way
	Forwarding              // moved away: calls that still arrive are sent on
)

// String names the state.
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

// legal is the table of legal moves between states.
var legal = map[State][]State{
	Closed:     {Preparing, Open},
	Preparing:  {Prepared, Open, Closed, Forwarding},
	Prepared:   {Open, Closed, Preparing, Forwarding},
	Open:       {Draining, Closed, Open},
	Draining:   {Sent, Open, Closed, Forwarding},
	Sent:       {Forwarding, Open, Closed},
	Forwarding: {Open, Preparing, Closed},
}

// Limits bound the calls that wait in one shard.
type Limits struct {
	Mailbox int // calls that wait for one entity
	Waiting int // calls that wait for the shard to open, or at one barrier
	// MailboxBytes and ShardBytes bound the sizes of the calls that wait for one entity,
	// and of all that wait in the shard; 0: no bound.
	MailboxBytes, ShardBytes int
	// Budget bounds the sizes of all that waits in the shards that share it.
	Budget *Budget
	// Lead is the entity whose first turn after the shard has opened is the
	// driver's own, so that it is brought to life before any call; empty: none.
	Lead string
	// Handoff is how the shard moves.
	Handoff Handoff
}

// A Shard is one shard at one node. It is not safe for concurrent use, but for Look.
//
// Invariants:
//  1. A turn is under way only in Open and Draining.
//  2. While the shard is Draining, running is the number of busy entities.
//  3. A mailbox is empty unless its entity is busy and wanted.
//  4. While the shard is Open, Forwarding or Closed, only calls of a newer epoch
//     than its own wait in its queue; unless it was forwarded to a departed home.
//  5. A Forwarding shard remembers where it went, a Closed one does not.
//  6. A shard that runs or ran here was owned since an epoch of at most its own.
//  7. In a shard that is Sent no entity is active: each is encoded, or forgotten.
//  8. Only an Open shard is on offer, and only where the old home serves on.
//  9. Unless the shard is Open, every entity that is busy or live is wanted, and
//     an idle one is live if and only if it has a Value.
//  10. barred is set while a barrier is closed, or calls are not direct.
//  11. Every live entity is in the list of active ones, and they are counted.
//  12. Each call that waits has reserved its size, and nothing else has.
//  13. Senders have yet to flush only while the shard is Forwarding and not settled,
//     and only a Forwarding shard is settled.
//  14. A shard that is Closed or Forwarding has no entity.
type Shard struct {
	entities index
	barred   atomic.Bool   // no turn begins outside the lock: see Entity.Enter
	opened   atomic.Uint64 // the epoch under which the shard opened last, and waiting calls were delivered
	direct   bool          // see Direct
	// Driver is the driver's own. It is set once, before anything else.
	Driver any

	id     placement.ShardID
	self   transport.Address
	limits Limits

	state      State
	epoch      placement.Epoch   // of the latest placement known here
	term       uint32            // of the latest table known here
	since      placement.Epoch   // from which epoch on this node owned it without a break; 0: Closed
	last       placement.Epoch   // Forwarding: under which this node owned it
	owner      transport.Address // under epoch
	peer       transport.Address // the other end of a move
	moveE      placement.Epoch   // the move's epoch
	off        placement.Epoch   // moves up to this epoch are cancelled
	forwarding forwarding        // where the shard went from here

	shown   placement.Epoch // the highest that a table named
	settled bool            // Forwarding: no sender is known whose calls still come here
	over    placement.Epoch // of the latest departure after which the shard was settled
	owed    owed            // senders that have yet to flush

	running  int             // turns under way, counted while Draining
	stops    bool            // the driver is between Stop and Stopped
	stopE    placement.Epoch // of the move that Stop was for
	stopping []*Entity       // in whose turns the stop hooks run, or will, or did
	resting  *Entity         // the one of stopping that the driver is at; nil: none yet
	waiting  queue
	barriers barriers
	bytes    int // reserved by the calls that wait
	// reopening is how many calls of reopen are under way, one within the other.
	reopening int
	pending   *move // a move that waits for the barriers

	how     Handoff
	offered *move // under way while the shard goes on (Handoff.Serving)
	granted bool  // the other end is ready: no Init follows when the turns have ended
}

type move struct {
	to    transport.Address
	epoch placement.Epoch
}

// New returns the shard, Closed.
func New(id placement.ShardID, self transport.Address, l Limits) *Shard {
	s := &Shard{id: id, self: self, limits: l, how: l.Handoff}
	s.rebar()
	return s
}

// ID is the shard's kind and number.
func (s *Shard) ID() placement.ShardID { return s.id }

// State is where the shard stands.
func (s *Shard) State() State { return s.state }

// Epoch and Owner are the latest placement that this node knows.
func (s *Shard) Epoch() placement.Epoch { return s.epoch }

// Owner is zero when nobody is known to own the shard.
func (s *Shard) Owner() transport.Address { return s.owner }

// Peer and MoveEpoch are the other end and the epoch of the latest move.
func (s *Shard) Peer() transport.Address { return s.peer }

// MoveEpoch is the epoch that the latest move leads to.
func (s *Shard) MoveEpoch() placement.Epoch { return s.moveE }

// LastEpoch is the one under which a Forwarding shard was owned here.
func (s *Shard) LastEpoch() placement.Epoch { return s.last }

// Entities is the number of entities, active or passivated.
func (s *Shard) Entities() int { return s.entities.n }

// Restable reports whether an entity may keep its turn for longer than it runs: not
// while the shard waits for its turns to end.
func (s *Shard) Restable() bool { return s.state == Open && s.pending == nil }

// Waiting is the number of calls that wait for the shard to open.
func (s *Shard) Waiting() int { return s.waiting.len() + s.barriers.held() }

// begins is from which epoch on the shard is or was owned here; while it
// arrives, from which on it will be.
func (s *Shard) begins() placement.Epoch {
	if s.state == Preparing || s.state == Prepared {
		return s.moveE
	}
	return s.since
}

// leaves reports whether the shard is about to move away.
func (s *Shard) leaves() bool { return s.state == Draining || s.state == Sent }

func (s *Shard) become(to State) {
	for _, ok := range legal[s.state] {
		if ok == to {
			s.state, s.settled, s.owed = to, false, nil
			return
		}
	}
	invariant.Failf("shard %v: %v → %v", s.id, s.state, to)
}

// Begin begins a turn of the entity for a local caller if nothing stands in its way: the
// shard is open, no barrier is closed, the entity idle. It is called after Enter has
// refused; when it returns nil the caller makes a Call and delivers it.
func (s *Shard) Begin(id string, now uint32) *Entity {
	if len(s.barriers.closed) > 0 {
		return nil
	}
	return s.Take(id, now)
}

// Take begins a turn of the driver's own if the shard is open and the entity
// idle, else it returns nil. Barriers do not hold it back, for it is nobody's call.
func (s *Shard) Take(id string, now uint32) *Entity {
	if s.state != Open {
		return nil
	}
	if e := s.entity(id); e.take(now) {
		return e
	}
	return nil
}

// lead begins the first turn of the entity that leads, unless it is alive.
func (s *Shard) lead(now uint32) *Entity {
	id := s.limits.Lead
	if id == "" || s.Lives(id) {
		return nil
	}
	return s.Take(id, now)
}

// entity is the one with that id, which is made if there is none.
func (s *Shard) entity(id string) *Entity {
	e := s.entities.get(id)
	if e == nil {
		e = newEntity(s, string(append([]byte(nil), id...))) // id may be a slice of a larger buffer
		s.entities.put(e)
	}
	return e
}

// Deliver brings a call to the shard. now is the driver's coarse clock, at the
// time by which waiting is bounded.
func (s *Shard) Deliver(c *Call, now uint32, at time.Time) (*Entity, Verdict) {
	defer s.check()
	c.at = at
	if c.Epoch > s.epoch && s.past(c) {
		c.Epoch = s.epoch
	}
	if s.late(c) {
		return nil, Moved
	}
	if v := s.admit(c); v != Run {
		return nil, v
	}
	return s.bring(c, now)
}

// ahead reports whether a call knows of a newer placement: the table that says so
// is on its way.
func (s *Shard) ahead(c *Call) bool {
	return c.Epoch > s.epoch && s.state != Preparing && s.state != Prepared
}

// past reports whether a call names a placement that no table will show, because another
// term has begun, while the shard is open here.
func (s *Shard) past(c *Call) bool { return s.state == Open && c.Epoch.Term() < s.term }

// BeginTerm takes the number of the term of the table that shows the shard's placement,
// after Place. If the shard stayed open here, calls that wait for the table of a higher
// epoch run: that table was lost with its coordinator.
func (s *Shard) BeginTerm(term uint32, now uint32) (fx Effects) {
	defer s.check()
	s.term = max(s.term, term)
	if s.waiting.lower(s.epoch, s.past) {
		fx = s.redeliverAll(now)
	}
	return fx
}

// admit is about calls that come for the first time, and under an old epoch: Run
// when the call may go on.
func (s *Shard) admit(c *Call) Verdict {
	direct := c.Via.IsZero()
	d, went := s.forwarding.beyond(c.Epoch)
	switch {
	case s.ahead(c):
		return Run
	case s.state == Closed, direct && s.Settled():
		return Moved
	case direct && !c.Local && went && d.epoch <= s.over: // an older one may have been refused
		return Moved
	case c.Local:
		return Run
	case direct && c.Epoch < s.since, direct && !went && c.Epoch < s.begins() && c.Epoch <= s.epoch:
		return Moved
	}
	return Run
}

// bring takes a call to where it runs or waits.
func (s *Shard) bring(c *Call, now uint32) (*Entity, Verdict) {
	if t := s.barriers.before(c); t != nil {
		return nil, s.wait(&t.held, c)
	}
	if s.ahead(c) {
		return nil, s.hold(c)
	}
	if d, went := s.forwarding.beyond(c.Epoch); went && !c.Local && !d.to.IsZero() {
		return nil, s.onward(c)
	}
	switch s.state {
	case Open:
		return s.deliver(c, now)
	case Draining:
		if !s.stops && c.Chain != nil && c.Chain.HoldsShard(s.id) {
			return s.deliver(c, now) // else the turn that waits for it would never end
		}
		if s.how.DropCalls {
			return nil, Shed
		}
	case Sent:
		if s.how.DropCalls {
			return nil, Shed
		}
	case Forwarding:
		if !s.strays() {
			return nil, s.onward(c)
		}
	}
	return nil, s.hold(c)
}

func (s *Shard) hold(c *Call) Verdict { return s.wait(&s.waiting, c) }

func (s *Shard) deliver(c *Call, now uint32) (*Entity, Verdict) {
	e := s.entity(c.Entity)
	if !e.take(now) {
		if c.Chain != nil && c.Chain.HoldsEntity(s.id, c.Entity) {
			return nil, Circular
		}
		return nil, s.post(e, c)
	}
	e.turn = c
	s.running++
	return e, Run
}

// Kept is for a driver that goes on with the entity's turn when the call is over
// that it was for: nobody finds that call any more.
func (s *Shard) Kept(e *Entity) { e.turn = nil }

// End ends the entity's turn. next is the call whose turn begins now, if one
// waited: the driver runs it. drained tells that the shard was waiting for this
// turn to end and the driver must go on with the move.
func (s *Shard) End(e *Entity, now uint32) (next *Call, drained bool) {
	if e.has(orphan) {
		e.turn, e.Value, e.State = nil, nil, nil
		e.rest(0, now)
		return nil, false
	}
	if e.mailbox.head != nil && (s.state == Open || s.state == Draining) {
		e.turn = e.mailbox.pop()
		s.release(e.turn)
		return e.turn, false
	}
	e.turn = nil
	s.running--
	was, is := e.has(live), e.Value != nil
	e.rest(s.idleFlags(e), now)
	s.entities.actives.ended(e, was, is)
	if !is && e.State == nil {
		s.entities.remove(e) // not activated after all, or forgotten
	}
	return nil, s.state == Draining && s.running == 0
}

// idleFlags are those of an entity whose turn ends.
func (s *Shard) idleFlags(e *Entity) (f uint64) {
	if e.Value != nil {
		f = live
	}
	if s.state != Open {
		f |= wanted
	}
	return f
}

// Cancel removes a waiting call and reports whether it still waited.
func (s *Shard) Cancel(c *Call) bool {
	is := func(o *Call) bool { return o == c }
	if e := s.entities.get(c.Entity); e != nil && len(s.sift(&e.mailbox, is)) > 0 {
		return true
	}
	for _, t := range s.barriers.closed {
		if len(s.sift(&t.held, is)) > 0 {
			return true
		}
	}
	return len(s.sift(&s.waiting, is)) > 0
}

// Find returns the first call for the entity for which match is true, and
// whether its turn is under way; nil if there is none.
func (s *Shard) Find(entity string, match func(*Call) bool) (c *Call, running bool) {
	look := func(q *queue) *Call {
		for c := q.head; c != nil; c = c.next {
			if c.Entity == entity && match(c) {
				return c
			}
		}
		return nil
	}
	if e := s.entities.get(entity); e != nil {
		if e.turn != nil && match(e.turn) {
			return e.turn, true
		}
		if c := look(&e.mailbox); c != nil {
			return c, false
		}
	}
	if c := look(&s.waiting); c != nil {
		return c, false
	}
	return s.barriers.find(look), false
}

// Expire removes and returns the calls that wait for the shard since before t.
func (s *Shard) Expire(t time.Time) []*Call {
	old := func(c *Call) bool { return c.at.Before(t) }
	return s.sift(&s.waiting, old)
}

func (s *Shard) check() {
	if invariant.Enabled {
		if err := s.Check(); err != nil {
			invariant.Failf("%v", err)
		}
	}
}

// Check returns the first broken invariant.
func (s *Shard) Check() error {
	running, alive := 0, 0
	for e := range s.entities.all() {
		has := e.word.Load() & flags
		if has&live != 0 {
			alive++
		}
		if has&live != 0 && !e.listed() {
			return fmt.Errorf("shard %v: invariant 11: %q is live and not in the list", s.id, e.ID)
		}
		if has&busy != 0 {
			running++
		}
		if e.mailbox.n > 0 && has&(busy|wanted) != busy|wanted {
			return fmt.Errorf("shard %v: invariant 3: %q has flags %b and %d calls wait for it", s.id, e.ID, has, e.mailbox.n)
		}
		if s.state != Open && has&(busy|live) != 0 && has&wanted == 0 {
			return fmt.Errorf("shard %v: invariant 9: %q has flags %b in a shard that is %v", s.id, e.ID, has, s.state)
		}
		if s.state != Open && has&busy == 0 && (has&live != 0) != (e.Value != nil) {
			return fmt.Errorf("shard %v: invariant 9: %q has flags %b and its value is %v", s.id, e.ID, has, e.Value)
		}
	}
	if alive != s.Live() {
		return fmt.Errorf("shard %v: invariant 11: %d entities are live, counted %d", s.id, alive, s.Live())
	}
	if !s.barred.Load() && (len(s.barriers.closed) > 0 || !s.direct) {
		return fmt.Errorf("shard %v: invariant 10: it is not barred, with %d barriers", s.id, len(s.barriers.closed))
	}
	if forwarding := len(s.forwarding) > 0; s.state == Forwarding && !forwarding || s.state == Closed && forwarding {
		return fmt.Errorf("shard %v: invariant 5: %v, forwarding %v", s.id, s.state, s.forwarding)
	}
	if ran := s.state == Open || s.state == Forwarding || s.leaves(); ran && (s.since == 0 || s.since > s.epoch) {
		return fmt.Errorf("shard %v: invariant 6: %v since %v, now %v", s.id, s.state, s.since, s.epoch)
	}
	if s.state == Sent && s.active() {
		return fmt.Errorf("shard %v: invariant 7: sent, and an entity is active", s.id)
	}
	if running > 0 && s.state != Open && s.state != Draining {
		return fmt.Errorf("shard %v: invariant 1: %d turns while %v", s.id, running, s.state)
	}
	if s.state == Open || s.state == Forwarding && !s.strays() || s.state == Closed {
		for c := s.waiting.head; c != nil; c = c.next {
			if c.Epoch <= s.epoch {
				return fmt.Errorf("shard %v: invariant 4: %v and a call for %q of epoch %v waits", s.id, s.state, c.Entity, c.Epoch)
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
		return fmt.Errorf("shard %v: invariant 14: %v with %d entities", s.id, s.state, n)
	}
	if s.offered != nil && (s.state != Open || !s.how.Serving) {
		return fmt.Errorf("shard %v: invariant 8: %v and on offer", s.id, s.state)
	}
	if s.state == Draining && running != s.running {
		return fmt.Errorf("shard %v: invariant 2: %d busy, counted %d", s.id, running, s.running)
	}
	return nil
}

// passable reports whether a turn may begin outside the lock: of a local caller, or of one
// that knows of that epoch.
func (s *Shard) passable(epoch placement.Epoch) bool {
	return !s.barred.Load() && (epoch == 0 || s.opened.Load() == uint64(epoch))
}

// Look finds an entity without the shard's lock; nil: there is none, or the index changes
// just now. hash is [Hash] of id. It may be called at any time, from any goroutine, and
// its result may be kept for later calls.
func (s *Shard) Look(hash uint64, id string) *Entity { return s.entities.find(hash, id) }

// Peek is the entity that Look looks at first for an id with that hash; nil: there is
// none. It may be another id's: it is there to be read early, so that Look need not wait
// for memory. It may be called at any time, from any goroutine.
func (s *Shard) Peek(hash uint64) *Entity { return s.entities.peek(hash) }
