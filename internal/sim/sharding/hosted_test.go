package sharding

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A hosted is a shard at a process. It is the production code, on the process's virtual time, links
// and entities.
type hosted struct {
	shardhost.Shard
	process *process

	// The following fields are for the oracle.
	queued  map[*inCall]bool // calls that wait in the shard
	running map[*inCall]*region.Entity
	told    *inCall             // the last running call that was found cancelled
	silent  []transport.Address // the processes that have departed, as the latest old home reports
	sent    placement.Epoch     // the epoch of the latest move whose state was sent from here
	aborted placement.Epoch     // the epoch of the latest move that was given up here
}

var _ shardhost.Host = (*hosted)(nil)

// An inCall is a call as the hosting side holds it.
type inCall struct {
	shardhost.Call
	granted func(e *region.Entity) // called for a local caller: with its entity, or nil to choose the way again
}

// drainBound is how long a step of a move may take. After that the move is given up.
const drainBound = 300 * time.Millisecond

// limits returns a shard's limits. Small limits make it refuse calls.
func (p plan) limits(kind string) region.Limits {
	l := region.Limits{Mailbox: 10_000, Waiting: 10_000, Handoff: p.handoffOf(kind)}
	if p.small {
		l.Mailbox, l.Waiting = 2, 4
	}
	return l
}

func newHosted(p *process, id placement.ShardID) *hosted {
	s := &hosted{process: p, queued: map[*inCall]bool{}, running: map[*inCall]*region.Entity{}}
	s.Init(id, s, &shardhost.Config{
		Kind: []byte(id.Kind), Self: p.self.Address, CallTimeout: callTimeout, HandoffTimeout: drainBound,
		Drops: p.w.plan.handoffOf(id.Kind).DropState, Settles: true,
		Clock: new(atomic.Uint32), // the clock stands still, so no idle entity is passivated
	}, p.w.plan.limits(id.Kind))
	return s
}

func inCallOf(c *region.Call) *inCall { return c.Driver.(*inCall) }

func newInCall(from transport.Peer, e *wire.Envelope, w *world) *inCall {
	c := &inCall{}
	c.Fill(from, e, int64(w.now.Sub(epochStart)))
	c.Driver = c
	return c
}

// over returns the call's deadline; zero means none.
func (c *inCall) over() (at time.Time) {
	if c.Deadline == 0 {
		return at
	}
	return epochStart.Add(time.Duration(c.Deadline))
}

// deliver brings a call or a tell that arrived on a link to its shard.
func (p *process) deliver(l *link, e *wire.Envelope, seq uint64) {
	s := p.shards[placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}]
	if s == nil {
		p.w.fail("%s hosts nothing, but got %s", p.name, label(e))
		return
	}
	c := newInCall(l.Peer(), e, p.w)
	entity, v := s.Deliver(&c.Call, p.w.now, nil)
	s.delivered(c, v)
	if v == region.Run {
		s.turn(entity, c)
	}
	if r, refused := s.Refusal(&c.Call, v); refused {
		if to, answer := p.data.Refuse(l, theLane, e, seq, r); answer != nil {
			to.(*link).append(answer)
		}
	}
}

func (s *hosted) delivered(c *inCall, v region.Verdict) {
	if v == region.Queued {
		s.queued[c] = true
	}
	s.process.w.log("%s: %s of %s via %q at %v is %v (%v since %v)",
		s.process.name, c.Args, c.Sender.Name, c.Via.Name, c.Epoch, v, s.Core.State(), s.Core.Epoch())
}

// accept takes an encoded call of this process. The call came by a route that leads to this shard
// as long as current returns true.
func (s *hosted) accept(e *wire.Envelope, current func() bool) bool {
	k := keep(e)
	c := newInCall(s.process.self, &k, s.process.w)
	entity, v := s.Deliver(&c.Call, s.process.w.now, current)
	s.delivered(c, v)
	return s.Accepted(&c.Call, entity, v)
}

// Enqueue takes a call that waited for the shard to open.
func (s *hosted) Enqueue(e *wire.Envelope) {
	if !s.accept(e, nil) {
		s.process.w.oracle.lose(e, "its own shard refused it")
		s.process.pending.Complete(e.ID, calls.Result{Code: wire.CodeMoved})
	}
}

func (s *hosted) Now() time.Time { return s.process.w.now }

func (s *hosted) Elapsed() int64 { return int64(s.process.w.now.Sub(epochStart)) }

// After calls f after d, unless the process has ended.
func (s *hosted) After(d time.Duration, f func()) { s.process.after(d, f) }

func (s *hosted) Session(to transport.Peer) (shardhost.Session, bool) {
	l := s.process.link(to.Address)
	return l, l != nil
}

// Departed returns the latest processes from which no more messages come.
func (s *hosted) Departed() []transport.Address { return s.process.silent }

// HasDeparted reports whether no more messages come from a process.
func (s *hosted) HasDeparted(a transport.Address) bool { return s.process.silenced(a) }

func (s *hosted) Departs(a transport.Address) bool { return s.process.data.Departs(a) }

// MaxPayload is so small that the state of a shard takes several messages. At some processes the
// state of one entity takes several.
func (s *hosted) MaxPayload() int {
	room := [...]int{40, 60, 200}
	return wire.MaxFrameHeader + wire.Overhead + 2*transport.MaxNameBytes + room[s.process.number%len(room)]
}

func (s *hosted) Learn(home transport.Address, epoch placement.Epoch) {
	s.process.routes[s.ID].Learn(home, epoch, false)
}

func (s *hosted) Run(e *region.Entity, c *shardhost.Call) {
	delete(s.queued, inCallOf(&c.Call))
	s.turn(e, inCallOf(&c.Call))
}

// Grant lets a local caller go on.
func (s *hosted) Grant(c *shardhost.Call, e *region.Entity) {
	granted := inCallOf(&c.Call).granted
	delete(s.queued, inCallOf(&c.Call))
	s.process.after(0, func() { granted(e) })
}

// Lead fails the run, because it is only for singletons.
func (s *hosted) Lead(e *region.Entity) { s.process.w.fail("%s leads", e.ID) }

func (s *hosted) Release() {}

func (s *hosted) Drained() { s.process.after(0, s.HandOff) }

// errEncode is the error for some states that are to be encoded.
var errEncode = errors.New("simulated: the state does not encode")

// StopEntities runs the stop hooks, each of which takes a moment.
func (s *hosted) StopEntities(entities []*region.Entity, done func(error)) {
	p, epoch := s.process, s.Core.MoveEpoch()
	if p.w.plan.aborts && p.w.one(20) {
		p.after(0, func() {
			done(errEncode)
			if s.aborted != epoch {
				p.w.fail("%s: %v at %v does not encode, and the move goes on", p.name, s.ID, epoch)
			}
		})
		return
	}
	s.stopNext(entities, func(err error) {
		done(err)
		if p.w.plan.aborts && p.w.one(4) { // as if the new home took too long
			p.after(p.w.upTo(8*time.Millisecond), func() {
				if s.Core.State() == region.Sent && s.Core.MoveEpoch() == epoch {
					s.MoveAborted(epoch, "simulated")
				}
			})
		}
	})
}

func (s *hosted) stopNext(entities []*region.Entity, done func(error)) {
	p := s.process
	p.after(p.w.upTo(3*time.Millisecond), func() {
		if len(entities) == 0 || !s.MayStop(entities[0]) {
			done(nil)
			return
		}
		s.passivate(entities[0])
		s.stopNext(entities[1:], done)
	})
}

// Changed reports to the oracle that the shard runs here from now on.
func (s *hosted) Changed(opened bool) {
	p := s.process
	p.w.log("%s: %v %v at %v of %s", p.name, s.ID, s.Core.State(), s.Core.Epoch(), s.Core.Home().Name)
	if opened {
		p.w.oracle.opened(s)
	}
	if epoch := s.Core.MoveEpoch(); s.Core.State() == region.Sent && epoch != s.sent && !s.Core.Peer().IsZero() {
		s.sent = epoch
		p.after(drainBound+time.Millisecond, func() {
			if s.Core.State() == region.Sent && s.Core.MoveEpoch() == epoch && s.aborted != epoch {
				p.w.fail("%s: %v at %v was sent %v ago, and nobody gives the move up", p.name, s.ID, epoch, drainBound)
			}
		})
	}
}

func (s *hosted) TurnEnded() {}

// Answer brings an answer to the call's sender.
func (s *hosted) Answer(c *shardhost.Call, e *wire.Envelope) {
	p := s.process
	delete(s.queued, inCallOf(&c.Call))
	if e.Code == wire.CodeMoved && (placement.Epoch(e.Epoch) != s.Core.Epoch() || e.Node.Address != s.Core.Home()) {
		p.w.fail("%s: %s is answered that %v moved to %s at %v, and it is at %s at %v",
			p.name, c.Args, s.ID, e.Node.Address.Name, placement.Epoch(e.Epoch), s.Core.Home().Name, s.Core.Epoch())
	}
	if c.Sender.Address == p.self.Address {
		p.data.Answer(e)
		return
	}
	p.link(c.Sender.Address).append(e)
}

// Forwarded records where a call of this process was forwarded to.
func (s *hosted) Forwarded(c *shardhost.Call, to shardhost.Session, seq uint64) {
	p, l := s.process, to.(*link)
	delete(s.queued, inCallOf(&c.Call))
	p.w.log("%s: forwards %s of %s to %s", p.name, c.Args, c.Sender.Name, l.Peer().Name)
	if c.Sender.Address == p.self.Address && !c.Tell {
		p.pending.Sent(c.ID, l, seq)
	}
}

func (s *hosted) LoseTell(c *shardhost.Call) {
	delete(s.queued, inCallOf(&c.Call))
	s.process.w.oracle.lose(&wire.Envelope{Type: wire.TypeTell, Payload: c.Args}, "taken in and then refused")
}

// Canceler records the call. It cancels nothing, because turns ignore their contexts.
func (s *hosted) Canceler(c *shardhost.Call) func() {
	s.told = inCallOf(&c.Call)
	return nil
}

// InDoubt answers a call of another process whose turn lasts longer than this process.
func (s *hosted) InDoubt(c *shardhost.Call) func() {
	p := s.process
	return func() {
		p.w.log("%s: %s of %s is in doubt", p.name, c.Args, c.Sender.Name)
		if l := p.link(c.Sender.Address); l != nil {
			l.append(&wire.Envelope{Type: wire.TypeAnswer, ID: c.ID, Code: wire.CodeInDoubt})
		}
	}
}

// Why fails the run for a verdict that no call may get.
func (s *hosted) Why(c *shardhost.Call, v region.Verdict) string {
	if v == region.Circular {
		s.process.w.fail("%s: call %s gets the verdict %v", s.process.name, c.Args, v)
	}
	return v.String()
}

// Exiting reports whether the process takes no more shards.
func (s *hosted) Exiting() bool { return s.process.control.exiting }

// MoveDone makes the control plane report the shard.
func (s *hosted) MoveDone(e placement.Epoch) {
	if s.Core.State() == region.Sent { // an instance of the pool has ended, so its state is dropped
		s.process.w.oracle.life(s.process).lost[s.ID] = true
	}
	s.process.onLoop(func(c *member) { c.MoveDone(s.ID, e) })
}

// MoveAborted makes the control plane give the move up.
func (s *hosted) MoveAborted(e placement.Epoch, reason string) {
	s.aborted = max(s.aborted, e) // an old move may be refused late
	s.process.onLoop(func(c *member) { c.MoveAborted(s.ID, e, reason) })
}

func (s *hosted) Progress() { s.process.onLoop(func(c *member) { c.Progress(s.ID) }) }

func (s *hosted) Carried() shardhost.Carried { return shardhost.Carried{} }

// Arrived does nothing. It is called for each part of the state that arrives.
func (s *hosted) Arrived(shardhost.Carried) {
	if s.Exiting() {
		s.process.w.fail("%s leaves, and takes %v", s.process.name, s.ID)
	}
}

func (s *hosted) BarrierTimedOut(b region.Shut) {
	s.process.w.oracle.timedOut(s.process, 1)
	s.waitsForDeparted(b)
}

// waitsForDeparted fails the run for a barrier that waits for a process from which no more messages
// come.
func (s *hosted) waitsForDeparted(b region.Shut) {
	if s.HasDeparted(b.Via) || slices.Contains(s.silent, b.Via) {
		s.process.w.fail("%s: %v has a barrier for %s that waits for %s, which has departed", s.process.name, s.ID, b.Sender.Name, b.Via.Name)
	}
}

// MoveStep handles an envelope of a move. It records the departed processes that the old home
// reports.
func (s *hosted) MoveStep(from shardhost.Session, e *wire.Envelope) bool {
	ok := s.Step(from, e, nil)
	if e.Type != wire.TypeOpen {
		return ok
	}
	word, err := wire.ParseOpenPayload(e.Payload)
	if err != nil {
		s.process.w.fail("%v", err)
	}
	if len(word.Departed) > 0 {
		s.silent = word.Departed
	}
	for _, b := range s.Core.Overdue(s.process.w.now.Add(time.Hour)) { // all closed barriers
		s.waitsForDeparted(b)
	}
	return ok
}

// Cancel cancels a call of a process, and records whether the call still waited. A running call
// must be found, unless its shard was lost. No other call may be found.
func (s *hosted) Cancel(from transport.Address, entity string, id uint64) bool {
	s.told = nil
	waited := s.Shard.Cancel(from, entity, id)
	var runs *inCall
	for c, e := range s.running {
		if c.Sender.Address == from && c.ID == id && !e.Lost() {
			runs = c
		}
	}
	if s.told != runs {
		s.process.w.fail("%s: %d of %s at %s is cancelled: running %v, found %v", s.process.name, id, from.Name, entity, runs != nil, s.told != nil)
	} else if runs != nil {
		s.process.w.oracle.cancelled++
	}
	for c := range s.queued {
		if waited && c.Sender.Address == from && c.ID == id {
			delete(s.queued, c)
		}
	}
	return waited
}

func (s *hosted) Count(shardhost.Counter) {}

// passivate encodes an entity's state and keeps the bytes.
func (s *hosted) passivate(e *region.Entity) {
	if c := e.Turn(); c != nil {
		s.process.w.fail("%s: %v: %s is passivated during the turn of %s", s.process.name, s.ID, e.ID, inCallOf(c).Args)
	}
	if v, ok := e.Value.(*value); ok {
		e.SetState(binary.BigEndian.AppendUint64([]byte{}, v.turns), codegen.Reactivated)
		e.Value = nil
	}
}

func (s *hosted) wake(e *region.Entity) *value {
	v := &value{}
	if e.State() != nil {
		v.turns = binary.BigEndian.Uint64(e.State())
	}
	e.Value = v
	e.SetState(nil, codegen.Fresh)
	return v
}
