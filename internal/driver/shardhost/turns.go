package shardhost

import (
	"errors"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// later has the work to be done after Mu is released, in order.
type later []func()

func (l *later) add(f func()) { *l = append(*l, f) }

func (l later) run() {
	for _, f := range l {
		f()
	}
}

// Deliver brings a call to the shard, or on to its next home. A local caller that would
// have to be forwarded looks for the home itself. current, if it is not nil, reports
// whether the route that the call came by still leads here; the verdict is Moved if not.
func (s *Shard) Deliver(c *Call, at time.Time, current func() bool) (*region.Entity, region.Verdict) {
	s.Mu.Lock()
	if current != nil && !current() {
		s.Mu.Unlock()
		return nil, region.Moved
	}
	e, v := s.Core.Deliver(&c.Call, s.cfg.Clock.Load(), at)
	var after later
	switch {
	case v == region.Queued:
		c.Detach()
		s.sweepLocked()
	case v == region.Forward && !c.Local: // at once: nothing may come between
		s.forwardLocked(c, &after)
	}
	s.Mu.Unlock()
	after.run()
	return e, v
}

// Begin begins a turn of the entity for a local caller, if nothing stands in its way.
func (s *Shard) Begin(entity string) *region.Entity {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Core.Begin(entity, s.cfg.Clock.Load())
}

// Entered reports whether a turn of the entity has begun outside the lock, and ends one that
// was withdrawn.
func (s *Shard) Entered(e *region.Entity, how region.Entry) bool {
	switch how {
	case region.Entered:
		return true
	case region.Withdrawn:
		s.EndTurn(e)
	}
	return false
}

// TryEnter begins a turn of the entity without the lock. It reports false if that cannot be.
func (s *Shard) TryEnter(e *region.Entity) bool { return s.Entered(e, e.Enter()) }

// Enter begins a turn of the entity with that id and region.Hash for a local caller: without
// the lock, or with it if nothing stands in its way. It returns nil if the call has to wait.
func (s *Shard) Enter(hash uint64, id string) *region.Entity {
	if e := s.Core.Look(hash, id); e != nil && s.TryEnter(e) {
		return e
	}
	return s.Begin(id)
}

// Join begins the turn of a tell of this process without the lock, or makes the tell part of the
// turn of tells that is under way: see region.Entity.Join.
func (s *Shard) Join(e *region.Entity, most int) region.Entry {
	how := e.Join(most)
	if how == region.Withdrawn {
		s.EndTurn(e)
	}
	return how
}

// Unjoin takes back a tell that has joined a turn and will not run.
func (s *Shard) Unjoin(e *region.Entity) {
	if e.Unjoin() == region.Withdrawn {
		s.EndTurn(e)
	}
}

// LeaveTurn ends a turn, without the lock if nothing waits for its end. If other tells have joined
// the turn, it goes on.
func (s *Shard) LeaveTurn(e *region.Entity, now uint32) {
	if left, _ := e.Leave(now); !left {
		s.EndTurn(e)
	}
}

// EndTurn gives the entity to the next call, after Entity.Leave has refused.
func (s *Shard) EndTurn(e *region.Entity) {
	s.Mu.Lock()
	if s.cfg.Keeps != nil && s.cfg.Keeps(e) {
		s.Mu.Unlock()
		return
	}
	next, drained := s.Core.End(e, s.cfg.Clock.Load())
	s.turnEndedLocked()
	s.Mu.Unlock()
	if next != nil {
		s.start(region.Start{Entity: e, Call: next})
	}
	if drained {
		s.host.Drained()
	}
}

// OnTurnEndLocked has f called once, with Mu held, when the next turn ends or the shard changes. f
// must not block.
func (s *Shard) OnTurnEndLocked(f func()) { s.onTurnEnd = append(s.onTurnEnd, f) }

func (s *Shard) turnEndedLocked() {
	for _, f := range s.onTurnEnd {
		f()
	}
	s.onTurnEnd = nil
}

// Holds reports whether calls wait here for more than a turn.
func (s *Shard) Holds() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.holdsLocked()
}

func (s *Shard) holdsLocked() bool { return s.Core.Waiting() > 0 || s.Core.Barriers() > 0 }

// Do changes the core and executes the effects.
func (s *Shard) Do(f func(now uint32, at time.Time) region.Effects) {
	s.Mu.Lock()
	held := s.holdsLocked()
	fx := f(s.cfg.Clock.Load(), s.host.Now())
	after := s.applyLocked(fx)
	if s.cfg.Watch != nil {
		s.departing.follow(s.cfg.Watch, s.Core, s.host.Now)
	}
	s.host.Changed(fx.Opened)
	s.turnEndedLocked() // with the hooks of a move, or when the shard was lost
	settled := held && !s.holdsLocked()
	s.Mu.Unlock()
	after.run()
	if settled {
		s.host.Progress() // a process that leaves waits for that
	}
}

// applyLocked executes the core's effects. Work that cannot be done under Mu is returned.
func (s *Shard) applyLocked(fx region.Effects) (after later) {
	if fx.Lead != nil {
		after.add(func() { s.host.Lead(fx.Lead) })
	}
	for _, st := range fx.Start {
		after.add(func() { s.start(st) })
	}
	for _, c := range fx.Forward {
		s.forwardLocked(of(c), &after)
	}
	for _, f := range fx.Flushed {
		s.passLocked(f, &after)
	}
	if fx.Open {
		s.openNextLocked(&after)
	}
	for _, c := range fx.Refuse {
		epoch, home := s.Core.Epoch(), s.Core.Home()
		after.add(func() { s.refuse(of(c), epoch, home) })
	}
	for _, c := range fx.Drop {
		after.add(func() { s.drop(of(c)) })
	}
	if fx.Offer {
		s.offerLocked(&after)
	}
	if fx.Drained {
		after.add(s.host.Drained)
	}
	if fx.Opened {
		epoch := s.Core.Epoch()
		after.add(func() {
			s.host.Learn(s.cfg.Self, epoch)
			s.host.MoveDone(epoch)
		})
	}
	s.sweepSoonLocked()
	return after
}

// forwardLocked sends a call on to the shard's next home.
func (s *Shard) forwardLocked(c *Call, after *later) {
	if c.Local {
		s.host.Grant(c, nil)
		return
	}
	to, epoch := s.Core.Successor(&c.Call)
	e := c.envelope(s.cfg.Kind, s.ID.Shard, s.host.Elapsed())
	e.Epoch, e.Node = uint64(epoch), c.Sender
	if c.SentTo(s.cfg.Self) {
		e.Hop = uint64(max(c.Epoch, 1))
	}
	p, ok := s.host.Session(transport.Peer{Address: to})
	if !ok {
		after.add(func() { s.drop(c) })
		return
	}
	seq, err := p.Append(e)
	switch {
	case errors.Is(err, stream.ErrTooLarge):
		after.add(func() { s.answer(c, wire.CodeUnsendable, err.Error()) })
		return
	case err != nil:
		after.add(func() { s.drop(c) })
		return
	}
	s.host.Count(CallForwarded)
	s.host.Forwarded(c, p, seq)
	after.add(p.Flush)
}

// passLocked passes a Flush on, behind everything that was forwarded before it.
func (s *Shard) passLocked(f region.Flush, after *later) {
	to, hop := s.Core.FlushTo(f)
	if to.IsZero() {
		return
	}
	e := s.envelope(wire.TypeFlushed, f.Epoch)
	e.Node, e.Via, e.Hop = f.Sender, f.Via, uint64(hop)
	if hop != f.Epoch && !f.To.IsZero() {
		e.Payload = wire.AppendPeer(nil, transport.Peer{Address: f.To})
	}
	if p, ok := s.post(transport.Peer{Address: to}, e); ok {
		after.add(p.Flush)
	}
}

// openNextLocked tells the shard's new home that it may run.
func (s *Shard) openNextLocked(after *later) {
	home, epoch := s.Core.Home(), s.Core.Epoch()
	e := s.envelope(wire.TypeOpen, epoch)
	e.Payload = s.openPayloadLocked()
	p, ok := s.post(transport.Peer{Address: home}, e)
	if ok {
		s.host.Count(MovedOut)
	}
	after.add(func() {
		s.host.Learn(home, epoch)
		if ok {
			p.Flush()
		}
		s.host.Progress()
	})
}

// offerLocked asks the new home to prepare for a shard that serves on here meanwhile.
func (s *Shard) offerLocked(after *later) {
	to, epoch := s.Core.Peer(), s.Core.MoveEpoch()
	e := s.envelope(wire.TypeInit, epoch)
	e.Last = true
	p, ok := s.host.Session(transport.Peer{Address: to})
	if ok {
		_, err := p.Append(e)
		ok = err == nil
	}
	if !ok {
		s.host.Count(NoPeer)
		s.host.MoveAborted(epoch, to.String()+" is gone")
		return
	}
	after.add(p.Flush)
}

// sweepEvery is how often calls that wait are looked at.
const sweepEvery = 250 * time.Millisecond

// sweepLocked makes sure that waiting calls are looked at again.
func (s *Shard) sweepLocked() {
	if !s.sweeping {
		s.sweeping = true
		s.host.After(sweepEvery, s.sweep)
	}
}

// sweepSoonLocked has the shard looked at again if anything here waits for time to pass.
func (s *Shard) sweepSoonLocked() {
	if s.Core.Barriers() > 0 || s.Core.Waiting() > 0 || s.cfg.Settles && s.Core.Unsettled() {
		s.sweepLocked()
	}
}

// sweep opens barriers after their timeout and refuses calls after theirs.
func (s *Shard) sweep() {
	s.Mu.Lock()
	s.sweeping = false
	overdue := s.Core.Overdue(s.host.Now())
	s.Mu.Unlock()
	for _, b := range overdue {
		s.host.BarrierTimedOut(b)
	}
	s.OpenBarriers(func(transport.Address) bool { return false })
	s.Mu.Lock()
	late := s.Core.Expire(s.host.Now().Add(-s.cfg.CallTimeout))
	epoch, home := s.Core.Epoch(), s.Core.Home()
	s.Mu.Unlock()
	for _, c := range late {
		s.refuse(of(c), epoch, home)
	}
	s.Mu.Lock()
	s.Core.Settle(s.host.Now())
	s.sweepSoonLocked()
	s.Mu.Unlock()
}

// OpenBarriers opens barriers for departed processes, and barriers after their timeout.
func (s *Shard) OpenBarriers(departed func(transport.Address) bool) {
	s.Do(func(now uint32, at time.Time) region.Effects { return s.Core.OpenBarriers(departed, now, at) })
}

// CloseBarrier holds a sender's calls until its Flush has come through via. From an old
// home that has departed nothing can come.
func (s *Shard) CloseBarrier(sender, via transport.Address, epoch placement.Epoch) {
	s.Do(func(now uint32, at time.Time) region.Effects {
		if s.host.HasDeparted(via) || slices.Contains(s.departed, via) {
			return s.Core.GoDirect(sender, epoch, now)
		}
		return s.Core.CloseBarrier(sender, via, epoch, now, at)
	})
}

// Flush takes a Flush from the sender itself.
func (s *Shard) Flush(f region.Flush) {
	s.Do(func(now uint32, at time.Time) region.Effects { return s.Core.Flush(f, now, at) })
}

// Flushed takes a Flush that came through an old home.
func (s *Shard) Flushed(f region.Flush) {
	s.Do(func(now uint32, at time.Time) region.Effects { return s.Core.Flushed(f, now, at) })
}

// Forget stops forwarding to processes that have departed.
func (s *Shard) Forget(departed func(transport.Address) bool) {
	s.Do(func(now uint32, _ time.Time) region.Effects { return s.Core.Forget(departed, now) })
}

// Return takes back a call forwarded to a departed process, where it certainly did not run. died is
// false if that process left in order. Forget comes first.
func (s *Shard) Return(c *Call, died bool) {
	s.Do(func(now uint32, at time.Time) region.Effects { return s.Core.Return(&c.Call, died, now, at) })
}

// Dismiss sends on or refuses all that waits, for the process ends. Calls of other processes with
// turns under way are answered as in doubt, because a process closes its lanes only with all calls
// answered.
func (s *Shard) Dismiss() {
	s.Do(func(uint32, time.Time) region.Effects { return s.Core.Dismiss() })
	var after later
	s.Mu.Lock()
	doubt := func(e *region.Entity) {
		if c := e.Turn(); c != nil && !of(c).Tell && c.Sender.Address != s.cfg.Self {
			after.add(s.host.InDoubt(of(c)))
		}
	}
	for e := range s.Core.UnderWay() {
		doubt(e)
	}
	for _, e := range s.Core.Orphans() {
		doubt(e)
	}
	s.Mu.Unlock()
	after.run()
}

// MaxDeparted bounds the departed processes that travel with a shard.
const MaxDeparted = 64

// openPayloadLocked returns the payload of Open for the new home: the departed peers, here
// and at former homes, and the detours whose calls arrive too late.
func (s *Shard) openPayloadLocked() []byte {
	all := append(slices.Clone(s.departed), s.host.Departed()...)
	w := wire.OpenPayload{Departed: all[max(0, len(all)-MaxDeparted):]}
	for _, r := range s.Core.RefusedDetours() {
		w.Refused = append(w.Refused, wire.Detour(r))
	}
	return wire.AppendOpenPayload(nil, w)
}

// openPayload reads a payload of openPayloadLocked. If it does not decode, barriers time out instead.
func openPayload(payload []byte) (refused []region.Detour, departed []transport.Address) {
	w, err := wire.ParseOpenPayload(payload)
	if err != nil {
		return nil, nil
	}
	for _, r := range w.Refused {
		refused = append(refused, region.Detour(r))
	}
	return refused, w.Departed[:min(len(w.Departed), MaxDeparted)]
}

// hearOpen takes the results of openPayload, and opens the barriers that wait for departed
// processes.
func (s *Shard) hearOpen(refused []region.Detour, departed []transport.Address) {
	s.Mu.Lock()
	s.Core.RefuseDetours(refused)
	if len(departed) > 0 {
		s.departed = departed
	}
	closed := s.Core.Barriers() > 0
	s.Mu.Unlock()
	if closed && len(departed) > 0 {
		s.OpenBarriers(func(a transport.Address) bool { return slices.Contains(departed, a) })
	}
}

// start runs a begun turn for a call that waited.
func (s *Shard) start(st region.Start) {
	if c := of(st.Call); c.Local {
		s.host.Grant(c, st.Entity)
	} else {
		s.host.Run(st.Entity, c)
	}
}

// post appends an envelope that is not a call, to be flushed later. It reports false when
// there is no session with the peer. Envelopes that cannot be appended are counted.
func (s *Shard) post(to transport.Peer, e *wire.Envelope) (Session, bool) {
	p, ok := s.host.Session(to)
	if ok {
		s.postTo(p, e)
	}
	return p, ok
}

// postTo is post to a session.
func (s *Shard) postTo(p Session, e *wire.Envelope) {
	if _, err := p.Append(e); err != nil {
		s.host.Count(NoPeer)
	}
}

// envelope is a step of a move.
func (s *Shard) envelope(t wire.Type, epoch placement.Epoch) *wire.Envelope {
	return &wire.Envelope{Type: t, Kind: s.cfg.Kind, Shard: s.ID.Shard, Epoch: uint64(epoch)}
}

// answer ends a call that was accepted and did not run.
func (s *Shard) answer(c *Call, code wire.Code, text string) {
	s.countRefused(code)
	if c.Tell {
		s.host.LoseTell(c)
		return
	}
	s.host.Answer(c, &wire.Envelope{Type: wire.TypeAnswer, ID: c.ID, Code: code, Text: []byte(text)})
}

// countRefused counts a call that was accepted and did not run.
func (s *Shard) countRefused(code wire.Code) {
	s.host.Count(CallRefused)
	if s.cfg.Watch != nil {
		s.cfg.Watch.Refused(code)
	}
}

// refuse answers a call that was accepted: the shard is elsewhere.
func (s *Shard) refuse(c *Call, epoch placement.Epoch, home transport.Address) {
	if c.Local {
		s.host.Grant(c, nil)
		return
	}
	s.countRefused(wire.CodeMoved)
	if c.Tell {
		s.host.LoseTell(c)
		return
	}
	s.host.Answer(c, &wire.Envelope{
		Type: wire.TypeAnswer, ID: c.ID, Code: wire.CodeMoved, Kind: s.cfg.Kind, Shard: s.ID.Shard,
		Epoch: uint64(epoch), Node: transport.Peer{Address: home},
	})
}

// drop answers a call that was accepted: it cannot run here any more.
func (s *Shard) drop(c *Call) {
	if c.Local {
		s.host.Grant(c, nil)
		return
	}
	s.host.Count(CallDropped)
	s.answer(c, wire.CodeDropped, "")
}
