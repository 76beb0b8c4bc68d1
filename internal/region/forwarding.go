package region

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// maxForwardings bounds how many of a shard's departures a node remembers. Only a
// message that is older than so many of them could take a wrong way.
const maxForwardings = 8

// A departure is where the shard went from this node, and under which epoch.
type departure struct {
	to    transport.Address
	epoch placement.Epoch
}

// forwarding is a shard's departures from this node, oldest first. Each message
// names an epoch: that of its sender, or that under which it was forwarded. It
// takes the first departure beyond its epoch, for that is the way which its
// older siblings took; where there is none, it has arrived. Epochs grow from hop
// to hop, so no message goes in circles, although a shard may.
type forwarding []departure

// beyond returns the departure that calls of that epoch take.
func (t forwarding) beyond(e placement.Epoch) (d departure, ok bool) {
	for _, d := range t {
		if d.epoch > e {
			return d, true
		}
	}
	return departure{}, false
}

func (t *forwarding) add(to transport.Address, e placement.Epoch) {
	if len(*t) == maxForwardings {
		*t = slices.Delete(*t, 0, 1)
	}
	*t = append(*t, departure{to, e})
}

// forget drops the departures to nodes that are gone. Calls of older epochs then take the
// next departure, because no older call is left on the former one.
func (t *forwarding) forget(gone func(transport.Address) bool) {
	*t = slices.DeleteFunc(*t, func(d departure) bool { return gone(d.to) })
}

// last is the latest departure; there must be one.
func (t forwarding) last() *departure { return &t[len(t)-1] }

// strays reports whether the shard was forwarded to a departed home, and its present home
// is unknown: calls wait for the table.
func (s *Shard) strays() bool { return s.state == Forwarding && s.forwarding.last().to.IsZero() }

// Forget is for nodes that are gone: nothing is forwarded to them any more. Calls that
// still arrive go on to the owner that the table names.
func (s *Shard) Forget(gone func(transport.Address) bool, now uint32) (fx Effects) {
	defer s.check()
	maps.DeleteFunc(s.barriers.returned, func(a transport.Address, _ bool) bool { return gone(a) })
	maps.DeleteFunc(s.owed, func(a transport.Address, _ time.Time) bool { return gone(a) })
	if s.state != Forwarding || !gone(s.forwarding.last().to) {
		s.forwarding.forget(gone)
		return fx
	}
	last := *s.forwarding.last()
	s.forwarding.forget(gone)
	s.forwarding.add(transport.Address{}, last.epoch)
	if !gone(s.owner) {
		fx = s.findWay(now)
	}
	return fx
}

// findWay forwards straying calls to the owner, if the table names a newer one.
func (s *Shard) findWay(now uint32) Effects {
	last := s.forwarding.last()
	if s.owner.IsZero() || s.epoch <= last.epoch {
		return Effects{}
	}
	*last = departure{s.owner, s.epoch}
	s.barriers.returned = nil // those calls go there
	fx := s.redeliverAll(now)
	fx.Flushed = s.barriers.take(func(f Flush) bool {
		d, went := s.forwarding.beyond(f.Hop)
		return went && f.follows(d, s.self)
	})
	return fx
}

// Successor is where a call is forwarded to, and under which epoch then. It is zero when
// the call has arrived.
func (s *Shard) Successor(c *Call) (transport.Address, placement.Epoch) {
	if c.along.epoch != 0 {
		return c.along.to, c.along.epoch
	}
	d, ok := s.forwarding.beyond(c.Epoch)
	if !ok && s.state == Forwarding {
		d = *s.forwarding.last()
	}
	return d.to, d.epoch
}

// FlushTo is where a Flush of Effects goes, and its Hop then: zero if nowhere.
func (s *Shard) FlushTo(f Flush) (transport.Address, placement.Epoch) {
	switch d, went := s.forwarding.beyond(f.Hop); {
	case went && !d.to.IsZero():
		return d.to, d.epoch
	case !f.To.IsZero():
		return f.To, f.Epoch
	case s.owner == s.self:
		return transport.Address{}, 0
	}
	return s.owner, f.Epoch
}

// A shard that has moved away is settled when no sender is known whose calls still
// come here. From then on it counts as gone, and late direct calls are answered with
// Moved, also while it comes back: an older one, which was refused, may not have come here
// again. Its departures stay, at most maxForwardings of them: late flushes, and calls that
// older homes forward, still take the way of the calls before them.

// owedFor is how long the Flush of a sender is waited for after its last call came.
const owedFor = 10 * time.Second

// maxOwed bounds the senders whose Flush is waited for by name.
const maxOwed = 1024

// onward returns the verdict on a call for a shard that has left. Only calls that go on
// from a shard that is still away are followed by a Flush that matters to Settle.
func (s *Shard) onward(c *Call) Verdict {
	if s.how.Refusing {
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
	s.settled = false
	sender := c.Sender.Address
	if _, known := s.owed[sender]; !known && len(s.owed) >= maxOwed {
		sender = transport.Address{} // stands for all others, until they have been silent
	}
	if s.owed == nil {
		s.owed = owed{}
	}
	s.owed[sender] = c.at
}

// owed has the senders that have yet to flush, and when their last calls came.
type owed map[transport.Address]time.Time

// repay notes that a sender's Flush goes from self the way of its calls.
func (o owed) repay(f Flush, self transport.Address) {
	if f.Via.Address == self {
		delete(o, f.Sender.Address)
	}
}

// Settle ends forwarding if nothing waits here and every sender whose calls were
// forwarded has flushed, is gone, or was silent for 10 s.
func (s *Shard) Settle(at time.Time) {
	defer s.check()
	if !s.Unsettled() || s.Waiting() > 0 {
		return
	}
	maps.DeleteFunc(s.owed, func(_ transport.Address, last time.Time) bool { return at.Sub(last) >= owedFor })
	s.settled = len(s.owed) == 0
	if s.settled {
		s.over = s.forwarding.last().epoch
		s.barriers.returned = nil
	}
}

// leavingFor is how long after a sender's last call a node that leaves waits for its Flush.
const leavingFor = time.Second

// Owes reports whether the Flush of a sender is to come whose last call was forwarded less
// than 1 s ago. A node that leaves waits for it: the home to which it forwarded may hold the
// sender's calls back, and only the Flush tells the sender's next home to wait for them.
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
	return s.state == Forwarding && !s.settled && !s.strays() && s.shown >= s.forwarding.last().epoch
}

// Settled reports whether the shard has moved away and nothing of it is left here.
func (s *Shard) Settled() bool { return s.state == Forwarding && s.settled && !s.strays() }

// checkSettled is invariant 13.
func (s *Shard) checkSettled() error {
	if away := s.state == Forwarding; s.settled && !away || len(s.owed) > 0 && (!away || s.settled) {
		return fmt.Errorf("shard %v: invariant 13: %v, settled %v, and %d senders have yet to flush", s.id, s.state, s.settled, len(s.owed))
	}
	return nil
}
