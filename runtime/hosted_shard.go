package shard

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/transport"
)

// hostedShard drives one region.Shard: its lock, its turns, its moves.
//
// Lock order: route.mu, then hostedShard.mu, then path.mu.
type hostedShard struct {
	host *host
	id   placement.ShardID
	lane int

	mu      sync.Mutex
	core    *region.Shard
	sweeper *time.Timer         // opens gates and ends waiting that lasted too long
	silent  []transport.Address // in the old home's words, when it gave the shard to this node

	failures map[string]failure             // of entities that were restarted, by id
	resting  map[*region.Entity]*time.Timer // restarted, and waiting for their back-off
	reviving map[string]*time.Timer         // remembered, and waiting for being started again

	turnEnded chan struct{} // closed when turns end; nil: nobody waits for that

	unsent int // how often in a row the shard could not move, for state that does not encode; handOff's

	remembers bool     // the memory knows that the shard runs here
	coming    *luggage // remembered ids that come with the shard
}

func (s *hostedShard) init(h *host, id placement.ShardID, l region.Limits) {
	s.host, s.id, s.lane = h, id, h.plane.laneOf(id.Shard)
	s.core = region.New(id, h.plane.self.Address, l)
	s.core.Driver = s
}

func (s *hostedShard) plane() *plane { return s.host.plane }

// deliver brings a call to the shard, or on to its next home. A local caller that
// would have to be forwarded looks for the home itself.
func (s *hostedShard) deliver(c *region.Call, at time.Time) (*region.Entity, region.Verdict) {
	return s.deliverBy(c, at, nil, nil)
}

// deliverBy is deliver for a call that comes by a route of this process, which
// must still lead there; else Moved.
func (s *hostedShard) deliverBy(c *region.Call, at time.Time, r *route, t *target) (*region.Entity, region.Verdict) {
	s.mu.Lock()
	if r != nil && r.target.Load() != t {
		s.mu.Unlock()
		return nil, region.Moved
	}
	e, v := s.core.Deliver(c, s.plane().clock.Load(), at)
	var after []func()
	switch {
	case v == region.Queued:
		inbound(c).detach()
		s.sweepLocked()
	case v == region.Forward && !c.Local: // at once: nothing may come between
		s.forwardLocked(inbound(c), &after)
	}
	s.mu.Unlock()
	for _, a := range after {
		a()
	}
	return e, v
}

// direct tells whether this process's calls go straight here, as its route has it.
func (s *hostedShard) direct(on bool) {
	if s.host.instance != nil || !s.host.settings.inline {
		return // a singleton's turns end under the lock; and who does not want it, queues
	}
	s.mu.Lock()
	s.core.Direct(on)
	s.mu.Unlock()
}

// placement is who owns the shard, as far as this node knows.
func (s *hostedShard) placement() (placement.Epoch, transport.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Epoch(), s.core.Owner()
}

// enqueue brings an encoded call of this process to the shard. It reports false
// when the shard is not here any more, or the route left it meanwhile, and the
// call must look for its home anew: behind the route's Flush it would be late.
// An error is that there is no room for a tell, which its sender would not hear
// otherwise.
func (s *hostedShard) enqueue(e *wire.Envelope, r *route, t *target) (settled bool, err error) {
	if e.Type == wire.TypeTell {
		return s.enqueueTold(e, r, t)
	}
	pl := s.plane()
	at := time.Now()
	c := pl.newInCall(pl.self, e, s.lane, at)
	c.args, c.ownsArgs = append(codegen.NewArgs(), e.Payload...), true
	if s.accept(c, at, r, t) {
		return true, nil
	}
	c.recycle()
	return false, nil
}

// enqueueKept is enqueue for an envelope that belongs to the shard already, when
// there is no looking anew.
func (s *hostedShard) enqueueKept(e *wire.Envelope) {
	pl := s.plane()
	at := time.Now()
	if c := pl.newInCall(pl.self, e, s.lane, at); !s.accept(c, at, nil, nil) {
		pl.answerCode(c, wire.CodeMoved, "")
	}
}

// accept has a call of this process run here, now or later, or answers it. It
// reports false when the call must look for its home anew.
func (s *hostedShard) accept(c *inCall, at time.Time, r *route, t *target) bool {
	entity, v := s.deliverBy(&c.Call, at, r, t)
	return s.accepted(c, entity, v)
}

// accepted is the rest of accept, for a call that was delivered.
func (s *hostedShard) accepted(c *inCall, entity *region.Entity, v region.Verdict) bool {
	pl := s.plane()
	switch v {
	case region.Run:
		s.run(entity, c)
	case region.Moved:
		return false
	case region.Overloaded:
		pl.answerCode(c, wire.CodeOverloaded, s.noRoom(&c.Call).Error())
	case region.Shed:
		pl.answerCode(c, wire.CodeDropped, "")
	case region.Circular:
		pl.answerCode(c, wire.CodeCircular, chain(c.chain).String()+s.id.Kind+"/"+clip(c.Entity))
	}
	return true
}

// answerCode answers a call that was accepted and then could not run.
func (pl *plane) answerCode(c *inCall, code wire.Code, text string) {
	pl.ledger.add(callRefused)
	if c.id == 0 {
		pl.ledger.add(tellLost)
		return
	}
	pl.answer(c, &wire.Envelope{Type: wire.TypeReply, ID: c.id, Code: code, Text: []byte(text)}, nil)
}

// answer brings a reply to the call's sender: into this process's own table, or
// onto its path, to be published by by; at once if that is nil.
func (pl *plane) answer(c *inCall, e *wire.Envelope, by publisher) {
	if c.id == 0 {
		return
	}
	if c.Sender.Address == pl.self.Address {
		pl.reply(e)
		return
	}
	if c.from != nil && c.Via.IsZero() && c.from.answer(e, by) {
		return
	}
	// It was forwarded, or its sender is known anew.
	if p := pl.path(c.Sender, c.lane); p == nil || !p.answer(e, by) {
		pl.ledger.add(dropNoPeer)
	}
}

// answer appends an envelope that is not a call, to be published by by; at once if
// that is nil. It reports false when the peer is gone.
func (p *path) answer(e *wire.Envelope, by publisher) bool {
	p.mu.Lock()
	_, err := p.appendLocked(e)
	if errors.Is(err, errTooLarge) && e.Type == wire.TypeReply {
		_, err = p.appendLocked(tooLarge(e, err))
	}
	if err == nil && by == nil && !p.writing {
		p.publishLocked(false)
	}
	p.mu.Unlock()
	if err == nil && by != nil {
		by.publishLater(p)
	}
	return err == nil
}

// apply does what the core says. The caller holds mu; what cannot be done under
// it is returned, to be called after it was released.
func (s *hostedShard) apply(fx region.Effects) (after []func()) {
	pl := s.plane()
	if fx.Lead != nil {
		after = append(after, func() { s.host.instance.lead(fx.Lead) })
	}
	for _, st := range fx.Start {
		after = append(after, func() { s.start(st) })
	}
	for _, c := range fx.Forward {
		s.forwardLocked(inbound(c), &after)
	}
	for _, f := range fx.Flushed {
		to, hop := s.core.FlushTo(f)
		if to.IsZero() {
			continue
		}
		if p := pl.path(transport.Peer{Address: to}, s.lane); p != nil {
			e := s.step(wire.TypeFlushed, f.Epoch)
			e.Node, e.Via, e.Hop = f.Sender, f.Via, uint64(hop)
			_ = p.append(e)
			after = append(after, func() { p.flush() })
		}
	}
	if fx.Open {
		owner, epoch := s.core.Owner(), s.core.Epoch()
		p := pl.path(transport.Peer{Address: owner}, s.lane)
		if p != nil {
			_ = p.append(s.openLocked())
			pl.ledger.add(shardMovedOut)
		}
		after = append(after, func() {
			s.host.kind.route(s.id.Shard).learn(owner, epoch, false)
			if p != nil {
				p.flush()
			}
			pl.ctl.progress(s.id)
		})
	}
	for _, c := range fx.Refuse {
		epoch, owner := s.core.Epoch(), s.core.Owner()
		after = append(after, func() { s.refuse(inbound(c), epoch, owner) })
	}
	for _, c := range fx.Drop {
		after = append(after, func() { s.drop(inbound(c)) })
	}
	s.rememberLocked(fx.Opened)
	if fx.Offer {
		s.offerLocked(&after)
	}
	if fx.Drained {
		after = append(after, func() { pl.wg.Go(s.handOff) })
	}
	if fx.Opened {
		epoch := s.core.Epoch()
		after = append(after, func() {
			s.host.kind.route(s.id.Shard).learn(pl.self.Address, epoch, false)
			pl.ctl.moveDone(s.id, epoch)
		})
	}
	s.sweepSoonLocked()
	return after
}

// do applies what f's change of the core asks for.
func (s *hostedShard) do(f func(now uint32, at time.Time) region.Effects) {
	s.mu.Lock()
	held := s.holdsLocked()
	after := s.apply(f(s.plane().clock.Load(), time.Now()))
	s.turnEndedLocked() // with the hooks of a move, or when the shard was lost
	settled := held && !s.holdsLocked()
	s.mu.Unlock()
	for _, a := range after {
		a()
	}
	if settled {
		s.plane().ctl.progress(s.id) // who leaves waits for that
	}
}

func (s *hostedShard) step(t wire.Type, epoch placement.Epoch) *wire.Envelope {
	return &wire.Envelope{Type: t, Kind: s.host.kind.name, Shard: s.id.Shard, Epoch: uint64(epoch)}
}

// start runs a turn that has begun for a call that waited.
func (s *hostedShard) start(st region.Start) {
	c := inbound(st.Call)
	if c.granted != nil {
		c.granted <- grant{entity: st.Entity}
		return
	}
	s.run(st.Entity, c)
}

// run has a turn run that has begun.
func (s *hostedShard) run(e *region.Entity, c *inCall) {
	s.plane().runner(s.id.Shard).add(e, c)
}

// forwardLocked sends a call on to the shard's next home.
func (s *hostedShard) forwardLocked(c *inCall, after *[]func()) {
	pl := s.plane()
	if c.granted != nil {
		c.granted <- grant{again: true}
		return
	}
	to, epoch := s.core.Successor(c.Epoch)
	p := pl.path(transport.Peer{Address: to}, s.lane)
	e := c.envelope(s)
	e.Epoch, e.Node = uint64(epoch), c.Sender
	var seq uint64
	err := errPeerGone
	if p != nil {
		p.mu.Lock()
		seq, err = p.appendLocked(e)
		p.mu.Unlock()
	}
	if errors.Is(err, errTooLarge) {
		if c.id == 0 {
			pl.ledger.add(tellLost)
		}
		*after = append(*after, func() { pl.answerCode(c, wire.CodeUnsendable, err.Error()) })
		return
	}
	if err != nil {
		*after = append(*after, func() { s.drop(c) })
		return
	}
	pl.ledger.add(callForwarded)
	if c.Sender.Address == pl.self.Address && c.id != 0 {
		pl.pending.sent(c.id, p, seq)
	}
	*after = append(*after, func() { p.flush() })
}

// envelope is the call as it travels.
func (c *inCall) envelope(s *hostedShard) *wire.Envelope {
	e := &wire.Envelope{
		Type: wire.TypeCall, ID: c.id, Kind: s.host.kind.name, Shard: s.id.Shard,
		Entity: []byte(c.Entity), Method: c.method, Payload: c.args, Chain: c.chain,
	}
	if c.tell {
		e.Type = wire.TypeTell
	}
	if c.deadline != 0 {
		left := time.Duration(c.deadline) - time.Since(s.plane().lease.base)
		e.Timeout = uint64(max(left.Microseconds(), 1))
	}
	return e
}

// refuse answers that the shard is elsewhere.
func (s *hostedShard) refuse(c *inCall, epoch placement.Epoch, owner transport.Address) {
	if c.granted != nil {
		c.granted <- grant{again: true}
		return
	}
	pl := s.plane()
	pl.ledger.add(callRefused)
	if c.id == 0 {
		pl.ledger.add(tellLost)
		return
	}
	pl.answer(c, &wire.Envelope{
		Type: wire.TypeReply, ID: c.id, Code: wire.CodeMoved, Kind: s.host.kind.name, Shard: s.id.Shard,
		Epoch: uint64(epoch), Node: transport.Peer{Address: owner},
	}, nil)
}

// drop answers that the call was accepted and cannot run here any more.
func (s *hostedShard) drop(c *inCall) {
	if c.granted != nil {
		c.granted <- grant{again: true}
		return
	}
	s.plane().ledger.add(callDropped)
	s.plane().answerCode(c, wire.CodeDropped, "")
}

// holdsCalls tells whether calls wait here for more than a turn.
func (s *hostedShard) holdsCalls() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holdsLocked()
}

func (s *hostedShard) holdsLocked() bool { return s.core.Waiting() > 0 || s.core.Gated() }

// sweepEvery is how often waiting calls are looked at.
const sweepEvery = 250 * time.Millisecond

// sweepLocked makes sure that what waits is looked at again.
func (s *hostedShard) sweepLocked() {
	if s.sweeper == nil {
		s.sweeper = time.AfterFunc(sweepEvery, s.sweep)
	}
}

// sweep opens gates whose time is over and refuses calls that wait too long.
func (s *hostedShard) sweep() {
	s.mu.Lock()
	s.sweeper = nil
	s.mu.Unlock()
	if s.plane().closed() {
		return
	}
	s.mu.Lock()
	overdue, state := s.core.Overdue(time.Now()), s.core.State()
	s.mu.Unlock()
	for _, g := range overdue {
		s.plane().ledger.add(gateTimedOut)
		s.plane().log.Warn("a sender's calls waited in vain for what it had sent by way of the shard's old home",
			"shard", s.id.String(), "state", state.String(), "sender", g.Sender.String(), "via", g.Via.String(),
			"epoch", g.Epoch.String(), "calls", g.Held, "after", region.GateTimeout)
	}
	s.openGates(func(transport.Address) bool { return false })
	s.mu.Lock()
	late := s.core.Expire(time.Now().Add(-s.plane().cfg.CallTimeout))
	epoch, owner := s.core.Epoch(), s.core.Owner()
	s.mu.Unlock()
	for _, c := range late {
		s.refuse(inbound(c), epoch, owner)
	}
	s.mu.Lock()
	s.core.Settle(time.Now())
	s.sweepSoonLocked()
	s.mu.Unlock()
}

// sweepSoonLocked has the shard looked at again if anything here waits for time to pass.
// No table names a singleton's home, so a singleton's shard does not settle.
func (s *hostedShard) sweepSoonLocked() {
	if s.core.Gated() || s.core.Waiting() > 0 || s.host.instance == nil && s.core.Unsettled() {
		s.sweepLocked()
	}
}

func (s *hostedShard) openGates(gone func(transport.Address) bool) {
	s.do(func(now uint32, at time.Time) region.Effects { return s.core.OpenGates(gone, now, at) })
}

// cancel passes on that the caller of a call gave up. It reports whether the call
// still waited, and so will not run.
func (s *hostedShard) cancel(from transport.Peer, entity string, id uint64) (waited bool) {
	s.mu.Lock()
	c, running := s.core.Find(entity, func(c *region.Call) bool {
		return c.Sender.Address == from.Address && inbound(c).id == id
	})
	var turn *encodedTurn
	if c != nil && !running {
		waited = s.core.Cancel(c)
	} else if c != nil {
		turn = inbound(c).encoded.Load()
	}
	s.mu.Unlock()
	if turn != nil {
		turn.giveUp()
	}
	if waited {
		s.plane().ledger.add(callCancelled)
	}
	return waited
}

// place follows the table's entry.
func (s *hostedShard) place(owner transport.Address, epoch placement.Epoch, term uint32) {
	if pl := s.plane(); owner == pl.self.Address && pl.exiting.Load() {
		return // given to a node that leaves by one who did not know: it will be given anew
	}
	s.do(func(now uint32, at time.Time) region.Effects {
		known := s.core.Epoch()
		// A shard that opened here by a move is owned here, although the first table
		// of a new coordinator may still show the old home: MoveDone tells it.
		force := epoch < known && known.Term() < term && s.core.Owner() != s.plane().self.Address
		return s.core.Place(owner, epoch, force, now, at)
	})
}

// closeGate holds a sender's calls until its Flush came by way of via; from an
// old home that is silent for good nothing can come.
func (s *hostedShard) closeGate(sender, via transport.Address, epoch placement.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plane().silenced(via, s.lane) || slices.Contains(s.silent, via) {
		s.core.GoDirect(sender, epoch)
		return
	}
	s.core.CloseGate(sender, via, epoch, time.Now())
	s.sweepLocked()
}

// flush takes a sender's Flush from the sender itself.
func (s *hostedShard) flush(f region.Flush) {
	s.do(func(now uint32, at time.Time) region.Effects { return s.core.Flush(f, now, at) })
}

// flushed takes a Flush that came through its Via.
func (s *hostedShard) flushed(f region.Flush) {
	s.do(func(now uint32, at time.Time) region.Effects { return s.core.Flushed(f, now, at) })
}
