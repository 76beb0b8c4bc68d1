package region

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// BarrierTimeout is how long a sender's direct calls wait for its Flush through the old
// home. It only passes when the old home is neither gone nor answering.
const BarrierTimeout = 2 * time.Second

// Bounds for flushes that arrive before their barriers: their number, and how long they are kept.
const (
	maxFlushed  = 1024
	flushedKept = 30 * time.Second
)

// flushKey names one Flush: its sender, the old home on the way of the sender's older calls, and
// the placement that made the sender leave that home.
type flushKey struct {
	sender, via transport.Address
	epoch       placement.Epoch
}

// A Flush means that no older call of Sender follows through Via. Sender left Via when it learnt of
// Epoch. It takes the route of those calls.
type Flush struct {
	Sender transport.Peer
	Via    transport.Peer
	Epoch  placement.Epoch
	// Hop is the epoch of the calls before it: the sender's former epoch, or the one
	// under which the last node forwarded them.
	Hop placement.Epoch
	// To is the sender's new home for the shard. Only the last node before it leaves it out. The
	// calls before the Flush may have gone under a higher epoch than Epoch: then the Flush
	// follows them first, and comes to its barrier behind them.
	To transport.Address
	// Lost says that To is gone, as this node knows. It does not travel.
	Lost bool
}

// follows reports whether the Flush takes the departure from self that the calls before it took. If
// it names a lower epoch, its barrier is here or at the sender's new home. The shard may have left
// by a table without that home: then the younger calls follow the older ones from there, and the
// Flush has to pass there first.
func (f Flush) follows(d departure, self transport.Address) bool {
	return f.Epoch >= d.epoch || !f.To.IsZero() && f.To != self
}

func (f Flush) key() flushKey { return flushKey{f.Sender.Address, f.Via.Address, f.Epoch} }

// barrier holds one sender's direct calls until its older ones have arrived.
type barrier struct {
	flushKey
	since time.Time
	held  queue
	after []Flush // of the same sender, which has left this node too: they follow the held calls
}

// barriers are the barriers of one shard. They are few and short-lived, so lists suffice.
type barriers struct {
	closed  []*barrier
	flushed []early // flushes whose barrier has not come, or that wait for the shard to move
	// direct has the senders whose barrier has opened, with the barrier's epoch. Under the tenure
	// with that epoch, their calls still arriving through an old home are out of order.
	direct map[transport.Address]placement.Epoch
	// returned has the senders of calls sent here that came back from a departed home, and wait or ran here.
	// That home may have passed on older ones, which are out of order if they arrive by another home before the
	// sender's next Flush, or before the shard moves on.
	returned map[transport.Address]bool
	// refused are the detours whose barriers timed out, here and at former homes. They
	// move with the shard, because calls that arrive by them are out of order at the next
	// home too.
	refused []Detour
}

// A Detour is the route of a sender's calls through an old home.
type Detour struct{ Sender, Via transport.Address }

// maxRefused bounds the refused detours; the oldest are forgotten first.
const maxRefused = 64

func (g *barriers) refuse(w Detour) {
	if slices.Contains(g.refused, w) {
		return
	}
	g.refused = append(g.refused, w)
	g.refused = g.refused[max(0, len(g.refused)-maxRefused):]
}

func (g *barriers) held() (n int) {
	for _, c := range g.closed {
		n += c.held.len()
	}
	return n
}

// before is the closed barrier that the call has to wait at; nil where it may go on. The
// youngest barrier that concerns the call counts.
func (g *barriers) before(c *Call) *barrier {
	if !c.Via.IsZero() {
		return nil
	}
	for _, t := range slices.Backward(g.closed) {
		if t.sender != c.Sender.Address || c.Epoch < t.epoch && !c.Local {
			continue
		}
		return t
	}
	return nil
}

// holds reports whether a barrier is closed for a sender that learnt of that epoch.
func (g *barriers) holds(sender transport.Address, epoch placement.Epoch) bool {
	return slices.ContainsFunc(g.closed, func(t *barrier) bool { return t.sender == sender && t.epoch == epoch })
}

func (g *barriers) find(look func(*queue) *Call) *Call {
	for _, t := range g.closed {
		if c := look(&t.held); c != nil {
			return c
		}
	}
	return nil
}

// early is a Flush that came before its barrier.
type early struct {
	Flush
	at time.Time
}

func (g *barriers) remember(f Flush, at time.Time) {
	for len(g.flushed) == maxFlushed || len(g.flushed) > 0 && at.Sub(g.flushed[0].at) > flushedKept {
		g.flushed = slices.Delete(g.flushed, 0, 1)
	}
	g.flushed = append(g.flushed, early{f, at})
}

// take removes and returns the remembered flushes for which leaves is true.
func (g *barriers) take(leaves func(Flush) bool) (out []Flush) {
	g.flushed = slices.DeleteFunc(g.flushed, func(e early) bool {
		if leaves(e.Flush) {
			out = append(out, e.Flush)
			return true
		}
		return false
	})
	return out
}

// CloseBarrier holds the sender's direct calls until its Flush came by way of the
// old home, if it has not come already.
func (s *Shard) CloseBarrier(sender, via transport.Address, epoch placement.Epoch, now uint32, at time.Time) Effects {
	defer s.check()
	if s.limits.Handoff.Unordered {
		return Effects{}
	}
	p := flushKey{sender, via, epoch}
	if came := s.barriers.take(func(f Flush) bool { return f.key() == p }); len(came) > 0 {
		return s.GoDirect(sender, epoch, now)
	}
	if !slices.ContainsFunc(s.barriers.closed, func(t *barrier) bool { return t.flushKey == p }) {
		s.barriers.closed = append(s.barriers.closed, &barrier{flushKey: p, since: at})
	}
	s.rebar()
	return Effects{}
}

// Flush takes a sender's Flush from the sender itself: this node is its Via.
func (s *Shard) Flush(f Flush, now uint32, at time.Time) Effects {
	defer s.check()
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
	fx.add(s.Flushed(f, now, at))
	return fx
}

// Flushed takes a Flush that has come through its Via. It follows the calls that
// it came with to where they went, unless the barrier is here: then it opens it, or
// is remembered until the barrier comes or the shard moves on.
func (s *Shard) Flushed(f Flush, now uint32, at time.Time) Effects {
	defer s.check()
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
	if !s.limits.Handoff.Unordered {
		s.barriers.remember(f, at)
	}
	return Effects{}
}

// takeAlong passes on a Flush that is not behind the older calls of its sender yet. Those calls
// wait here for a table: either the shard was to come here by that table and went to another node
// instead, or it went from here to a departed node. They go ahead of the Flush, to the sender's new
// home.
func (s *Shard) takeAlong(f Flush) Effects {
	fx := Effects{Flushed: []Flush{f}}
	if f.To.IsZero() {
		return fx
	}
	older := s.sift(&s.waiting, func(c *Call) bool {
		return c.Sender.Address == f.Sender.Address && (c.Epoch < f.Epoch || c.Via.IsZero() && c.Epoch <= f.Hop)
	})
	for _, c := range older {
		if s.limits.Handoff.Refusing {
			fx.Refuse = append(fx.Refuse, c)
			continue
		}
		c.along = &departure{f.To, f.Epoch}
		fx.Forward = append(fx.Forward, c)
	}
	return fx
}

// OpenBarriers opens the barriers of departed homes, and those closed for BarrierTimeout. Later
// calls through those homes are refused, because they would be out of order. Forget and Return come
// first.
func (s *Shard) OpenBarriers(gone func(transport.Address) bool, now uint32, at time.Time) Effects {
	defer s.check()
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

// reopen delivers the calls held by barriers, passes on the flushes behind them, and begins the
// waiting move.
func (s *Shard) reopen(open []*barrier, now uint32, at time.Time) Effects {
	var fx Effects
	s.reopening++
	for _, t := range open {
		fx.add(s.GoDirect(t.sender, t.epoch, now))
	}
	for _, t := range open {
		fx.add(s.redeliver(&t.held, now))
		for _, f := range t.after {
			fx.add(s.Flush(f, now, at))
		}
	}
	s.reopening--
	s.rebar()
	if s.pending != nil && !s.holdsBack() {
		m := *s.pending
		s.pending = nil
		fx.add(s.BeginMove(m.to, m.epoch))
	}
	return fx
}

// late reports whether a call comes by way of an old home although its sender is
// past that, under the same tenure.
func (s *Shard) late(c *Call) bool {
	if c.Via.IsZero() {
		return false
	}
	if s.barriers.returned[c.Sender.Address] || slices.Contains(s.barriers.refused, Detour{c.Sender.Address, c.Via}) {
		return true
	}
	direct, ok := s.barriers.direct[c.Sender.Address]
	if !ok || s.barriers.holds(c.Sender.Address, direct) {
		return false
	}
	way, went := s.departures.beyond(c.Epoch)
	its, left := s.departures.beyond(direct)
	if !left && direct < s.begins() {
		return false // it was direct under a tenure of which nothing is known any more
	}
	return went == left && way == its
}

// GoDirect records that a sender needs no barrier, or none any more, for that epoch: all its older
// calls have come, or its old home is gone. If some of them wait here for a table that its own home
// may never get, they go ahead of its direct calls. While another barrier of the same turn is
// closed GoDirect changes nothing.
func (s *Shard) GoDirect(sender transport.Address, epoch placement.Epoch, now uint32) (fx Effects) {
	defer s.check()
	if s.limits.Handoff.Unordered || s.barriers.holds(sender, epoch) {
		return fx // its older calls are welcome, too
	}
	if s.barriers.direct == nil {
		s.barriers.direct = map[transport.Address]placement.Epoch{}
	}
	s.barriers.direct[sender] = max(s.barriers.direct[sender], epoch)
	if s.state == Closed && epoch <= s.epoch {
		return fx // its direct calls do not run here either
	}
	older := func(c *Call) bool { return c.Sender.Address == sender && !c.Via.IsZero() }
	if s.waiting.lower(max(epoch, s.epoch), older) {
		fx = s.redeliverAll(now)
	}
	return fx
}

// rebar sets whether Enter may begin turns outside the lock: not before the calls that
// barriers held.
func (s *Shard) rebar() {
	s.barred.Store(!s.direct || len(s.barriers.closed) > 0 || s.reopening > 0)
}

// Direct sets whether local calls may begin outside the lock (see [Entity.Enter])
// while the shard is Open and no barrier is closed. The driver turns it on when its own
// calls go to the shard straight away, and off before they are held or go elsewhere;
// so none overtakes an older one. Off at first.
func (s *Shard) Direct(on bool) {
	defer s.check()
	s.direct = on
	s.rebar()
}

// Barriers is the number of closed barriers. While there are any, OpenBarriers must be called again.
func (s *Shard) Barriers() int { return len(s.barriers.closed) }

// Overdue are the barriers that have waited for BarrierTimeout.
func (s *Shard) Overdue(at time.Time) (barriers []Shut) {
	for _, t := range s.barriers.closed {
		if at.Sub(t.since) >= BarrierTimeout {
			barriers = append(barriers, Shut{t.sender, t.via, t.epoch, t.held.len()})
		}
	}
	return barriers
}

// RefusedDetours returns the detours whose barriers of this shard timed out. They belong
// in Open, and stay the shard's own.
func (s *Shard) RefusedDetours() []Detour { return s.barriers.refused }

// RefuseDetours adds those that came with Open. Calls sent through this node have
// arrived, or will never be forwarded.
func (s *Shard) RefuseDetours(ways []Detour) {
	for _, w := range ways {
		if w.Via != s.self && !s.limits.Handoff.Unordered {
			s.barriers.refuse(w)
		}
	}
}

// holdsBack reports whether a barrier of this tenure is closed: its calls would have
// to pass through two homes if the shard moved now. Barriers of an earlier tenure only
// hold back calls that follow the shard.
func (s *Shard) holdsBack() bool {
	return slices.ContainsFunc(s.barriers.closed, func(t *barrier) bool { return t.epoch >= s.begins() })
}

// RefuseWaiting refuses calls waiting here behind a barrier that timed out elsewhere, because
// younger calls of their sender have run. The detours came with the Open of that move. Take it
// next.
func (s *Shard) RefuseWaiting(from transport.Address, epoch placement.Epoch, detours []Detour) Effects {
	defer s.check()
	if s.state != Prepared || s.peer != from || s.moveE != epoch {
		return Effects{}
	}
	return Effects{Refuse: s.sift(&s.waiting, func(c *Call) bool {
		return !c.Local && c.Epoch < epoch && slices.Contains(detours, Detour{c.Sender.Address, s.self})
	})}
}

// A Shut barrier waits for the flush of Sender, which left Via under Epoch.
type Shut struct {
	Sender, Via transport.Address
	Epoch       placement.Epoch
	Held        int // calls
}
