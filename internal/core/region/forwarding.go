package region

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A departure says where the shard went from this node, and under which epoch.
type departure struct {
	to    transport.Address
	epoch placement.Epoch
}

// maxForwardings bounds how many of a shard's departures a node remembers. Only a message older
// than all remembered departures could be forwarded wrongly.
const maxForwardings = 8

// departures are a shard's departures from this node, oldest first. Each message names an epoch:
// its sender's, or that of its last forwarding. A message takes the first departure beyond its
// epoch, as its sender's older messages did; if there is none, it has arrived. Epochs grow from hop
// to hop, so no message goes in circles, although a shard may.
type departures []departure

// beyond returns the first departure after epoch e, which a call of that epoch takes.
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

// forget drops the departures to nodes that are gone. Calls of older epochs then take the next
// departure, because no older call is still on its way by the dropped one.
func (t *departures) forget(gone func(transport.Address) bool) {
	*t = slices.DeleteFunc(*t, func(d departure) bool { return gone(d.to) })
}

// last returns the latest departure; there must be one.
func (t departures) last() *departure { return &t[len(t)-1] }

// owed has the senders that must still send a Flush, with the time of each sender's last call.
type owed map[transport.Address]time.Time

// ahead reports whether a call names a newer placement than this node knows: the table with that
// placement is still on its way.
func (s *Shard) ahead(c *Call) bool {
	return c.Epoch > s.epoch && s.state != Preparing && s.state != Prepared
}

// past reports whether the shard is open here and a call names a placement of an earlier term,
// which no table will have any more.
func (s *Shard) past(c *Call) bool { return s.state == Open && c.Epoch.Term() < s.term }

// owedFor is how long after a sender's last call Settle waits for the sender's Flush.
const owedFor = 10 * time.Second

// maxOwed bounds how many senders are remembered as owing a Flush.
const maxOwed = 1024

// leavingFor is how long after a sender's last call a leaving node waits for the sender's Flush.
const leavingFor = time.Second

// strays reports whether the shard was forwarded to a home that has departed, and its present home
// is unknown. Calls then wait for the table.
func (s *Shard) strays() bool { return s.state == Forwarding && s.departures.last().to.IsZero() }

// Successor returns the node to which to forward a call, and the epoch for that; zero if the call
// has arrived.
func (s *Shard) Successor(c *Call) (transport.Address, placement.Epoch) {
	if c.along != nil {
		return c.along.to, c.along.epoch
	}
	d, ok := s.departures.beyond(c.Epoch)
	if !ok && s.state == Forwarding {
		d = *s.departures.last()
	}
	return d.to, d.epoch
}

// FlushTo returns the node to which to send a Flush of Effects, and the Hop to send with it; zero
// means nowhere.
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

// onward returns the verdict on a call for a shard that has left: Forward, or Moved if the type's
// handoff refuses such calls. If it returns Forward and the shard is still away, the sender owes a
// Flush.
func (s *Shard) onward(c *Call) Verdict {
	if s.limits.Handoff.Refusing {
		return Moved
	}
	s.owe(c)
	return Forward
}

// owe records that the call's sender must send a Flush. It ignores calls of this process, and calls
// through an older home, because they are followed by the Flush through that home.
func (s *Shard) owe(c *Call) {
	if s.state != Forwarding || !c.Via.IsZero() || c.Local {
		return
	}
	s.oweTo(c.Sender.Address, c.at)
}

// oweTo records that a sender, last heard at the given time, must send a Flush.
func (s *Shard) oweTo(sender transport.Address, at time.Time) {
	s.settled = false
	if _, known := s.owed[sender]; !known && len(s.owed) >= maxOwed {
		sender = transport.Address{} // stands for all others, until they have been silent
	}
	if s.owed == nil {
		s.owed = owed{}
	}
	s.owed[sender] = at
}

// repay records that a sender's Flush leaves here by the route of the sender's calls. If the
// Flush's To is gone, the sender must flush again, because it will turn to another home. The
// sender's calls may have come back from the departed home to a home that the sender does not know;
// the Flush through this node then makes the sender's next home wait for them.
func (s *Shard) repay(f Flush, at time.Time) {
	switch {
	case f.Via.Address != s.self:
	case f.Lost && s.state == Forwarding && !s.settled: // a settled home may have refused a call
		s.oweTo(f.Sender.Address, at)
	default:
		delete(s.owed, f.Sender.Address)
	}
}

// Owes reports whether a sender must still send a Flush and its last call was forwarded less than 1
// s ago. A leaving node waits for such a Flush: the home to which it forwarded may hold calls of
// the sender, and only the Flush makes the sender's next home wait for them.
func (s *Shard) Owes(at time.Time) bool {
	for _, last := range s.owed { //arch:order-free any of them
		if at.Sub(last) < leavingFor {
			return true
		}
	}
	return false
}

// Unsettled reports whether the driver must call Settle again later. The shard cannot settle before
// the table shows where it went, or while its present home is unknown.
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
