package region

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A departure is where the shard went from this node, and under which epoch.
type departure struct {
	to    transport.Address
	epoch placement.Epoch
}

// maxForwardings bounds how many of a shard's departures a node remembers. Only a
// message that is older than so many of them could take a wrong way.
const maxForwardings = 8

// departures are a shard's departures from this node, oldest first. Each message names an epoch:
// its sender's, or the one of its forwarding. It takes the first departure beyond its epoch, as its
// older siblings did; without one it has arrived. Epochs grow from hop to hop, so no message goes
// in circles, although a shard may.
type departures []departure

// beyond returns the departure for calls of that epoch.
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

// forget drops the departures to nodes that are gone. Calls of older epochs then take the
// next departure, because no older call is left on the former one.
func (t *departures) forget(gone func(transport.Address) bool) {
	*t = slices.DeleteFunc(*t, func(d departure) bool { return gone(d.to) })
}

// last is the latest departure; there must be one.
func (t departures) last() *departure { return &t[len(t)-1] }

// owed has the senders that have yet to flush, and when their last calls came.
type owed map[transport.Address]time.Time

// ahead reports whether a call knows of a newer placement: the table that says so
// is on its way.
func (s *Shard) ahead(c *Call) bool {
	return c.Epoch > s.epoch && s.state != Preparing && s.state != Prepared
}

// past reports whether a call names a placement that no table will show, because another
// term has begun, while the shard is open here.
func (s *Shard) past(c *Call) bool { return s.state == Open && c.Epoch.Term() < s.term }

// owedFor is how long the Flush of a sender is waited for after its last call came.
const owedFor = 10 * time.Second

// maxOwed bounds the senders whose Flush is waited for by name.
const maxOwed = 1024

// leavingFor is how long after a sender's last call a node that leaves waits for its Flush.
const leavingFor = time.Second

// strays reports whether the shard was forwarded to a departed home, and its present home
// is unknown: calls wait for the table.
func (s *Shard) strays() bool { return s.state == Forwarding && s.departures.last().to.IsZero() }

// Successor is where a call is forwarded to, and under which epoch then. It is zero when
// the call has arrived.
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

// FlushTo is where a Flush of Effects goes, and its Hop then: zero if nowhere.
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

// onward returns the verdict on a call for a shard that has left. Only calls from a shard that is
// still away are followed by a Flush relevant to Settle.
func (s *Shard) onward(c *Call) Verdict {
	if s.limits.Handoff.Refusing {
		return Moved
	}
	s.owe(c)
	return Forward
}

// owe notes that the call's sender has yet to flush. Calls of this process find their
// own way, and those by way of an older home are followed by that home's Flush.
func (s *Shard) owe(c *Call) {
	if s.state != Forwarding || !c.Via.IsZero() || c.Local {
		return
	}
	s.oweTo(c.Sender.Address, c.at)
}

// oweTo records that a sender, last heard at that time, has yet to flush.
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

// repay notes that a sender's Flush goes from here the way of its calls. If the named home is gone,
// the sender will turn to another, and flush again: its calls may have come back from that home to
// one unknown to the sender, and the next home learns by way of this one to wait for them.
func (s *Shard) repay(f Flush, at time.Time) {
	switch {
	case f.Via.Address != s.self:
	case f.Lost && s.state == Forwarding && !s.settled: // a settled home may have refused a call
		s.oweTo(f.Sender.Address, at)
	default:
		delete(s.owed, f.Sender.Address)
	}
}

// Owes reports whether the Flush of a sender is to come whose last call was forwarded less than 1 s
// ago. A leaving node waits for it: the home that it forwarded to may hold the sender's calls back,
// and only the Flush makes the sender's next home wait for them.
func (s *Shard) Owes(at time.Time) bool {
	for _, last := range s.owed { //arch:order-free any of them
		if at.Sub(last) < leavingFor {
			return true
		}
	}
	return false
}

// Unsettled reports whether Settle is to be called again after a while. Until the table
// shows where the shard went, and while nobody is known to have it, it does not settle.
func (s *Shard) Unsettled() bool {
	return s.state == Forwarding && !s.settled && !s.strays() && s.shown >= s.departures.last().epoch
}

// Settled reports whether the shard has moved away and nothing of it is left here.
func (s *Shard) Settled() bool { return s.state == Forwarding && s.settled && !s.strays() }

// Settle ends forwarding if nothing waits here and every sender whose calls were
// forwarded has flushed, is gone, or was silent for 10 s.
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
