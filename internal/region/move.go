package region

import (
	"maps"
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// BeginMove starts moving the shard away, under the epoch that its new home will
// have. A repeated or late order changes nothing. While a barrier is closed the move
// waits, for the barrier's calls would have to pass through two homes.
func (s *Shard) BeginMove(to transport.Address, epoch placement.Epoch) Effects {
	defer s.check()
	if s.state != Open || epoch <= s.epoch || epoch <= s.off || s.offered != nil && epoch <= s.offered.epoch {
		return Effects{}
	}
	if s.holdsBack() {
		s.pending = &move{to, epoch}
		return Effects{}
	}
	if s.how.Serving {
		return s.offer(to, epoch)
	}
	s.peer, s.moveE, s.granted = to, epoch, false
	return s.drain()
}

// Ready takes the new home's answer: it has everything. Waiting calls are forwarded to
// it, Open follows them, and from now on it is the owner.
func (s *Shard) Ready(from transport.Address, epoch placement.Epoch) Effects {
	defer s.check()
	if s.peer != from || s.moveE != epoch || epoch <= s.off {
		return Effects{}
	}
	if s.Offering() {
		return s.accepted()
	}
	if s.state != Sent || s.granted {
		return Effects{}
	}
	fx := s.follow()
	fx.Open = true
	return fx
}

// follow makes the other end of the move the owner, and sends on the waiting calls.
func (s *Shard) follow() Effects {
	s.become(Forwarding)
	s.last = s.epoch
	s.owner, s.epoch = s.peer, s.moveE
	s.forwarding.add(s.peer, s.moveE)
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
		s.owed.repay(f, s.self)
	}
	return fx
}

// Prepare takes a part of the shard's state from its old home. It reports
// whether this was the last part, which the driver answers with Ready, and
// whether the part was refused because this node knows better.
func (s *Shard) Prepare(from transport.Address, epoch placement.Epoch, states map[string][]byte, last bool) (ready, refused bool) {
	defer s.check()
	switch {
	case epoch <= s.off:
		return false, true
	case (s.state == Closed || s.state == Forwarding || s.state == Prepared) && epoch > s.epoch && epoch > s.moveE,
		s.state == Preparing && epoch > s.moveE:
		if s.state != Preparing {
			s.become(Preparing)
		}
		s.peer, s.moveE = from, epoch
		s.entities.clear()
	case s.state == Preparing && epoch == s.moveE && s.peer == from:
	default:
		return false, true
	}
	for id, state := range states { //arch:order-free fills a map
		if e := s.entities.get(id); e != nil {
			e.State = append(e.State, state...) // it did not fit into one part
			continue
		}
		e := newEntity(s, id)
		e.State, e.Why = state, codegen.Moved
		s.entities.put(e)
	}
	if last {
		s.become(Prepared)
	}
	return last, false
}

// OpenAt takes the old home's Open: everything that waited there has come.
func (s *Shard) OpenAt(from transport.Address, epoch placement.Epoch, now uint32, at time.Time) Effects {
	if s.state != Prepared || s.peer != from || s.moveE != epoch {
		return Effects{}
	}
	return s.open(epoch, epoch, now)
}

// CancelMove takes the word, the coordinator's or this node's own, that the move
// to that epoch is off. It reports false when it is too late: the shard is open
// under that epoch here, or Open has gone out.
//
// The new home drops the prepared shard. The old home never sends Open for
// the epoch from then on, and runs nothing before the table says that it may.
// A node that never heard of the move refuses it from now on.
func (s *Shard) CancelMove(epoch placement.Epoch) (Effects, bool) {
	defer s.check()
	if (s.state == Open || s.state == Forwarding) && s.epoch >= epoch {
		return Effects{}, false
	}
	s.off = max(s.off, epoch)
	if s.pending != nil && s.pending.epoch <= epoch {
		s.pending = nil
	}
	if s.offered != nil && s.offered.epoch <= epoch {
		s.offered = nil
	}
	if (s.state == Preparing || s.state == Prepared) && s.moveE <= epoch {
		return s.unprepare(), true
	}
	return Effects{}, true
}

// unprepare drops the prepared shard. A node that had the shard before goes on
// forwarding.
func (s *Shard) unprepare() Effects {
	if len(s.forwarding) == 0 {
		return s.close()
	}
	s.become(Forwarding)
	s.entities.clear()
	last := s.forwarding.last()
	s.peer, s.moveE = last.to, last.epoch
	s.epoch = max(s.epoch, last.epoch)
	return s.redeliverAll(0)
}

// Place takes a placement from the table. To be named as owner under a new epoch is the
// order to open: with the state that was prepared, as before if the shard never left,
// else with nothing. Force takes an epoch lower than the known one, from a coordinator of
// a later term; but a shard that has left under a higher epoch does not come back under a
// lower one.
func (s *Shard) Place(owner transport.Address, epoch placement.Epoch, force bool, now uint32, at time.Time) Effects {
	defer s.check()
	s.shown = max(s.shown, epoch)
	if epoch == s.epoch && owner == s.owner || epoch < s.epoch && !force {
		return Effects{}
	}
	if owner == s.self {
		away := s.state == Forwarding || s.state == Preparing || s.state == Prepared
		if away && len(s.forwarding) > 0 && epoch < s.forwarding.last().epoch {
			return Effects{} // decided by this node's registration before the shard left
		}
		return s.placeHere(epoch, now)
	}
	if s.leaves() && owner == s.peer && epoch == s.moveE {
		fx := s.orphan() // it opened without this node's word
		fx.add(s.follow())
		return fx
	}
	s.epoch, s.owner = epoch, owner
	switch s.state {
	case Open, Draining, Sent:
		fx := s.orphan()
		fx.add(s.close())
		return fx
	case Preparing, Prepared:
		if epoch > s.moveE {
			return s.unprepare()
		}
		return Effects{}
	case Forwarding:
		if force {
			return s.close() // where it went is history that did not happen
		}
		if s.strays() {
			return s.findWay(now)
		}
		return s.redeliverAll(now)
	}
	return s.refuseOld()
}

func (s *Shard) placeHere(epoch placement.Epoch, now uint32) Effects {
	since := epoch
	switch s.state {
	case Open, Draining, Sent:
		since = s.since // it never left
	case Preparing, Prepared:
		since = s.moveE // nobody else ran it meanwhile
	case Closed, Forwarding:
		// It was lost. Calls that were sent on to its former home may come back from
		// there when this node learns that it is gone. So the departures stay, and a
		// sender's Flush takes the route of its older calls.
	}
	return s.open(epoch, min(since, epoch), now)
}

// open lets turns run, under a new epoch.
func (s *Shard) open(epoch, since placement.Epoch, now uint32) Effects {
	defer s.check()
	strayed := s.strayed()
	if s.since != since { // it was elsewhere meanwhile
		s.barriers.refused = nil
	}
	s.become(Open)
	s.epoch, s.since, s.owner = epoch, since, s.self
	s.pending, s.offered, s.granted = nil, nil, false
	s.forwarding.forget(transport.Address.IsZero)
	maps.DeleteFunc(s.barriers.direct, func(_ transport.Address, e placement.Epoch) bool { return e < since })
	fx := Effects{Opened: true}
	fx.add(s.unstop(now))
	fx.Lead, fx.Refuse = s.lead(now), strayed
	fx.add(s.redeliverAll(now))
	s.opened.Store(uint64(epoch)) // last, so that nothing overtakes the calls that waited for it
	return fx
}

// strayed removes the calls that waited until it was known where the shard had gone, when
// it comes back by a move. Others had the shard meanwhile. A call that its sender sent to
// this node may run, also if it was forwarded and came back: the sender's Flush by way of
// this node has not passed, so its younger calls wait at a barrier. Calls that came by way
// of another home are refused, because that home may be gone and younger calls may have run.
func (s *Shard) strayed() []*Call {
	if s.state != Prepared || len(s.forwarding) == 0 || !s.forwarding.last().to.IsZero() {
		return nil
	}
	left := s.forwarding.last().epoch
	return s.sift(&s.waiting, func(c *Call) bool { return !c.SentTo(s.self) && c.Epoch <= left })
}

// redeliverAll delivers the waiting calls once more, in order.
func (s *Shard) redeliverAll(now uint32) Effects {
	var waiting queue
	waiting.take(&s.waiting)
	return s.redeliver(&waiting, now)
}

// redeliver brings calls that were taken in before to the shard once more. Their
// senders do not have them any more, so they are not refused for being late.
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

// Return takes back a call that was forwarded to a departed home, which certainly has not
// handled it, under the epoch that it was forwarded with. died is false if that home left in
// order. A call that its sender sent to another home is refused if the next one died: the
// home between may be gone too, and then its sender's younger calls came there directly.
func (s *Shard) Return(c *Call, died bool, now uint32, at time.Time) Effects {
	defer s.check()
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

// Dismiss gives up all that waits here, for a node that ends: neither the shard nor
// word of its home will come any more.
func (s *Shard) Dismiss() Effects {
	defer s.check()
	for _, t := range s.barriers.closed {
		s.waiting.take(&t.held)
	}
	s.barriers.closed = nil
	s.rebar()
	return Effects{Refuse: s.sift(&s.waiting, func(*Call) bool { return true })}
}

// orphan gives up the turns under way, whose entities end with them, and the
// calls that wait for them.
func (s *Shard) orphan() (fx Effects) {
	for _, e := range s.entities.sorted() {
		if e.abandon() != busy {
			s.empty(e)
		}
		for c := e.mailbox.pop(); c != nil; c = e.mailbox.pop() {
			s.release(c)
			fx.Drop = append(fx.Drop, c)
		}
	}
	s.entities.clear()
	return fx
}

// dismiss drops the entities, which are encoded and live elsewhere now.
func (s *Shard) dismiss() {
	for e := range s.entities.all() {
		s.empty(e)
	}
	s.entities.clear()
}

// empty clears an entity that leaves the index: callers may keep it, but not its
// contents. While the driver encodes the shard's entities it owns their contents.
func (s *Shard) empty(e *Entity) {
	if !s.stops {
		e.Value, e.State = nil, nil
	}
}

func (s *Shard) close() Effects {
	if s.state != Closed {
		s.become(Closed)
	}
	s.entities.clear()
	s.since, s.pending = 0, nil
	s.offered, s.granted = nil, false
	s.forwarding = nil
	for _, t := range s.barriers.closed {
		s.waiting.take(&t.held)
	}
	fx := Effects{Flushed: s.barriers.take(func(f Flush) bool { return f.Epoch <= s.epoch })}
	s.barriers = barriers{flushed: s.barriers.flushed, direct: s.barriers.direct}
	s.rebar()
	fx.add(s.refuseOld())
	return fx
}

// refuseOld refuses the waiting calls that no newer table can help.
func (s *Shard) refuseOld() Effects {
	return Effects{Refuse: s.sift(&s.waiting, func(c *Call) bool { return c.Epoch <= s.epoch })}
}
