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

type later []func()

func (l *later) add(f func()) { *l = append(*l, f) }

func (l later) run() {
	for _, f := range l {
		f()
	}
}

// Deliver brings a call to its entity, or forwards the call to the shard's next home. It does not
// forward a local caller's call, because the caller can look for the home itself. If the function
// current is not nil, it reports whether the caller's route still leads to this shard; if not, the
// verdict is Moved.
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
	case v == region.Forward && !c.Local: // under the same lock: no other call may come between
		s.forwardLocked(c, &after)
	}
	s.Mu.Unlock()
	after.run()
	return e, v
}

// Begin begins a turn of the entity for a local caller. It returns nil if the call has to wait.
func (s *Shard) Begin(entity string) *region.Entity {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Core.Begin(entity, s.cfg.Clock.Load())
}

// Entered reports whether an attempt to enter e without the lock has begun a turn. how is the
// attempt's result. If the attempt was withdrawn, Entered calls EndTurn, so that a call that came
// in the meantime gets the entity.
func (s *Shard) Entered(e *region.Entity, how region.Entry) bool {
	switch how {
	case region.Entered:
		return true
	case region.Withdrawn:
		s.EndTurn(e)
	}
	return false
}

// TryEnter begins a turn of the entity without the lock, with a note for region.Entity.Note. It
// reports false if that is impossible.
func (s *Shard) TryEnter(e *region.Entity, note uint32) bool {
	how := e.Enter(s.cfg.Clock.Load(), note)
	return how == region.Entered || s.Entered(e, how)
}

// Enter begins a turn of the entity with that id for a local caller, and returns the entity. hash
// is the id's region.Hash, and note is as for TryEnter. It tries first without the lock, then with
// the lock. It returns nil if the call has to wait.
func (s *Shard) Enter(hash uint64, id string, note uint32) *region.Entity {
	if e := s.Core.Look(hash, id); e != nil && s.TryEnter(e, note) {
		return e
	}
	e := s.Begin(id)
	if e != nil {
		e.SetNote(s.cfg.Clock.Load(), note)
	}
	return e
}

// Join begins the turn of a tell of this process without the lock, or adds the tell to the running
// turn of tells: see region.Entity.Join.
func (s *Shard) Join(e *region.Entity, most int) region.Entry {
	how := e.Join(most, s.cfg.Clock.Load())
	if how == region.Withdrawn {
		s.EndTurn(e)
	}
	return how
}

// Unjoin removes a tell from the turn that it has joined, because the tell will not run.
func (s *Shard) Unjoin(e *region.Entity) {
	if e.Unjoin() == region.Withdrawn {
		s.EndTurn(e)
	}
}

// LeaveTurn ends a turn. It takes the lock only if a call waits for the turn's end. If other tells
// have joined the turn, the turn goes on.
func (s *Shard) LeaveTurn(e *region.Entity, now uint32) {
	if left, _ := e.Leave(now); !left {
		s.EndTurn(e)
	}
}

// EndTurn ends a turn under the lock, which is needed if Entity.Leave has returned false. The next
// waiting call gets the entity.
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

// OnTurnEndLocked registers f to be called once, with Mu held, when the next turn ends or the shard
// changes. f must not block.
func (s *Shard) OnTurnEndLocked(f func()) { s.onTurnEnd = append(s.onTurnEnd, f) }

func (s *Shard) turnEndedLocked() {
	for _, f := range s.onTurnEnd {
		f()
	}
	s.onTurnEnd = nil
}

// Holds reports whether calls wait here: for the shard to open, for the end of a move, or behind
// barriers.
func (s *Shard) Holds() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.holdsLocked()
}

func (s *Shard) holdsLocked() bool { return s.Core.Waiting() > 0 || s.Core.Barriers() > 0 }

// Do lets f change Core, and executes the effects that f returns.
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
		s.host.Progress() // a leaving process waits for that
	}
}

// applyLocked executes Core's effects, and returns the work to do without Mu.
func (s *Shard) applyLocked(fx region.Effects) (after later) {
	if fx.Lead != nil {
		after.add(func() { s.host.Lead(fx.Lead) })
	}
	for _, st := range fx.Start {
		after.add(func() { s.start(st) })
	}
	var departed transport.Address
	for _, c := range fx.Forward {
		if to := s.forwardLocked(of(c), &after); !to.IsZero() {
			departed = to
		}
	}
	for _, f := range fx.Flushed {
		if departed.IsZero() {
			s.passLocked(f, &after)
		} else { // calls that the Flush follows may have come back
			s.unpassedLocked(f, departed, &after)
		}
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

// forwardLocked forwards a call to the next home. A local caller looks up the home itself. If the
// home has departed, forwardLocked gives the call back to Core, and returns the home.
func (s *Shard) forwardLocked(c *Call, after *later) (departed transport.Address) {
	if c.Local {
		s.host.Grant(c, nil)
		return departed
	}
	to, epoch := s.Core.Successor(&c.Call)
	e := c.envelope(s.cfg.Kind, s.ID.Shard, s.host.Elapsed())
	e.Epoch, e.Node = uint64(epoch), c.Sender
	if c.SentTo(s.cfg.Self) {
		e.Hop = uint64(max(c.Epoch, 1))
	}
	p, seq, err := s.appendTo(to, e)
	switch {
	case errors.Is(err, errDeparted):
		c.Detach()
		after.add(s.applyLocked(s.Core.Unsent(&c.Call, to, s.host.Departs(to), s.cfg.Clock.Load())).run)
		return to
	case errors.Is(err, stream.ErrTooLarge):
		after.add(func() { s.answer(c, wire.CodeUnsendable, err.Error()) })
	case err != nil:
		after.add(func() { s.drop(c) })
	default:
		s.host.Count(CallForwarded)
		s.host.Forwarded(c, p, seq)
		after.add(p.Flush)
	}
	return departed
}

// errDeparted means that an envelope was not sent, because its receiver has departed.
var errDeparted = errors.New("the process has departed")

func (s *Shard) appendTo(to transport.Address, e *wire.Envelope) (Session, uint64, error) {
	if to.IsZero() {
		return nil, 0, errDeparted
	}
	p, ok := s.host.Session(transport.Peer{Address: to})
	if !ok {
		return nil, 0, errDeparted
	}
	seq, err := p.Append(e)
	if err != nil && s.host.HasDeparted(to) {
		err = errDeparted
	}
	return p, seq, err
}

// passLocked passes a Flush to the next home, after all calls forwarded before it.
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
	switch p, _, err := s.appendTo(to, e); {
	case errors.Is(err, errDeparted):
		s.unpassedLocked(f, to, after)
	case err != nil:
		s.host.Count(NoPeer)
	default:
		after.add(p.Flush)
	}
}

func (s *Shard) unpassedLocked(f region.Flush, departed transport.Address, after *later) {
	after.add(s.applyLocked(s.Core.Unpassed(f, departed, s.host.Departs(departed), s.cfg.Clock.Load(), s.host.Now())).run)
}

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

// offerLocked asks the new home to prepare, while the shard still runs here.
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

const sweepEvery = 250 * time.Millisecond

func (s *Shard) sweepLocked() {
	if !s.sweeping {
		s.sweeping = true
		s.host.After(sweepEvery, s.sweep)
	}
}

func (s *Shard) sweepSoonLocked() {
	if s.Core.Barriers() > 0 || s.Core.Waiting() > 0 || s.cfg.Settles && s.Core.Unsettled() {
		s.sweepLocked()
	}
}

// sweep opens barriers after their timeout, and refuses calls that have waited for CallTimeout.
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

// OpenBarriers opens the barriers that wait for departed processes, and the barriers whose timeout
// has passed.
func (s *Shard) OpenBarriers(departed func(transport.Address) bool) {
	s.Do(func(now uint32, at time.Time) region.Effects { return s.Core.OpenBarriers(departed, now, at) })
}

// CloseBarrier makes a sender's calls wait until the sender's Flush has come through the former
// home via. If via has departed, nothing can come through it, so the calls do not wait.
func (s *Shard) CloseBarrier(sender, via transport.Address, epoch placement.Epoch, departed bool) {
	s.Do(func(now uint32, at time.Time) region.Effects {
		if s.host.HasDeparted(via) || slices.Contains(s.departed, via) {
			return s.Core.GoDirect(sender, epoch, now)
		}
		return s.Core.CloseBarrier(sender, via, epoch, departed, now, at)
	})
}

// Flush handles a Flush that came from the sender itself.
func (s *Shard) Flush(f region.Flush) {
	s.Do(func(now uint32, at time.Time) region.Effects { return s.Core.Flush(f, now, at) })
}

// Flushed handles a Flush that a former home passed on.
func (s *Shard) Flushed(f region.Flush) {
	s.Do(func(now uint32, at time.Time) region.Effects { return s.Core.Flushed(f, now, at) })
}

// Depart takes back the calls and Flushes forwarded to departed processes, and stops forwarding to
// them: see region.Shard.Depart.
func (s *Shard) Depart(departed func(transport.Address) bool, died bool, back []region.Returned) {
	s.Do(func(now uint32, at time.Time) region.Effects { return s.Core.Depart(departed, died, back, now, at) })
}

// Dismiss forwards or refuses all waiting calls, because the process ends. If a call of another
// process is still running, Dismiss answers it with an unknown outcome. The process may close its
// lanes only after it has answered all calls.
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

// MaxDeparted bounds how many addresses of departed processes move with a shard.
const MaxDeparted = 64

// openPayloadLocked returns the payload of Open: the departed peers, and the detours whose calls
// come too late.
func (s *Shard) openPayloadLocked() []byte {
	all := append(slices.Clone(s.departed), s.host.Departed()...)
	w := wire.OpenPayload{Departed: all[max(0, len(all)-MaxDeparted):]}
	for _, r := range s.Core.RefusedDetours() {
		w.Refused = append(w.Refused, wire.Detour(r))
	}
	return wire.AppendOpenPayload(nil, w)
}

// openPayload reads a payload of openPayloadLocked. If the payload cannot be decoded, it returns
// nothing, and barriers open by their timeout.
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

// hearOpen records the results of openPayload, and opens barriers that wait for departed processes.
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

func (s *Shard) start(st region.Start) {
	if c := of(st.Call); c.Local {
		s.host.Grant(c, st.Entity)
	} else {
		s.host.Run(st.Entity, c)
	}
}

// post appends an envelope that is not a call. The caller must flush the returned session. post
// reports false if there is no session.
func (s *Shard) post(to transport.Peer, e *wire.Envelope) (Session, bool) {
	p, ok := s.host.Session(to)
	if ok {
		s.postTo(p, e)
	}
	return p, ok
}

func (s *Shard) postTo(p Session, e *wire.Envelope) {
	if _, err := p.Append(e); err != nil {
		s.host.Count(NoPeer)
	}
}

func (s *Shard) envelope(t wire.Type, epoch placement.Epoch) *wire.Envelope {
	return &wire.Envelope{Type: t, Kind: s.cfg.Kind, Shard: s.ID.Shard, Epoch: uint64(epoch)}
}

// answer answers an accepted call that did not run. A tell counts as lost.
func (s *Shard) answer(c *Call, code wire.Code, text string) {
	s.countRefused(code)
	if c.Tell {
		s.host.LoseTell(c)
		return
	}
	s.host.Answer(c, &wire.Envelope{Type: wire.TypeAnswer, ID: c.ID, Code: code, Text: []byte(text)})
}

func (s *Shard) countRefused(code wire.Code) {
	s.host.Count(CallRefused)
	if s.cfg.Watch != nil {
		s.cfg.Watch.Refused(code)
	}
}

// refuse answers an accepted call that cannot run here. The answer names the shard's home.
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

// drop answers an accepted call that cannot run here. The answer names no home.
func (s *Shard) drop(c *Call) {
	if c.Local {
		s.host.Grant(c, nil)
		return
	}
	s.host.Count(CallDropped)
	s.answer(c, wire.CodeDropped, "")
}
