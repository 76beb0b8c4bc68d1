package region

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// delivery brings calls to where they run or wait. It owns the calls that wait for the shard
// and for its barriers.
type delivery struct {
	barred atomic.Bool // no turn begins outside the lock; read by Entity.Enter
	direct bool        // see Shard.Direct

	turns
	standing

	waiting  queue
	barriers barriers
	// reopening is how many calls of reopen are under way, one within the other.
	reopening int
	stops     bool // the driver is between Stop and Stopped: no call begins a turn (see stopping)
}

// Waiting is the number of calls that wait for the shard to open.
func (s *delivery) Waiting() int { return s.waiting.len() + s.barriers.held() }

// Begin begins a turn of the entity for a local caller if nothing stands in its way: the
// shard is open, no barrier is closed, the entity idle. It is called after Enter has
// refused; when it returns nil the caller makes a Call and delivers it.
func (s *delivery) Begin(id string, now uint32) *Entity {
	if len(s.barriers.closed) > 0 {
		return nil
	}
	return s.Take(id, now)
}

// Take begins a turn of the driver's own if the shard is open and the entity
// idle, else it returns nil. Barriers do not hold it back, for it is nobody's call.
func (s *delivery) Take(id string, now uint32) *Entity {
	if s.state != Open {
		return nil
	}
	if e := s.entity(id); e.take(now) {
		return e
	}
	return nil
}

// lead begins the first turn of the entity that leads, unless it is alive.
func (s *delivery) lead(now uint32) *Entity {
	id := s.limits.Lead
	if id == "" || s.Lives(id) {
		return nil
	}
	return s.Take(id, now)
}

// takeIn is [Shard.Deliver].
func (s *delivery) takeIn(c *Call, now uint32, at time.Time) (*Entity, Verdict) {
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

// beginTerm is [Shard.BeginTerm].
func (s *delivery) beginTerm(term uint32, now uint32) (fx Effects) {
	s.term = max(s.term, term)
	if s.waiting.lower(s.epoch, s.past) {
		fx = s.redeliverAll(now)
	}
	return fx
}

// admit decides about a call that comes for the first time, perhaps under an old epoch. It
// returns Run if the call may go on.
func (s *delivery) admit(c *Call) Verdict {
	direct := c.Via.IsZero()
	d, went := s.departures.beyond(c.Epoch)
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
func (s *delivery) bring(c *Call, now uint32) (*Entity, Verdict) {
	if len(s.barriers.closed) > 0 {
		if t := s.barriers.before(c); t != nil {
			return nil, s.wait(&t.held, c)
		}
	}
	if s.ahead(c) {
		return nil, s.hold(c)
	}
	if d, went := s.departures.beyond(c.Epoch); went && !c.Local && !d.to.IsZero() {
		return nil, s.onward(c)
	}
	switch s.state {
	case Open:
		return s.begin(c, now)
	case Draining:
		if !s.stops && c.Chain != nil && c.Chain.HoldsShard(s.id) {
			return s.begin(c, now) // else the turn that waits for it would never end
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

func (s *delivery) hold(c *Call) Verdict { return s.wait(&s.waiting, c) }

// Cancel removes a waiting call and reports whether it still waited.
func (s *delivery) Cancel(c *Call) bool {
	is := func(o *Call) bool { return o == c }
	if e := s.entities.get(c.Entity); e != nil && len(s.sift(e.mailbox(), is)) > 0 {
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
func (s *delivery) Find(entity string, match func(*Call) bool) (c *Call, running bool) {
	look := func(q *queue) *Call {
		for c := range q.all() {
			if c.Entity == entity && match(c) {
				return c
			}
		}
		return nil
	}
	if e := s.entities.get(entity); e != nil {
		if turn := e.Turn(); turn != nil && match(turn) {
			return turn, true
		}
		if c := look(e.mailbox()); c != nil {
			return c, false
		}
	}
	if c := look(&s.waiting); c != nil {
		return c, false
	}
	return s.barriers.find(look), false
}

// Expire removes and returns the calls that wait for the shard since before t. Calls of a shard that is
// about to move away wait for the end of that step, whenever they came: their senders' younger calls
// wait behind them.
func (s *delivery) Expire(t time.Time) []*Call {
	if s.leaves() {
		return nil
	}
	old := func(c *Call) bool { return c.at.Before(t) }
	return s.sift(&s.waiting, old)
}

// redeliverAll delivers the waiting calls once more, in order.
func (s *delivery) redeliverAll(now uint32) Effects {
	var waiting queue
	waiting.take(&s.waiting)
	return s.redeliver(&waiting, now)
}

// redeliver brings calls that were taken in before to the shard once more. Their
// senders do not have them any more, so they are not refused for being late.
func (s *delivery) redeliver(q *queue, now uint32) (fx Effects) {
	for c := q.pop(); c != nil; c = q.pop() {
		var e *Entity
		var v Verdict
		if s.state == Closed && !s.ahead(c) {
			v = Moved
		} else {
			e, v = s.bring(c, now)
		}
		if v != Queued {
			s.release(c)
		}
		switch v {
		case Run:
			fx.Start = append(fx.Start, Start{e, c})
		case Forward:
			fx.Forward = append(fx.Forward, c)
		case Moved:
			fx.Refuse = append(fx.Refuse, c)
		case Overloaded, Circular, Shed:
			fx.Drop = append(fx.Drop, c)
		}
	}
	return fx
}

// takeBack is [Shard.Return].
func (s *delivery) takeBack(c *Call, died bool, now uint32, at time.Time) Effects {
	c.at = at
	if died && !c.SentTo(s.self) && !s.how.Unordered {
		return Effects{Refuse: []*Call{c}}
	}
	var q queue
	q.push(c)
	fx := s.redeliver(&q, now)
	if c.SentTo(s.self) && len(fx.Forward)+len(fx.Refuse)+len(fx.Drop) == 0 { // it waits or runs here
		if s.barriers.returned == nil {
			s.barriers.returned = map[transport.Address]bool{}
		}
		s.barriers.returned[c.Sender.Address] = true
	}
	return fx
}

// giveUp is [Shard.Dismiss].
func (s *delivery) giveUp() Effects {
	for _, t := range s.barriers.closed {
		s.waiting.take(&t.held)
	}
	s.barriers.closed = nil
	s.rebar()
	return Effects{Refuse: s.sift(&s.waiting, func(*Call) bool { return true })}
}

// refuseOld refuses the waiting calls that no newer table can help.
func (s *delivery) refuseOld() Effects {
	return Effects{Refuse: s.sift(&s.waiting, func(c *Call) bool { return c.Epoch <= s.epoch })}
}

// late reports whether a call comes by way of an old home although its sender is
// past that, under the same tenure.
func (s *delivery) late(c *Call) bool {
	if c.Via.IsZero() {
		return false
	}
	if s.barriers.returned[c.Sender.Address] || slices.Contains(s.barriers.refused, Detour{c.Sender.Address, c.Via}) {
		return true
	}
	direct, ok := s.barriers.direct[c.Sender.Address]
	if !ok || s.barriers.holds(c.Sender.Address, direct) {
		return false
	}
	way, went := s.departures.beyond(c.Epoch)
	its, left := s.departures.beyond(direct)
	if !left && direct < s.begins() {
		return false // it was direct under a tenure of which nothing is known any more
	}
	return went == left && way == its
}

// goDirect is [Shard.GoDirect].
func (s *delivery) goDirect(sender transport.Address, epoch placement.Epoch, now uint32) (fx Effects) {
	if s.how.Unordered || s.barriers.holds(sender, epoch) {
		return fx // its older calls are welcome, too
	}
	if s.barriers.direct == nil {
		s.barriers.direct = map[transport.Address]placement.Epoch{}
	}
	s.barriers.direct[sender] = max(s.barriers.direct[sender], epoch)
	if s.state == Closed && epoch <= s.epoch {
		return fx // its direct calls do not run here either
	}
	older := func(c *Call) bool { return c.Sender.Address == sender && !c.Via.IsZero() }
	if s.waiting.lower(max(epoch, s.epoch), older) {
		fx = s.redeliverAll(now)
	}
	return fx
}

// rebar sets whether Enter may begin turns outside the lock: not before the calls that
// barriers held.
func (s *delivery) rebar() {
	s.barred.Store(!s.direct || len(s.barriers.closed) > 0 || s.reopening > 0)
}

// setDirect is [Shard.Direct].
func (s *delivery) setDirect(on bool) {
	s.direct = on
	s.rebar()
}

// HasBarriers reports whether any barrier is closed, so that OpenBarriers must be called again.
func (s *delivery) HasBarriers() bool { return len(s.barriers.closed) > 0 }

// Barriers is the number of closed barriers.
func (s *delivery) Barriers() int { return len(s.barriers.closed) }

// Overdue are the barriers that have waited for BarrierTimeout.
func (s *delivery) Overdue(at time.Time) (barriers []Shut) {
	for _, t := range s.barriers.closed {
		if at.Sub(t.since) >= BarrierTimeout {
			barriers = append(barriers, Shut{t.sender, t.via, t.epoch, t.held.len()})
		}
	}
	return barriers
}

// RefusedDetours returns the detours whose barriers of this shard timed out. They belong
// in Open, and stay the shard's own.
func (s *delivery) RefusedDetours() []Detour { return s.barriers.refused }

// RefuseDetours adds those that came with Open. Calls sent through this node have
// arrived, or will never be forwarded.
func (s *delivery) RefuseDetours(ways []Detour) {
	for _, w := range ways {
		if w.Via != s.self && !s.how.Unordered {
			s.barriers.refuse(w)
		}
	}
}

// holdsBack reports whether a barrier of this tenure is closed: its calls would have
// to pass through two homes if the shard moved now. Barriers of an earlier tenure only
// hold back calls that follow the shard.
func (s *delivery) holdsBack() bool {
	return slices.ContainsFunc(s.barriers.closed, func(t *barrier) bool { return t.epoch >= s.begins() })
}

// settle is [Shard.Settle].
func (s *delivery) settle(at time.Time) {
	if !s.Unsettled() || s.Waiting() > 0 {
		return
	}
	if s.standing.settle(at); s.settled {
		s.barriers.returned = nil
	}
}

// End ends the entity's turn. next is the call whose turn begins now, if one
// waited: the driver runs it. drained reports whether the shard was waiting for this
// turn to end and the driver must go on with the move.
func (s *delivery) End(e *Entity, now uint32) (next *Call, drained bool) {
	orphaned := e.has(orphan)
	next = s.end(e, now, s.state)
	return next, next == nil && !orphaned && s.state == Draining && s.running == 0
}

// Idle begins a turn, for passivation, of each active entity that was last used
// before t by the driver's coarse clock, at most limit of them, longest unused
// first. The driver passivates them and calls End.
func (s *delivery) Idle(t uint32, limit int) []*Entity {
	if s.state != Open {
		return nil
	}
	return s.idle(t, limit)
}

// BeginPassivation begins a turn, for passivation, of an entity that Survey has shown, and reports
// whether it did: the shard is open, and the entity is still active, has no turn and was
// last used before t. The driver passivates it and calls End.
func (s *delivery) BeginPassivation(e *Entity, t uint32) bool {
	return s.state == Open && e.takeIdle(t)
}

// checkRoom is invariant 12.
func (s *delivery) checkRoom() error {
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
		return fmt.Errorf("shard %v: invariant 12: calls of %d bytes wait, %d are reserved", s.id, sum, s.bytes)
	}
	return nil
}
