package region

import (
	"maps"
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// Prepare adds a part of the shard's state that the old home has sent. ready is true after the last
// part; the driver then answers with Ready. refused is true if this node does not accept the move.
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
			e.SetState(append(e.State(), state...), codegen.Moved) // it did not fit into one part
			continue
		}
		e := newEntity(s, id)
		e.SetState(state, codegen.Moved)
		s.entities.put(e)
	}
	if last {
		s.become(Prepared)
	}
	return last, false
}

// OpenAt opens the prepared shard when the old home's message Open arrives. The old home sends Open
// after all calls that waited there.
func (s *Shard) OpenAt(from transport.Address, epoch placement.Epoch, now uint32, at time.Time) Effects {
	defer s.check()
	if s.state != Prepared || s.peer != from || s.moveE != epoch {
		return Effects{}
	}
	return s.open(epoch, epoch, now)
}

// CancelMove gives up the move under the given epoch, by order of the coordinator or of this node.
// It returns false if that is no longer possible: the shard is open under that epoch here, or this
// node has sent Open.
//
// The new home drops the prepared shard. The old home no longer sends Open for the epoch. If the
// old home has begun to drain, it runs no turns until the table allows it. A node that has not
// heard of the move yet will refuse it.
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

// nobody reports whether the shard has no home, and the order of its calls need not be kept
// (Handoff.Unordered). The shard of an ended instance of a pool may never have a home again: its
// calls go back to their senders, which then choose another instance.
func (s *Shard) nobody() bool { return s.home.IsZero() && s.limits.Handoff.Unordered }

// unprepare drops the prepared shard. If this node was a home of the shard before and has given the
// shard away, it forwards calls again. Otherwise the shard is Closed here.
func (s *Shard) unprepare() Effects {
	if len(s.departures) == 0 || s.nobody() {
		return s.close()
	}
	s.become(Forwarding)
	s.entities.clear()
	last := s.departures.last()
	s.peer, s.moveE = last.to, last.epoch
	s.epoch = max(s.epoch, last.epoch)
	return s.redeliverAll(0)
}

// Place handles a placement from the table. If the table names this node as the home under a new
// epoch, the shard opens: with the prepared state if there is one, with its present state if it
// never left, and otherwise without state. With force, Place accepts an epoch lower than the known
// one, because the placement comes from a coordinator of a later term. But a shard that has left
// under a higher epoch does not come back under a lower one, even with force.
func (s *Shard) Place(home transport.Address, epoch placement.Epoch, force bool, now uint32, at time.Time) Effects {
	defer s.check()
	s.shown = max(s.shown, epoch)
	if epoch == s.epoch && home == s.home || epoch < s.epoch && !force {
		return Effects{}
	}
	if home == s.self {
		away := s.state == Forwarding || s.state == Preparing || s.state == Prepared
		if away && len(s.departures) > 0 && epoch < s.departures.last().epoch {
			return Effects{} // the placement follows from this node's registration before the shard left
		}
		return s.placeHere(epoch, now)
	}
	if s.leaves() && home == s.peer && epoch == s.moveE && !home.IsZero() {
		fx := s.orphan() // the new home opened it without this node's Open
		fx.add(s.follow())
		return fx
	}
	s.epoch, s.home = epoch, home
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
		if force || s.nobody() {
			return s.close() // the departure no longer counts: its table was lost, or the shard has ended
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
		// The shard was lost. Calls forwarded to its former home may come back when this node learns of
		// that home's departure. So the departures stay, and a sender's Flush takes the route of
		// its older calls.
	}
	return s.open(epoch, min(since, epoch), now)
}

// open lets turns run under a new epoch. The parameter since is the epoch from which on this node
// is the home.
func (s *Shard) open(epoch, since placement.Epoch, now uint32) Effects {
	strayed := s.strayed()
	if s.since != since { // it was elsewhere meanwhile
		s.barriers.refused = nil
	}
	s.become(Open)
	s.epoch, s.since, s.home = epoch, since, s.self
	s.pending, s.offered, s.granted = nil, nil, false
	s.departures.forget(transport.Address.IsZero)
	maps.DeleteFunc(s.barriers.direct, func(_ transport.Address, e placement.Epoch) bool { return e < since })
	fx := Effects{Opened: true}
	fx.add(s.endStops(now, s.passivating)) // except that of the entity whose hook runs now
	fx.Lead, fx.Refuse = s.lead(now), strayed
	fx.add(s.redeliverAll(now))
	return fx
}

// strayed removes and returns the calls to refuse when the shard comes back by a move. Calls that
// their senders sent to this node may run: the Flush has not passed, so younger calls wait at a
// barrier. Other calls may have been overtaken.
func (s *Shard) strayed() []*Call {
	if s.state != Prepared || len(s.departures) == 0 || !s.departures.last().to.IsZero() {
		return nil
	}
	left := s.departures.last().epoch
	return s.sift(&s.waiting, func(c *Call) bool { return !c.SentTo(s.self) && c.Epoch <= left })
}

func (s *Shard) close() Effects {
	if s.state != Closed {
		s.become(Closed)
	}
	s.entities.clear()
	s.since, s.pending = 0, nil
	s.offered, s.granted = nil, false
	s.departures = nil
	for _, t := range s.barriers.closed {
		s.waiting.take(&t.held)
	}
	fx := Effects{Flushed: s.barriers.take(func(f Flush) bool { return f.Epoch <= s.epoch })}
	s.barriers = barriers{flushed: s.barriers.flushed, direct: s.barriers.direct}
	s.rebar()
	fx.add(s.refuseOld())
	return fx
}
