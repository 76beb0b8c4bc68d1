package region

import (
	"time"
)

// A Start is a turn that has begun for a call that waited.
type Start struct {
	Entity *Entity
	Call   *Call
}

// Effects are what the driver must do, in the order of the fields, before it releases the shard's
// lock. These actions only append to queues and wake goroutines.
type Effects struct {
	Lead    *Entity // a turn of the driver's own has begun: activate the entity
	Start   []Start // run these turns
	Forward []*Call // send these to Successor, in order; tell local callers to look again
	Flushed []Flush // then send each of these to its FlushTo
	Open    bool    // then send Open to Successor
	Refuse  []*Call // answer Moved with Home and Epoch
	Drop    []*Call // answer Dropped: they were accepted, but the shard was lost, or its move drops calls
	Offer   bool    // send Init without state
	Drained bool    // the last turn has ended: call Stop, run the hooks, encode, send Init
	Opened  bool    // the shard runs here under a new epoch: report it
}

// With returns the effects of both: those of more follow those of fx.
func (fx Effects) With(more Effects) Effects {
	fx.add(more)
	return fx
}

func (fx *Effects) add(more Effects) {
	if more.Lead != nil {
		fx.Lead = more.Lead
	}
	fx.Start = append(fx.Start, more.Start...)
	fx.Forward = append(fx.Forward, more.Forward...)
	fx.Flushed = append(fx.Flushed, more.Flushed...)
	fx.Refuse = append(fx.Refuse, more.Refuse...)
	fx.Drop = append(fx.Drop, more.Drop...)
	fx.Open = fx.Open || more.Open
	fx.Offer = fx.Offer || more.Offer
	fx.Drained = fx.Drained || more.Drained
	fx.Opened = fx.Opened || more.Opened
}

// Waiting returns the number of calls that wait for the shard to open, or at barriers.
func (s *Shard) Waiting() int { return s.waiting.len() + s.barriers.held() }

// Deliver passes a call to the shard. If the verdict is Run, Deliver also returns the call's
// entity. now is the driver's coarse clock; at is the time from which the call's waiting counts.
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

// BeginTerm records the term of the table that has the shard's placement. Call BeginTerm after
// Place. If the shard is still open here, a call of an earlier term no longer waits for its table,
// which was lost with the coordinator of that term.
func (s *Shard) BeginTerm(term uint32, now uint32) (fx Effects) {
	defer s.check()
	s.term = max(s.term, term)
	if s.waiting.lower(s.epoch, s.past) {
		fx = s.redeliverAll(now)
	}
	return fx
}

// admit decides about a call that arrives for the first time, perhaps under an old epoch. Run
// means accepted.
func (s *Shard) admit(c *Call) Verdict {
	direct := c.Via.IsZero()
	d, went := s.departures.beyond(c.Epoch)
	switch {
	case s.ahead(c):
		return Run
	case s.state == Closed, direct && s.Settled():
		return Moved
	case direct && !c.Local && went && d.epoch <= s.over: // an older call may have been refused
		return Moved
	case c.Local:
		return Run
	case direct && c.Epoch < s.since, direct && !went && c.Epoch < s.begins() && c.Epoch <= s.epoch:
		return Moved
	}
	return Run
}

func (s *Shard) bring(c *Call, now uint32) (*Entity, Verdict) {
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
			return s.begin(c, now) // otherwise the turn that waits for this call would never end
		}
		if s.limits.Handoff.DropCalls {
			return nil, Shed
		}
	case Sent:
		if s.limits.Handoff.DropCalls {
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

// Cancel removes a waiting call. It returns false if the call no longer waits.
func (s *Shard) Cancel(c *Call) bool {
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

// Find returns the first call for the entity that match accepts, or nil. running reports
// that the call's turn is under way.
func (s *Shard) Find(entity string, match func(*Call) bool) (c *Call, running bool) {
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

// Expire removes and returns the calls that have waited for the shard since before t. While the
// shard is Draining or Sent, Expire removes none, because younger calls of the same senders wait
// behind them and would run first.
func (s *Shard) Expire(t time.Time) []*Call {
	if s.leaves() {
		return nil
	}
	old := func(c *Call) bool { return c.at.Before(t) }
	return s.sift(&s.waiting, old)
}

func (s *Shard) redeliverAll(now uint32) Effects {
	var waiting queue
	waiting.take(&s.waiting)
	return s.redeliver(&waiting, now)
}

// redeliver delivers accepted calls again. They are never refused as late, because their senders
// have forgotten them.
func (s *Shard) redeliver(q *queue, now uint32) (fx Effects) {
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

// Dismiss refuses all calls that wait here, and drops the flushes behind barriers. The driver calls
// it when the node ends, and so can no longer learn the shard's home.
func (s *Shard) Dismiss() Effects {
	defer s.check()
	for _, t := range s.barriers.closed {
		s.waiting.take(&t.held)
	}
	s.barriers.closed = nil
	s.rebar()
	return Effects{Refuse: s.sift(&s.waiting, func(*Call) bool { return true })}
}

// refuseOld refuses the waiting calls that do not wait for a newer table than the one known here.
func (s *Shard) refuseOld() Effects {
	return Effects{Refuse: s.sift(&s.waiting, func(c *Call) bool { return c.Epoch <= s.epoch })}
}
