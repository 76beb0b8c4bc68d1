package region

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// BarrierTimeout is how long a new home holds a sender's direct calls while it waits for the
// sender's Flush through the old home. The timeout expires only if the old home is alive and does
// not pass the Flush on.
const BarrierTimeout = 2 * time.Second

// DepartedTimeout replaces BarrierTimeout if the sender knows that the old home has departed. The
// new home may not know that, because it started after the departure. DepartedTimeout is long
// enough: whatever the old home sent before it departed arrives within that time.
const DepartedTimeout = 200 * time.Millisecond

// Bounds for flushes that arrive before their barriers.
const (
	maxFlushed  = 1024
	flushedKept = 30 * time.Second
)

// flushKey identifies a Flush: its sender, the sender's old home, and the epoch of the new
// placement, for which the sender left the old home.
type flushKey struct {
	sender, via transport.Address
	epoch       placement.Epoch
}

// A Flush follows a sender's last call to an old home, by the same route. It says that no older
// call of Sender comes through Via any more. Sender left Via when it learnt of the placement under
// Epoch.
type Flush struct {
	Sender transport.Peer
	Via    transport.Peer
	Epoch  placement.Epoch
	// Hop is the epoch of the calls before the Flush: the sender's former epoch or, if they were
	// forwarded, the epoch under which the last node forwarded them.
	Hop placement.Epoch
	// To is the sender's new home for the shard. Only the last node before To omits it. If the
	// calls before the Flush went under a higher epoch than Epoch, the Flush follows them first,
	// and then comes to its barrier.
	To transport.Address
	// Lost is set if this node knows that To is gone. The field Lost is not sent to other nodes.
	Lost bool
}

// follows reports whether node self must send f on to the node of departure d, where it sent the
// calls before f. If f's epoch is lower than d's, and f's sender now calls self, then self keeps f.
func (f Flush) follows(d departure, self transport.Address) bool {
	return f.Epoch >= d.epoch || !f.To.IsZero() && f.To != self
}

func (f Flush) key() flushKey { return flushKey{f.Sender.Address, f.Via.Address, f.Epoch} }

// barrier holds a sender's direct calls until its older calls have arrived through the old home.
type barrier struct {
	flushKey
	departed bool      // the sender knows that via has departed
	over     time.Time // when it opens without the Flush
	held     queue
	after    []Flush // later flushes of the sender, which has left this node, too; sent on after the held calls
}

// barriers has a shard's barriers, which are few and short-lived.
type barriers struct {
	closed  []*barrier
	flushed []early // flushes that came before their barriers, or that wait for the shard to move
	// direct has the senders whose barrier has opened, with the barrier's epoch. Under the tenure
	// of this epoch, their calls that still arrive through an old home are out of order.
	direct map[transport.Address]placement.Epoch
	// returned has senders whose calls were forwarded from here and came back, because the home
	// that got them departed. That home may have passed on older calls of such a sender. The older
	// calls are out of order if they arrive through another home before the sender's next Flush, or
	// before the shard moves on.
	returned map[transport.Address]bool
	// refused has the detours whose barriers timed out, here and at former homes. The detours move
	// with the shard, because calls that arrive by them are out of order at the next home, too.
	refused []Detour
}

// A Detour is the route of a sender's calls through an old home, Via.
type Detour struct{ Sender, Via transport.Address }

// maxRefused bounds the remembered refused detours; the oldest are forgotten first.
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

// before returns the closed barrier at which a call must wait, or nil. Of several barriers the
// youngest counts.
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

// CloseBarrier holds a sender's direct calls until the sender's Flush for the given epoch comes
// through the old home, via. If the Flush has come already, no call is held. departed is set if the
// sender knows that via has departed: see DepartedTimeout.
func (s *Shard) CloseBarrier(sender, via transport.Address, epoch placement.Epoch, departed bool, now uint32, at time.Time) Effects {
	defer s.check()
	if s.limits.Handoff.Unordered {
		return Effects{}
	}
	p := flushKey{sender, via, epoch}
	if came := s.barriers.take(func(f Flush) bool { return f.key() == p }); len(came) > 0 {
		return s.GoDirect(sender, epoch, now)
	}
	if !slices.ContainsFunc(s.barriers.closed, func(t *barrier) bool { return t.flushKey == p }) {
		t := &barrier{flushKey: p, departed: departed, over: at.Add(BarrierTimeout)}
		if departed {
			t.over = at.Add(DepartedTimeout)
		}
		s.barriers.closed = append(s.barriers.closed, t)
	}
	s.rebar()
	return Effects{}
}

// Flush handles a Flush that comes directly from its sender: this node is the Flush's Via.
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

// Flushed handles a Flush that comes from its Via, the sender's old home. If this node has
// forwarded the calls before the Flush, it forwards the Flush after them. Otherwise the Flush opens
// the barrier that waits for it, if this shard has that barrier. Any other Flush goes on to the
// sender's new home, or is kept until its barrier comes or the shard moves on.
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

// takeAlong passes a Flush on to the sender's new home. The sender's older calls that wait here for
// a table are sent ahead of the Flush, because that table will not come. With Handoff.Refusing they
// are refused.
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

// OpenBarriers opens the barriers whose old home is gone, and those whose timeout has passed. After
// a timeout, the sender's calls that still come through the old home are refused: later calls of the
// sender may have run already. If a node has departed, call Depart before OpenBarriers.
func (s *Shard) OpenBarriers(gone func(transport.Address) bool, now uint32, at time.Time) Effects {
	defer s.check()
	var open []*barrier
	s.barriers.closed = slices.DeleteFunc(s.barriers.closed, func(t *barrier) bool {
		if at.Before(t.over) && !gone(t.via) {
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
	if begins := s.begins(); direct < begins && (!left || its.epoch > begins) {
		return false // it was direct under a tenure of which nothing is known any more
	}
	return went == left && way == its
}

// GoDirect records that a sender needs no barrier for an epoch: all the sender's older calls have
// come, or the sender's old home is gone. Some older calls may wait here for a table that this home
// may never get. GoDirect delivers these ahead of the sender's direct calls. While another barrier
// for the same sender and epoch is closed, GoDirect does nothing.
func (s *Shard) GoDirect(sender transport.Address, epoch placement.Epoch, now uint32) (fx Effects) {
	defer s.check()
	if s.limits.Handoff.Unordered || s.barriers.holds(sender, epoch) {
		return fx // its older calls may run here, too
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

// rebar makes [Entity.Enter] refuse while Direct is off, while any barrier is closed, or while held
// calls are being delivered; otherwise Enter may begin turns.
func (s *Shard) rebar() {
	s.barred.Store(!s.direct || len(s.barriers.closed) > 0 || s.reopening > 0)
}

// Direct allows or forbids local calls to begin turns without the shard's lock (see
// [Entity.Enter]). Allowed calls begin so only while the shard is Open and no barrier is closed.
// The driver allows it when its own calls go straight to the shard. It forbids it before these
// calls are held or sent elsewhere, so that no call overtakes an older one. At first it is
// forbidden.
func (s *Shard) Direct(on bool) {
	defer s.check()
	s.direct = on
	s.rebar()
}

// Barriers returns the number of closed barriers. While there are any, the driver must call
// OpenBarriers again.
func (s *Shard) Barriers() int { return len(s.barriers.closed) }

// Overdue returns the barriers that are still closed although BarrierTimeout has passed. It leaves
// out barriers whose sender knows that the old home has departed.
func (s *Shard) Overdue(at time.Time) (barriers []Shut) {
	for _, t := range s.barriers.closed {
		if !t.departed && !at.Before(t.over) {
			barriers = append(barriers, Shut{t.sender, t.via, t.epoch, t.held.len()})
		}
	}
	return barriers
}

// RefusedDetours returns the detours of this shard whose barriers timed out. The driver sends them
// to the new home with Open; they also remain refused here.
func (s *Shard) RefusedDetours() []Detour { return s.barriers.refused }

// RefuseDetours adds the detours that the old home sent with Open, except those through this node:
// calls sent through this node have arrived, or will never be forwarded.
func (s *Shard) RefuseDetours(ways []Detour) {
	for _, w := range ways {
		if w.Via != s.self && !s.limits.Handoff.Unordered {
			s.barriers.refuse(w)
		}
	}
}

// holdsBack reports whether a barrier of this tenure delays a move. Without the delay, the calls
// that the barrier expects would pass through two homes. A barrier of an earlier tenure delays
// nothing: the calls that it holds follow the shard.
func (s *Shard) holdsBack() bool {
	return slices.ContainsFunc(s.barriers.closed, func(t *barrier) bool { return t.epoch >= s.begins() })
}

// RefuseWaiting handles the detours that came with the Open of the present move: their barriers
// timed out at another home, so younger calls of their senders have run there. If a sender's detour
// leads through this node, RefuseWaiting refuses the calls of that sender that wait here. The
// driver then calls OpenAt for the same move.
func (s *Shard) RefuseWaiting(from transport.Address, epoch placement.Epoch, detours []Detour) Effects {
	defer s.check()
	if s.state != Prepared || s.peer != from || s.moveE != epoch {
		return Effects{}
	}
	return Effects{Refuse: s.sift(&s.waiting, func(c *Call) bool {
		return !c.Local && c.Epoch < epoch && slices.Contains(detours, Detour{c.Sender.Address, s.self})
	})}
}

// A Shut is a closed barrier. It waits for the Flush of the process Sender, which left the old home
// Via when it learnt of the placement under Epoch.
type Shut struct {
	Sender, Via transport.Address
	Epoch       placement.Epoch
	Held        int // the number of calls that it holds
}
