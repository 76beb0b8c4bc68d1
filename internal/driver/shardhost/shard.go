package shardhost

import (
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Shard drives the state machine of one shard, the region.Shard in Core, at one process: its
// calls, turns and moves. It is safe for concurrent use. Mu guards Core, except where package
// region says otherwise.
type Shard struct {
	ID   placement.ShardID
	host Host
	cfg  *Config

	Mu   sync.Mutex
	Core *region.Shard

	sweeping  bool                // a call of sweep is scheduled
	departed  []transport.Address // departed processes, as listed by the former home when it gave the shard to this process
	departing departing
	onTurnEnd []func() // called when the next turn ends
}

// Init gives the shard its id and its host. The shard begins in the state Closed. Init must be
// called once, before any other method. After Init, the host may set Core.Driver.
func (s *Shard) Init(id placement.ShardID, h Host, cfg *Config, l region.Limits) {
	s.ID, s.host, s.cfg = id, h, cfg
	s.Core = region.New(id, cfg.Self, l)
}

// Accept takes a call of this process. The call then runs here, waits here, or is answered with an
// error. Accept reports false if it has not taken the call: the caller must look up the shard's
// home again. current has the same meaning as for Deliver.
func (s *Shard) Accept(c *Call, at time.Time, current func() bool) bool {
	e, v := s.Deliver(c, at, current)
	return s.Accepted(c, e, v)
}

// Accepted carries out Deliver's verdict v about a call of this process. It reports false if the
// caller must look up the shard's home again.
func (s *Shard) Accepted(c *Call, e *region.Entity, v region.Verdict) bool {
	switch v {
	case region.Run:
		s.host.Run(e, c)
	case region.Moved:
		return false
	case region.Overloaded:
		s.answer(c, wire.CodeOverloaded, s.host.Why(c, v))
	case region.Shed:
		s.answer(c, wire.CodeDropped, "")
	case region.Circular:
		s.answer(c, wire.CodeCircular, s.host.Why(c, v))
	}
	return true
}

// Refusal returns why Deliver refused a call of another process. It reports false if the verdict is
// not a refusal.
func (s *Shard) Refusal(c *Call, v region.Verdict) (r Refusal, refused bool) {
	switch v {
	case region.Moved:
		epoch, home := s.Placement()
		return Refusal{Code: wire.CodeMoved, Epoch: epoch, Home: home}, true
	case region.Overloaded:
		return Refusal{Code: wire.CodeOverloaded, Text: s.host.Why(c, v)}, true
	case region.Shed:
		return Refusal{Code: wire.CodeDropped}, true
	case region.Circular:
		return Refusal{Code: wire.CodeCircular, Text: s.host.Why(c, v)}, true
	}
	return r, false
}

// Withdraw withdraws a waiting call. It reports false if the call's turn has begun.
func (s *Shard) Withdraw(c *Call) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Core.Cancel(&c.Call)
}

// Cancel withdraws a call whose caller gave up, or cancels its turn. It reports whether the call
// was still waiting, and therefore will not run.
func (s *Shard) Cancel(from transport.Address, entity string, id uint64) (waited bool) {
	s.Mu.Lock()
	c, running := s.Core.Find(entity, func(c *region.Call) bool { return c.Sender.Address == from && of(c).ID == id })
	var giveUp func()
	if c != nil && !running {
		waited = s.Core.Cancel(c)
	} else if c != nil {
		giveUp = s.host.Canceler(of(c))
	}
	s.Mu.Unlock()
	if giveUp != nil {
		giveUp()
	}
	if waited {
		s.host.Count(CallCancelled)
	}
	return waited
}

// Placement returns the shard's epoch and home, as far as this process knows.
func (s *Shard) Placement() (placement.Epoch, transport.Address) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Core.Epoch(), s.Core.Home()
}

// Direct records whether the route of this process sends calls straight to the shard.
func (s *Shard) Direct(on bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Core.Direct(on)
}

// Place applies the shard's entry in a shard table. term is the table's term.
func (s *Shard) Place(home transport.Address, epoch placement.Epoch, term uint32) {
	if home == s.cfg.Self && s.host.Exiting() {
		return // a coordinator that did not know that this process leaves has given it the shard; it will place the shard again
	}
	s.Do(func(now uint32, at time.Time) region.Effects {
		known := s.Core.Epoch()
		// A shard opened here by a move has its home here, although the first table of a new
		// coordinator may still show the old home: MoveDone informs that coordinator.
		force := epoch < known && known.Term() < term && s.Core.Home() != s.cfg.Self
		return s.Core.Place(home, epoch, force, now, at).With(s.Core.BeginTerm(term, now))
	})
}

// BeginMove begins a move that the coordinator ordered. to is the new home, or zero to end the
// shard.
func (s *Shard) BeginMove(to transport.Address, epoch placement.Epoch) {
	s.Do(func(uint32, time.Time) region.Effects { return s.Core.BeginMove(to, epoch) })
	s.host.Release()
	s.watchDrain(epoch)
}

func (s *Shard) watchDrain(epoch placement.Epoch) {
	s.watch(region.Draining, epoch, "its turns and stop hooks outlasted HandoffTimeout")
}

// watch gives up the move with the given epoch if the shard is still in the given state after
// HandoffTimeout.
func (s *Shard) watch(state region.State, epoch placement.Epoch, why string) {
	stays := func() bool {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return s.Core.State() == state && s.Core.MoveEpoch() == epoch
	}
	if !stays() {
		return
	}
	s.host.After(s.cfg.HandoffTimeout, func() {
		if stays() {
			s.host.MoveAborted(epoch, fmt.Sprintf("%s (%v)", why, s.cfg.HandoffTimeout))
		}
	})
}

// HandOff runs the stop hooks of the drained shard's entities, and then sends the shard's state to
// the new home.
func (s *Shard) HandOff() {
	s.Mu.Lock()
	epoch, to := s.Core.MoveEpoch(), s.Core.Peer()
	entities, ok := s.Core.Stop()
	s.Mu.Unlock()
	if !ok {
		return // the move was cancelled, or its hooks already run
	}
	s.host.StopEntities(entities, func(err error) {
		if err != nil {
			s.giveUp(epoch, err)
		} else {
			s.send(to, epoch)
		}
	})
}

// MayStop reports whether the host may run the entity's stop hook: see Core.MayPassivate.
func (s *Shard) MayStop(e *region.Entity) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Core.MayPassivate(e)
}

func (s *Shard) send(to transport.Address, epoch placement.Epoch) {
	if to.IsZero() {
		s.ended(epoch)
		return
	}
	parts := s.Parts(epoch, s.host.Carried())
	p, ok := s.host.Session(transport.Peer{Address: to})
	s.Do(func(now uint32, _ time.Time) region.Effects {
		fx, sent := s.Core.Stopped(epoch, now)
		if !sent {
			return fx
		}
		if !ok {
			s.host.MoveAborted(epoch, to.String()+" is gone")
		} else if err := p.AppendAll(parts); err != nil {
			s.host.Count(NoPeer)
			s.host.MoveAborted(epoch, "send the state to "+to.String()+": "+err.Error())
		}
		return fx
	})
	if ok {
		p.Flush()
	}
	s.watch(region.Sent, epoch, to.Name+" did not acknowledge the shard's state within HandoffTimeout")
	s.host.Progress()
}

// ended tells the coordinator that the shard has ended here and has no new home.
func (s *Shard) ended(epoch placement.Epoch) {
	s.Do(func(now uint32, _ time.Time) region.Effects {
		fx, sent := s.Core.Stopped(epoch, now)
		if sent {
			s.host.MoveDone(epoch)
		}
		return fx
	})
	s.host.Progress()
}

// giveUp gives up a move because this process could not carry it out. The shard stays at this
// process, and opens again when the coordinator orders it to open.
func (s *Shard) giveUp(epoch placement.Epoch, why error) {
	s.Do(func(now uint32, _ time.Time) region.Effects {
		fx, _ := s.Core.CancelMove(epoch)
		ended, _ := s.Core.Stopped(epoch, now)
		return fx.With(ended)
	})
	s.host.MoveAborted(epoch, why.Error())
}

// Parts returns the encoded states of the shard's entities, and what moves with them, in envelopes
// small enough for the broker.
func (s *Shard) Parts(epoch placement.Epoch, with Carried) []*wire.Envelope {
	var states []region.Encoded
	if s.cfg.Drops {
		with.Reminders = nil
	} else {
		s.Mu.Lock()
		states = s.Core.States()
		s.Mu.Unlock()
	}
	limit := s.host.MaxPayload() - wire.MaxFrameHeader - wire.Overhead - 2*transport.MaxNameBytes
	payloads := pack(states, with, limit)
	parts := make([]*wire.Envelope, len(payloads))
	for i, b := range payloads {
		parts[i] = s.envelope(wire.TypeInit, epoch)
		parts[i].Payload, parts[i].Last = b, i == len(payloads)-1
	}
	return parts
}

func (s *Shard) prepare(from Session, epoch placement.Epoch, e *wire.Envelope) {
	states, with, err := unpack(e.Payload)
	with.Epoch = epoch
	s.Mu.Lock()
	refused := err != nil || s.host.Exiting()
	ready := false
	if !refused {
		ready, refused = s.Core.Prepare(from.Peer().Address, epoch, states, e.Last)
	}
	switch {
	case refused:
		r := s.envelope(wire.TypeReject, epoch)
		r.Text = []byte("it knows a newer placement, or leaves")
		if err != nil {
			r.Text = []byte(err.Error())
		}
		s.postTo(from, r)
	case ready:
		s.postTo(from, s.envelope(wire.TypeReady, epoch))
	}
	if !refused {
		s.host.Arrived(with)
	}
	s.Mu.Unlock()
	from.Flush()
	s.host.Progress()
}

func (s *Shard) ready(from transport.Address, epoch placement.Epoch) {
	s.Do(func(uint32, time.Time) region.Effects { return s.Core.Ready(from, epoch) })
	s.host.Release()
	s.watchDrain(epoch) // the shard drains only now if it served calls until now
}

// OpenAt opens the shard here, because from, its former home, has sent Open or has departed.
func (s *Shard) OpenAt(from transport.Address, epoch placement.Epoch) {
	s.Do(func(now uint32, at time.Time) region.Effects {
		fx := s.Core.OpenAt(from, epoch, now, at)
		if fx.Opened {
			s.host.Count(MovedIn)
		}
		return fx
	})
}

// CancelMove cancels a move. It reports whether the move is cancelled at this process.
func (s *Shard) CancelMove(epoch placement.Epoch) (off bool) {
	s.Do(func(uint32, time.Time) region.Effects {
		var fx region.Effects
		fx, off = s.Core.CancelMove(epoch)
		return fx
	})
	return off
}

// FlushOf returns the Flush that an envelope passes on. If the Flush's final home cannot be
// decoded, the Flush gets none, and the barrier at that home times out.
func FlushOf(e *wire.Envelope) region.Flush {
	f := region.Flush{Sender: e.Node, Via: e.Via, Epoch: placement.Epoch(e.Epoch), Hop: placement.Epoch(e.Hop)}
	if to, err := wire.ParsePeer(e.Payload); err == nil {
		f.To = to.Address
	}
	return f
}

// Step handles an envelope that another process has sent to move the shard. It reports false if the
// envelope is not a part of a move. For the message Open, Step calls the function opens or, if
// opens is nil, OpenAt.
func (s *Shard) Step(from Session, e *wire.Envelope, opens func(from transport.Address, epoch placement.Epoch)) bool {
	epoch, a := placement.Epoch(e.Epoch), from.Peer().Address
	switch e.Type {
	case wire.TypeInit:
		s.prepare(from, epoch, e)
	case wire.TypeReady:
		s.ready(a, epoch)
	case wire.TypeOpen:
		if opens == nil {
			opens = s.OpenAt
		}
		refused, departed := openPayload(e.Payload)
		s.Do(func(uint32, time.Time) region.Effects { return s.Core.RefuseWaiting(a, epoch, refused) })
		opens(a, epoch)
		s.hearOpen(refused, departed)
	case wire.TypeReject:
		s.host.MoveAborted(epoch, "the new home refused: "+string(e.Text))
	case wire.TypeBarrier:
		s.CloseBarrier(a, e.Via.Address, epoch, e.Last)
	case wire.TypeFlushed:
		s.Flushed(FlushOf(e))
	default:
		return false
	}
	return true
}

// Obey carries out the coordinator's order about the shard. It returns the answer to the order; nil
// means no answer.
func (s *Shard) Obey(m coordinator.Message, term placement.Term) coordinator.Message {
	switch m := m.(type) {
	case coordinator.MoveBegin:
		if epoch, home := s.Placement(); home == s.cfg.Self && epoch == m.From {
			s.BeginMove(m.To, m.Epoch)
		}
		if status, ok := s.status(m.Epoch, term); ok {
			return status
		}
	case coordinator.MoveCancel:
		if s.CancelMove(m.Epoch) {
			return coordinator.MoveCancelled(m)
		}
		if status, ok := s.status(m.Epoch, term); ok {
			return status
		}
		return coordinator.MoveDone{Term: term, ShardID: m.ShardID, Epoch: m.Epoch}
	}
	return nil
}

// status returns the progress of a move away. ok is false if there is none.
func (s *Shard) status(epoch placement.Epoch, term placement.Term) (m coordinator.MoveStatus, ok bool) {
	s.Mu.Lock()
	o, ok := standing(s.Core)
	s.Mu.Unlock()
	if !ok || o.State == coordinator.Preparing || o.State == coordinator.Prepared ||
		o.State == coordinator.Active && o.Epoch >= epoch {
		return m, false
	}
	return coordinator.MoveStatus{Term: term, ShardID: s.ID, Epoch: epoch, State: o.State}, true
}

// Needed reports whether this process, if it leaves, must wait for the shard: the shard is here or
// moving here or away, calls wait here, or a sender's Flush is still to come.
func (s *Shard) Needed() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Core.Settled() {
		return false
	}
	o, ok := standing(s.Core)
	return ok && (o.State != coordinator.Forwarding || s.holdsLocked() || s.Core.Owes(s.host.Now()))
}

// Owes reports whether a sender must still send a Flush: see region.Shard.Owes.
func (s *Shard) Owes() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Core.Owes(s.host.Now())
}

// Held returns what this process tells a coordinator about its part of the shard. It reports false
// if this process has no part of the shard. It also reports false if the shard has moved away and
// no more calls for it are expected at this process.
func (s *Shard) Held() (o coordinator.HeldShard, ok bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Core.Settled() {
		return o, false
	}
	return standing(s.Core)
}

// standing returns the shard's registration for the coordinator. It reports false if the shard is
// not here.
func standing(s *region.Shard) (o coordinator.HeldShard, ok bool) {
	o = coordinator.HeldShard{ShardID: s.ID(), Epoch: s.Epoch(), Move: s.MoveEpoch(), Peer: s.Peer()}
	switch s.State() {
	case region.Open:
		o.State, o.Move, o.Peer = coordinator.Active, 0, transport.Address{}
		if to, epoch, ok := s.Underway(); ok { // the shard still serves calls, and will move
			o.State, o.Move, o.Peer = coordinator.Draining, epoch, to
		}
	case region.Draining:
		o.State = coordinator.Draining
	case region.Sent:
		o.State = coordinator.Sent
	case region.Forwarding:
		o.State, o.Epoch = coordinator.Forwarding, s.LastEpoch()
	case region.Preparing:
		o.State, o.Epoch = coordinator.Preparing, 0
	case region.Prepared:
		o.State, o.Epoch = coordinator.Prepared, 0
	default:
		return o, false
	}
	return o, true
}
