package region

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// flushing takes flushes to their barriers.
type flushing struct{ placing }

// closeBarrier is [Shard.CloseBarrier].
func (s *flushing) closeBarrier(sender, via transport.Address, epoch placement.Epoch, now uint32, at time.Time) Effects {
	if s.how.Unordered {
		return Effects{}
	}
	p := flushKey{sender, via, epoch}
	if came := s.barriers.take(func(f Flush) bool { return f.key() == p }); len(came) > 0 {
		return s.goDirect(sender, epoch, now)
	}
	if !slices.ContainsFunc(s.barriers.closed, func(t *barrier) bool { return t.flushKey == p }) {
		s.barriers.closed = append(s.barriers.closed, &barrier{flushKey: p, since: at})
	}
	s.rebar()
	return Effects{}
}

// takeFlush is [Shard.Flush].
func (s *flushing) takeFlush(f Flush, now uint32, at time.Time) Effects {
	delete(s.barriers.returned, f.Sender.Address)
	for _, t := range slices.Backward(s.barriers.closed) {
		if t.sender == f.Sender.Address && (t.epoch < f.Epoch || t.epoch <= f.Hop) {
			t.after = append(t.after, f)
			return Effects{}
		}
	}
	if s.state == Closed && f.To != s.self {
		return s.takeAlong(f)
	}
	var fx Effects
	older := func(c *Call) bool {
		return c.Sender.Address == f.Sender.Address && c.Via.IsZero() && c.Epoch <= f.Hop
	}
	if f.To == s.self && s.waiting.lower(f.Epoch, older) {
		fx = s.redeliverAll(now)
	}
	fx.add(s.takeFlushed(f, now, at))
	return fx
}

// takeFlushed is [Shard.Flushed].
func (s *flushing) takeFlushed(f Flush, now uint32, at time.Time) Effects {
	d, went := s.departures.beyond(f.Hop)
	if went && !d.to.IsZero() && f.follows(d, s.self) {
		s.repay(f, at)
		return Effects{Flushed: []Flush{f}}
	}
	if went && f.Epoch > d.epoch && d.to.IsZero() && !f.To.IsZero() && f.To != s.self {
		s.repay(f, at)
		return s.takeAlong(f)
	}
	for i, t := range s.barriers.closed {
		if t.flushKey == f.key() {
			s.barriers.closed = slices.Delete(s.barriers.closed, i, i+1)
			return s.reopen([]*barrier{t}, now, at)
		}
	}
	elsewhere := f.To != s.self && !f.To.IsZero() && f.Epoch < s.begins()
	if elsewhere || s.state == Closed && f.Epoch <= s.epoch && s.home != s.self {
		return s.takeAlong(f)
	}
	if !s.how.Unordered {
		s.barriers.remember(f, at)
	}
	return Effects{}
}

// takeAlong passes on a Flush that is not behind the older calls of its sender yet. Those calls
// wait here for a table: either the shard was to come here by that table and went to another
// node instead, or it went from here to a node that is gone. They go ahead of the Flush, to the
// sender's new home.
func (s *flushing) takeAlong(f Flush) Effects {
	fx := Effects{Flushed: []Flush{f}}
	if f.To.IsZero() {
		return fx
	}
	older := s.sift(&s.waiting, func(c *Call) bool {
		return c.Sender.Address == f.Sender.Address && (c.Epoch < f.Epoch || c.Via.IsZero() && c.Epoch <= f.Hop)
	})
	for _, c := range older {
		if s.how.Refusing {
			fx.Refuse = append(fx.Refuse, c)
			continue
		}
		c.along = &departure{f.To, f.Epoch}
		fx.Forward = append(fx.Forward, c)
	}
	return fx
}

// openBarriers is [Shard.OpenBarriers].
func (s *flushing) openBarriers(gone func(transport.Address) bool, now uint32, at time.Time) Effects {
	var open []*barrier
	s.barriers.closed = slices.DeleteFunc(s.barriers.closed, func(t *barrier) bool {
		if at.Sub(t.since) < BarrierTimeout && !gone(t.via) {
			return false
		}
		open = append(open, t)
		return true
	})
	for _, t := range open {
		if !gone(t.via) {
			s.barriers.refuse(Detour{t.sender, t.via})
		}
	}
	return s.reopen(open, now, at)
}

// reopen delivers the calls that barriers held, passes on the flushes behind them, and
// begins the move that waited for them.
func (s *flushing) reopen(open []*barrier, now uint32, at time.Time) Effects {
	var fx Effects
	s.reopening++
	for _, t := range open {
		fx.add(s.goDirect(t.sender, t.epoch, now))
	}
	for _, t := range open {
		fx.add(s.redeliver(&t.held, now))
		for _, f := range t.after {
			fx.add(s.takeFlush(f, now, at))
		}
	}
	s.reopening--
	s.rebar()
	if s.pending != nil && !s.holdsBack() {
		m := *s.pending
		s.pending = nil
		fx.add(s.beginMove(m.to, m.epoch))
	}
	return fx
}
