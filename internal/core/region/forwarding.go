package region

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type departure struct {
	to    transport.Address
	epoch placement.Epoch
}

// maxForwardings bounds the remembered departures. Only a message older than all of them could be
// forwarded wrongly.
const maxForwardings = 8

// departures are a shard's departures from this node, oldest first. A message follows the first
// departure with a higher epoch than its own, as its sender's older messages did. If there is no
// such departure, the message has arrived. Epochs grow from hop to hop, so no message loops.
type departures []departure

func (t departures) beyond(e placement.Epoch) (d departure, ok bool) {
	for _, d := range t {
		if d.epoch > e {
			return d, true
		}
	}
	return departure{}, false
}

func (t *departures) add(to transport.Address, e placement.Epoch) {
	if len(*t) == maxForwardings {
		*t = slices.Delete(*t, 0, 1)
	}
	*t = append(*t, departure{to, e})
}

// forget drops the departures to nodes that are gone. Nothing can be forwarded to them.
func (t *departures) forget(gone func(transport.Address) bool) {
	*t = slices.DeleteFunc(*t, func(d departure) bool { return gone(d.to) })
}

func (t departures) last() *departure { return &t[len(t)-1] }

// owed has the senders that must still send a Flush, with the time of their last call.
type owed map[transport.Address]time.Time

func (s *Shard) ahead(c *Call) bool {
	return c.Epoch > s.epoch && s.state != Preparing && s.state != Prepared
}

// past reports whether the shard is open and the call names an earlier term than the table's: no
// table will have the call's placement.
func (s *Shard) past(c *Call) bool { return s.state == Open && c.Epoch.Term() < s.term }

// owedFor is how long after a sender's last call Settle waits for the sender's Flush.
const owedFor = 10 * time.Second

// maxOwed bounds the senders remembered as owing a Flush.
const maxOwed = 1024

// leavingFor is how long after a sender's last call a leaving node waits for the sender's Flush.
const leavingFor = time.Second

func (s *Shard) strays() bool { return s.state == Forwarding && s.departures.last().to.IsZero() }

// Successor returns the node to which to forward a call, and the epoch under which to do so. Both
// are zero if the call has arrived.
func (s *Shard) Successor(c *Call) (transport.Address, placement.Epoch) {
	if c.along != nil {
		return c.along.to, c.along.epoch
	}
	d, ok := s.departures.beyond(c.Epoch)
	if !ok && s.state == Forwarding {
		d = *s.departures.last()
		if d.epoch < c.Epoch && c.Epoch < s.epoch && !s.home.IsZero() { // it followed a move back here that was lost
			d = departure{s.home, s.epoch}
		}
	}
	return d.to, d.epoch
}

// FlushTo returns the node to which to send a Flush from [Effects], and the Flush's new Hop; a zero
// node means nowhere.
func (s *Shard) FlushTo(f Flush) (transport.Address, placement.Epoch) {
	switch d, went := s.departures.beyond(f.Hop); {
	case went && !d.to.IsZero():
		return d.to, d.epoch
	case !f.To.IsZero():
		return f.To, f.Epoch
	case s.home == s.self:
		return transport.Address{}, 0
	}
	return s.home, f.Epoch
}

// onward decides on a call for a shard that has left: Forward, or Moved if the type's handoff
// refuses such calls. After Forward, the sender owes a Flush.
func (s *Shard) onward(c *Call) Verdict {
	if s.limits.Handoff.Refusing {
		return Moved
	}
	s.owe(c)
	return Forward
}

// owe records that the sender of a forwarded call must send a Flush. It ignores calls of this
// process. It also ignores calls that came through an older home, because their Flush comes through
// that home too.
func (s *Shard) owe(c *Call) {
	if s.state != Forwarding || !c.Via.IsZero() || c.Local {
		return
	}
	s.oweTo(c.Sender.Address, c.at)
}

func (s *Shard) oweTo(sender transport.Address, at time.Time) {
	s.settled = false
	if _, known := s.owed[sender]; !known && len(s.owed) >= maxOwed {
		sender = transport.Address{} // stands for all further senders, until they have been silent
	}
	if s.owed == nil {
		s.owed = owed{}
	}
	s.owed[sender] = at
}

// repay records that a sender's Flush leaves here by the route of the sender's calls. If the
// Flush's To is gone, the sender must flush again, because the sender will call another home.
func (s *Shard) repay(f Flush, at time.Time) {
	switch {
	case f.Via.Address != s.self:
	case f.Lost && s.state == Forwarding && !s.settled: // a settled home may have refused a call
		s.oweTo(f.Sender.Address, at)
	default:
		delete(s.owed, f.Sender.Address)
	}
}

// Owes reports whether any sender whose last call was forwarded less than 1 s ago must still send a
// Flush. A leaving node waits for such a Flush: the home to which it forwarded may hold calls of
// the sender, and only the Flush makes the sender's next home wait for them.
func (s *Shard) Owes(at time.Time) bool {
	for _, last := range s.owed { //arch:order-free any of them
		if at.Sub(last) < leavingFor {
			return true
		}
	}
	return false
}

// Unsettled reports whether the driver must call Settle again later. It is false before the table
// shows where the shard went, and while the shard's present home is unknown: the shard cannot
// settle then.
func (s *Shard) Unsettled() bool {
	return s.state == Forwarding && !s.settled && !s.strays() && s.shown >= s.departures.last().epoch
}

// Settled reports whether the shard has moved away, and no more calls are expected here.
func (s *Shard) Settled() bool { return s.state == Forwarding && s.settled && !s.strays() }

// Settle ends forwarding if no calls wait here and each sender whose calls were forwarded has
// flushed, is gone, or was silent for 10 s.
func (s *Shard) Settle(at time.Time) {
	defer s.check()
	if !s.Unsettled() || s.Waiting() > 0 {
		return
	}
	maps.DeleteFunc(s.owed, func(_ transport.Address, last time.Time) bool { return at.Sub(last) >= owedFor })
	if s.settled = len(s.owed) == 0; s.settled {
		s.over = s.departures.last().epoch
		s.barriers.returned = nil
	}
}

// A Returned is a message that this node forwarded to another home. That home then departed, and
// certainly did not handle the message. The message is Call or, if Call is nil, Flush. Call has the
// epoch that it had before it was forwarded.
type Returned struct {
	Call  *Call
	Flush Flush
}

// Depart stops forwarding to nodes that are gone. It takes back, in the order of sending, the calls
// and flushes that these nodes did not handle. Calls that have come here meanwhile follow them.
// Calls that come later go to the home that the table names. died is false if the nodes left
// gracefully.
func (s *Shard) Depart(gone func(transport.Address) bool, died bool, back []Returned, now uint32, at time.Time) (fx Effects) {
	defer s.check()
	var younger queue
	younger.take(&s.waiting)
	maps.DeleteFunc(s.barriers.returned, func(a transport.Address, _ bool) bool { return gone(a) })
	maps.DeleteFunc(s.owed, func(a transport.Address, _ time.Time) bool { return gone(a) })
	s.forget(gone)
	for _, r := range back {
		if r.Call == nil {
			fx.add(s.Flushed(r.Flush, now, at))
		} else {
			fx.add(s.giveBack(r.Call, died, now, at))
		}
	}
	s.waiting.take(&younger)
	if !gone(s.home) {
		fx.add(s.findWay(now))
	}
	return fx
}

// giveBack takes back a call that was forwarded to a node which is gone. If that node died,
// giveBack refuses a call that the sender had sent to a third node: the third node may be gone too,
// and then younger calls of the sender may have come directly.
func (s *Shard) giveBack(c *Call, died bool, now uint32, at time.Time) Effects {
	c.at = at
	if died && !c.SentTo(s.self) && !s.limits.Handoff.Unordered {
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

// forget drops the departures to nodes that are gone. If the shard is Forwarding to such a node, its
// next home is unknown from now on.
func (s *Shard) forget(gone func(transport.Address) bool) {
	strays := s.state == Forwarding && gone(s.departures.last().to)
	var epoch placement.Epoch
	if strays {
		epoch = s.departures.last().epoch
	}
	s.departures.forget(gone)
	if strays {
		s.departures.add(transport.Address{}, epoch)
	}
}

// miss stops forwarding to a departed node. departs is set if Depart will follow for that node.
func (s *Shard) miss(to transport.Address, departs bool, now uint32) Effects {
	s.forget(func(a transport.Address) bool { return a == to })
	if departs || s.home == to {
		return Effects{}
	}
	return s.findWay(now)
}

// Unsent takes back a call that could not be forwarded to a node, because that node has departed.
// departs is true if the driver will also call Depart for that node.
func (s *Shard) Unsent(c *Call, to transport.Address, departs bool, now uint32) Effects {
	defer s.check()
	fx := s.miss(to, departs, now)
	c.along = nil
	var q queue
	q.push(c)
	fx.add(s.redeliver(&q, now))
	return fx
}

// Unpassed takes back a Flush that could not be passed on to a node, because that node has
// departed; departs is as in Unsent. If the node was the sender's new home, the sender will flush
// again.
func (s *Shard) Unpassed(f Flush, to transport.Address, departs bool, now uint32, at time.Time) Effects {
	defer s.check()
	if to == f.To {
		f.Lost = true
		s.repay(f, at)
		return Effects{}
	}
	fx := s.miss(to, departs, now)
	fx.add(s.Flushed(f, now, at))
	fx.Flushed = slices.DeleteFunc(fx.Flushed, func(f Flush) bool {
		next, _ := s.FlushTo(f)
		return next == to // it is the home in the table
	})
	return fx
}

func (s *Shard) findWay(now uint32) Effects {
	if s.state != Forwarding || !s.strays() {
		return Effects{}
	}
	last := s.departures.last()
	if s.home.IsZero() || s.epoch <= last.epoch {
		return Effects{}
	}
	*last = departure{s.home, s.epoch}
	s.barriers.returned = nil // those calls go there
	fx := s.redeliverAll(now)
	fx.Flushed = s.barriers.take(func(f Flush) bool {
		d, went := s.departures.beyond(f.Hop)
		return went && f.follows(d, s.self)
	})
	return fx
}
