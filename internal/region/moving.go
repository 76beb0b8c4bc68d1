package region

import (
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// moving gives the shard to another home.
type moving struct {
	stopping

	pending *move // a move that waits for the barriers
	offered *move // under way while the shard goes on (Handoff.Serving)
	granted bool  // the other end is ready: no Init follows when the turns have ended
}

// A move is a new home and the epoch under which it has the shard.
type move struct {
	to    transport.Address
	epoch placement.Epoch
}

// MayBackOff reports whether an entity may keep its turn for longer than it runs: not
// while the shard waits for its turns to end.
func (s *moving) MayBackOff() bool { return s.state == Open && s.pending == nil }

// beginMove is [Shard.BeginMove].
func (s *moving) beginMove(to transport.Address, epoch placement.Epoch) Effects {
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

// offer begins a move while the shard goes on: the driver sends an Init without
// state.
func (s *moving) offer(to transport.Address, epoch placement.Epoch) Effects {
	s.offered = &move{to, epoch}
	s.peer, s.moveE = to, epoch
	return Effects{Offer: true}
}

// Offering reports whether the shard is open, and another node was asked to prepare it.
func (s *moving) Offering() bool { return s.offered != nil && s.state == Open }

// Underway is the move of a shard that is open still: it waits for barriers, or the
// shard is on offer. A new coordinator must hear of it, for it goes on by itself.
func (s *moving) Underway() (to transport.Address, epoch placement.Epoch, ok bool) {
	switch {
	case s.state != Open:
	case s.offered != nil:
		return s.offered.to, s.offered.epoch, true
	case s.pending != nil:
		return s.pending.to, s.pending.epoch, true
	}
	return transport.Address{}, 0, false
}

// takeReady is [Shard.Ready].
func (s *moving) takeReady(from transport.Address, epoch placement.Epoch) Effects {
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

// accepted takes the new home's Ready to an offer: running turns end now, then the
// shard is the other's.
func (s *moving) accepted() Effects {
	fx := s.drain()
	s.granted = true
	return fx
}

// drain lets no more turns begin.
func (s *moving) drain() (fx Effects) {
	s.become(Draining)
	s.offered = nil
	later := s.waiting
	s.waiting = queue{}
	s.running = 0
	for _, e := range s.entities.sorted() {
		if e.want() {
			s.running++
		}
		s.waiting.take(e.mailbox())
	}
	s.waiting.take(&later)
	if s.how.DropCalls {
		fx.Drop = s.sift(&s.waiting, func(c *Call) bool { return c.Epoch <= s.epoch || c.Local })
	}
	fx.Drained = s.running == 0
	return fx
}

// endMove is [Shard.Stopped].
func (s *moving) endMove(epoch placement.Epoch, now uint32) (fx Effects, sent bool) {
	fx.add(s.endStops(now, nil))
	s.passivating, s.stops = nil, false
	drained := s.state == Draining && s.running == 0 && s.moveE > s.off
	if drained && s.moveE == epoch && !s.active() {
		s.become(Sent)
		if !s.granted {
			return fx, true
		}
		fx.add(s.follow())
		fx.Open = true
		return fx, false
	}
	fx.Drained = drained
	return fx, false
}

// follow makes the other end of the move the home, and sends on the waiting calls.
func (s *moving) follow() Effects {
	s.become(Forwarding)
	s.last = s.epoch
	s.home, s.epoch = s.peer, s.moveE
	s.departures.add(s.peer, s.moveE)
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
		if at, owes := s.owed[f.Sender.Address]; owes {
			s.repay(f, at)
		}
	}
	return fx
}
