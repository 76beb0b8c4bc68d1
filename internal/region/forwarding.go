package region

import (
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
