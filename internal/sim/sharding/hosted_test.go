package sharding

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/transport"
)

// A hosted drives one region.Shard.
type hosted struct {
	process  *process
	id       placement.ShardID
	core     *region.Shard
	sweeping bool
	touched  bool                // since it was checked last
	silent   []transport.Address // in the old home's words, when it gave the shard to this process
}

// An inCall is a call as the hosting side holds it.
type inCall struct {
	region.Call
	id      uint64
	payload string
	chain   []byte
	tell    bool
	over    time.Time              // its deadline; zero: none
	granted func(e *region.Entity) // of a local caller: its turn, or nil to look again
}

// drainBound is how long a turn may take before its shard stays after all.
const drainBound = 300 * time.Millisecond

// limits are those of a shard. Small ones have calls refused.
func (p plan) limits() region.Limits {
	l := region.Limits{Mailbox: 10_000, Waiting: 10_000, Handoff: p.handoff}
	if p.small {
		l.Mailbox, l.Waiting = 2, 4
	}
	return l
}

func newHosted(p *process, id placement.ShardID) *hosted {
	return &hosted{process: p, id: id, core: region.New(id, p.self.Address, p.w.plan.limits())}
}

// touch has the shard checked after this event.
func (s *hosted) touch() {
	if !s.touched {
		s.touched = true
		s.process.w.oracle.touched = append(s.process.w.oracle.touched, s)
	}
}

func inbound(c *region.Call) *inCall { return c.Driver.(*inCall) }

func newInCall(from transport.Peer, e *wire.Envelope, now time.Time) *inCall {
	c := &inCall{id: e.ID, payload: string(e.Payload), chain: e.Chain, tell: e.Type == wire.TypeTell}
	c.Entity, c.Sender, c.Epoch, c.Driver = string(e.Entity), from, placement.Epoch(e.Epoch), c
	if !e.Node.IsZero() {
		c.Sender, c.Via = e.Node, from.Address
	}
	if len(e.Chain) > 0 {
		c.Chain = chain(e.Chain)
	}
	if e.Timeout > 0 {
		c.over = now.Add(time.Duration(e.Timeout) * time.Microsecond)
	}
	return c
}

// chain is an encoded call chain.
type chain []byte

func (c chain) HoldsShard(s placement.ShardID) bool {
	return c.any(func(l wire.Link) bool { return l.Shard == s.Shard })
}

func (c chain) HoldsEntity(s placement.ShardID, entity string) bool {
	return c.any(func(l wire.Link) bool { return l.Shard == s.Shard && l.Entity == entity })
}

func (c chain) any(match func(wire.Link) bool) bool {
	links, err := wire.ParseChain(c)
	for _, l := range links {
		if match(l) {
			return true
		}
	}
	return err != nil
}

func (c *inCall) envelope(s *hosted) *wire.Envelope {
	e := &wire.Envelope{
		Type: wire.TypeCall, ID: c.id, Kind: []byte(s.id.Kind), Shard: s.id.Shard,
		Entity: []byte(c.Entity), Payload: []byte(c.payload), Chain: c.chain,
	}
	if c.tell {
		e.Type = wire.TypeTell
	}
	if !c.over.IsZero() {
		e.Timeout = uint64(max(c.over.Sub(s.process.w.now).Microseconds(), 1))
	}
	return e
}

// inbound is a call from the lane of l.
func (p *process) inbound(l *link, e *wire.Envelope, seq uint64) {
	s := p.shards[placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}]
	if s == nil {
		p.w.fail("%s hosts nothing and got %s", p.name, label(e))
		return
	}
	copied := keep(e)
	c := newInCall(l.peer, &copied, p.w.now)
	entity, v := s.deliver(c)
	answer := wire.Envelope{Type: wire.TypeRefusal, ID: e.ID, Kind: e.Kind, Shard: e.Shard, Seq: seq}
	switch v {
	case region.Run:
		s.turn(entity, c)
		return
	case region.Queued:
		return
	case region.Forward:
		s.forward(c)
		return
	case region.Moved:
		answer.Code, answer.Epoch, answer.Node = wire.CodeMoved, uint64(s.core.Epoch()), transport.Peer{Address: s.core.Owner()}
	case region.Overloaded:
		answer.Code = wire.CodeOverloaded
	case region.Shed:
		answer.Code = wire.CodeDropped
	case region.Circular:
		p.w.fail("%s: %s is %v", p.name, label(e), v)
	}
	to := l
	if !e.Node.IsZero() {
		answer.Type, answer.Seq = wire.TypeReply, 0
		to = p.link(e.Node.Address)
		if e.Type == wire.TypeTell {
			p.w.oracle.lose(e, "refused by way of an old home")
			return
		}
	}
	to.append(&answer)
}

func (s *hosted) deliver(c *inCall) (*region.Entity, region.Verdict) {
	e, v := s.core.Deliver(&c.Call, 0, s.process.w.now)
	s.touch()
	s.process.w.log("%s: %s of %s via %q at %v is %v (%v since %v)", s.process.name, c.payload, c.Sender.Name, c.Via.Name, c.Epoch, v, s.core.State(), s.core.Epoch())
	s.sweepLater()
	return e, v
}

// enqueue is for this process's own encoded calls.
func (s *hosted) enqueue(e *wire.Envelope) bool {
	k := keep(e)
	c := newInCall(s.process.self, &k, s.process.w.now)
	entity, v := s.deliver(c)
	switch v {
	case region.Run:
		s.turn(entity, c)
	case region.Queued:
	case region.Moved:
		return false
	case region.Forward:
		s.forward(c)
	case region.Overloaded:
		s.answer(c, wire.CodeOverloaded)
	case region.Shed:
		s.answer(c, wire.CodeDropped)
	case region.Circular:
		s.process.w.fail("%s: own %s is %v", s.process.name, c.payload, v)
	}
	return true
}

// do does what the core says.
func (s *hosted) do(fx region.Effects) {
	p := s.process
	s.touch()
	p.w.log("%s: %v %v at %v of %s", p.name, s.id, s.core.State(), s.core.Epoch(), s.core.Owner().Name)
	if fx.Opened {
		p.w.oracle.opened(s)
	}
	for _, st := range fx.Start {
		s.start(st.Entity, inbound(st.Call))
	}
	for _, c := range fx.Forward {
		s.forward(inbound(c))
	}
	for _, f := range fx.Flushed {
		to, hop := s.core.FlushTo(f)
		p.w.log("%s: %v passes the flush of %s via %s at %v to %s", p.name, s.id, f.Sender.Name, f.Via.Name, f.Epoch, to.Name)
		p.link(to).append(&wire.Envelope{
			Type: wire.TypeFlushed, Kind: []byte(s.id.Kind), Shard: s.id.Shard, Epoch: uint64(f.Epoch), Node: f.Sender, Via: f.Via, Hop: uint64(hop),
		})
	}
	if fx.Open {
		p.link(s.core.Owner()).append(s.openWord())
		p.routes[s.id].learn(s.core.Owner(), s.core.Epoch())
	}
	for _, c := range fx.Refuse {
		s.refuse(inbound(c))
	}
	for _, c := range fx.Drop {
		s.drop(inbound(c))
	}
	if fx.Offer {
		s.offer()
	}
	if fx.Drained {
		p.after(0, s.handOff)
	}
	if fx.Opened {
		p.routes[s.id].learn(p.self.Address, s.core.Epoch())
		p.control.opened(s.id, s.core.Epoch())
	}
	if fx.Open {
		p.control.progressed()
	}
	s.sweepLater()
}

// openWord is the word to the shard's new home that it may run, with those from
// which nothing comes any more, or too late.
func (s *hosted) openWord() *wire.Envelope {
	e := s.step(wire.TypeOpen, s.core.Epoch())
	w := wire.OpenWord{Silent: append(slices.Clone(s.silent), s.process.silent...)}
	for _, r := range s.core.RefusedWays() {
		w.Refused = append(w.Refused, wire.Way(r))
	}
	e.Payload = wire.AppendOpenWord(e.Payload, w)
	return e
}

// hearOpen notes whom the old home knows to be silent, and who comes too late.
func (s *hosted) hearOpen(payload []byte) {
	w, err := wire.ParseOpenWord(payload)
	if err != nil {
		s.process.w.fail("%v", err)
	}
	var refused []region.Way
	for _, r := range w.Refused {
		refused = append(refused, region.Way(r))
	}
	s.core.RefuseWays(refused)
	s.silent = w.Silent
	s.openGates(func(a transport.Address) bool { return slices.Contains(s.silent, a) })
}

// offer asks the new home to prepare a shard that goes on here meanwhile.
func (s *hosted) offer() {
	p, epoch := s.process, s.core.MoveEpoch()
	e := s.step(wire.TypeInit, epoch)
	e.Last = true
	if _, ok := p.link(s.core.Peer()).append(e); !ok {
		p.after(0, func() { p.control.abort(s.id, epoch) })
	}
}

func (s *hosted) step(t wire.Type, epoch placement.Epoch) *wire.Envelope {
	return &wire.Envelope{Type: t, Kind: []byte(s.id.Kind), Shard: s.id.Shard, Epoch: uint64(epoch)}
}

// start begins a turn for a call that waited.
func (s *hosted) start(e *region.Entity, c *inCall) {
	if c.granted != nil {
		c.granted(e)
		return
	}
	s.turn(e, c)
}

func (s *hosted) forward(c *inCall) {
	p := s.process
	if c.granted != nil {
		c.granted(nil)
		return
	}
	e := c.envelope(s)
	to, epoch := s.core.Successor(c.Epoch)
	e.Epoch, e.Node = uint64(epoch), c.Sender
	l := p.link(to)
	seq, ok := l.append(e)
	if !ok {
		s.drop(c)
		return
	}
	p.w.log("%s: forwards %s of %s to %s", p.name, c.payload, c.Sender.Name, l.peer.Name)
	if c.Sender.Address == p.self.Address && !c.tell {
		p.sent(c.id, l, seq)
	}
}

// refuse answers a call that was taken in before.
func (s *hosted) refuse(c *inCall) {
	if c.granted != nil {
		c.granted(nil)
		return
	}
	s.answer(c, wire.CodeMoved)
}

func (s *hosted) drop(c *inCall) {
	if c.granted != nil {
		c.granted(nil)
		return
	}
	s.answer(c, wire.CodeDropped)
}

func (s *hosted) answer(c *inCall, code wire.Code) {
	p := s.process
	if c.tell {
		if code != wire.CodeOK {
			p.w.oracle.lose(c.envelope(s), "taken in and then refused, code %d", code)
		}
		return
	}
	e := &wire.Envelope{Type: wire.TypeReply, ID: c.id, Code: code}
	if code == wire.CodeMoved {
		e.Kind, e.Shard, e.Epoch, e.Node = []byte(s.id.Kind), s.id.Shard, uint64(s.core.Epoch()), transport.Peer{Address: s.core.Owner()}
	}
	if c.Sender.Address == p.self.Address {
		p.reply(e)
		return
	}
	p.link(c.Sender.Address).append(e)
}

func (s *hosted) sweepLater() {
	if s.sweeping || !s.core.Gated() && s.core.Waiting() == 0 && !s.core.Unsettled() {
		return
	}
	s.sweeping = true
	s.process.after(250*time.Millisecond, func() {
		s.sweeping = false
		gates := s.core.Gates()
		s.openGates(func(transport.Address) bool { return false })
		if n := s.core.Gates(); n < gates {
			s.process.w.oracle.timedOut(s.process, gates-n)
		}
		for _, c := range s.core.Expire(s.process.w.now.Add(-callTimeout)) {
			s.refuse(inbound(c))
		}
		s.core.Settle(s.process.w.now)
		s.sweepLater()
	})
}

func (s *hosted) openGates(gone func(transport.Address) bool) {
	s.do(s.core.OpenGates(gone, 0, s.process.w.now))
}

func (s *hosted) closeGate(sender, via transport.Address, epoch placement.Epoch) {
	s.process.w.log("%s: %v gate for %s via %s at %v", s.process.name, s.id, sender.Name, via.Name, epoch)
	s.touch()
	if s.process.silenced(via) || slices.Contains(s.silent, via) {
		s.core.GoDirect(sender, epoch)
		return
	}
	s.core.CloseGate(sender, via, epoch, s.process.w.now)
	s.sweepLater()
}

func (s *hosted) flush(f region.Flush) {
	s.process.w.log("%s: %v flush from %s at %v for %s", s.process.name, s.id, f.Sender.Name, f.Epoch, f.To.Name)
	s.do(s.core.Flush(f, 0, s.process.w.now))
}

func (s *hosted) flushed(f region.Flush) {
	s.process.w.log("%s: %v flush of %s via %s at %v came through", s.process.name, s.id, f.Sender.Name, f.Via.Name, f.Epoch)
	s.do(s.core.Flushed(f, 0, s.process.w.now))
}

// place follows the table's entry, as that of package shard does.
func (s *hosted) place(owner transport.Address, epoch placement.Epoch, term uint32) {
	p := s.process
	if owner == p.self.Address && p.control.exiting {
		return
	}
	known := s.core.Epoch()
	force := epoch < known && known.Term() < term && s.core.Owner() != p.self.Address
	s.do(s.core.Place(owner, epoch, force, 0, p.w.now))
}

// beginMove obeys the coordinator.
func (s *hosted) beginMove(to transport.Address, epoch placement.Epoch) {
	s.do(s.core.BeginMove(to, epoch))
	s.watchDrain(epoch)
}

// watchDrain gives a move up when a turn takes too long.
func (s *hosted) watchDrain(epoch placement.Epoch) {
	if s.core.State() != region.Draining || s.core.MoveEpoch() != epoch {
		return
	}
	s.process.after(drainBound, func() {
		if s.core.State() == region.Draining && s.core.MoveEpoch() == epoch {
			s.process.control.abort(s.id, epoch)
		}
	})
}

// handOff runs the stop hooks, each of which takes a moment, and sends Init.
func (s *hosted) handOff() {
	epoch, to := s.core.MoveEpoch(), s.core.Peer()
	if entities, ok := s.core.Stop(); ok {
		s.restNext(entities, epoch, to)
	}
}

// restNext runs the stop hook of the first of the entities, and goes on with the others.
func (s *hosted) restNext(entities []*region.Entity, epoch placement.Epoch, to transport.Address) {
	p := s.process
	p.after(p.w.upTo(3*time.Millisecond), func() {
		if len(entities) == 0 || !s.core.Rest(entities[0]) {
			s.send(epoch, to)
			return
		}
		s.rest(entities[0])
		s.restNext(entities[1:], epoch, to)
	})
}

// send sends what the stop hooks left, if the move is still on.
func (s *hosted) send(epoch placement.Epoch, to transport.Address) {
	p := s.process
	var records [2][]byte
	if !p.w.plan.handoff.Drops {
		for i, e := range s.core.States() {
			records[i%2] = wire.AppendRecord(records[i%2], e.ID, e.State, 0)
		}
	}
	fx, sent := s.core.Stopped(epoch, 0)
	if sent {
		for i, r := range records {
			e := s.step(wire.TypeInit, epoch)
			e.Payload, e.Last = r, i == 1
			if _, ok := p.link(to).append(e); !ok {
				p.after(0, func() { p.control.abort(s.id, epoch) })
				break
			}
		}
	}
	s.do(fx)
	p.control.progressed()
	if sent && p.w.plan.aborts && p.w.one(4) { // the new home takes too long
		p.after(p.w.upTo(8*time.Millisecond), func() {
			if s.core.State() == region.Sent && s.core.MoveEpoch() == epoch {
				p.control.abort(s.id, epoch)
			}
		})
	}
}

// rest keeps an entity's state encoded.
func (s *hosted) rest(e *region.Entity) {
	if c := e.Turn(); c != nil {
		s.process.w.fail("%s: %v: %s rests during the turn of %s", s.process.name, s.id, e.ID, inbound(c).payload)
	}
	if v, ok := e.Value.(*value); ok {
		e.State = binary.BigEndian.AppendUint64([]byte{}, v.turns)
		e.Value = nil
	}
}

func (s *hosted) prepare(l *link, epoch placement.Epoch, e *wire.Envelope) {
	states := map[string][]byte{}
	if err := wire.ParseRecords(e.Payload, func(r wire.Record) { states[r.Entity] = r.State }); err != nil {
		s.process.w.fail("%v", err)
	}
	s.touch()
	ready, refused := false, true
	if !s.process.control.exiting {
		ready, refused = s.core.Prepare(l.peer.Address, epoch, states, e.Last)
	}
	s.process.w.log("%s: %v prepares %v: ready %v, refused %v", s.process.name, s.id, epoch, ready, refused)
	if refused {
		l.append(s.step(wire.TypeReject, epoch))
	} else if ready {
		l.append(s.step(wire.TypeReady, epoch))
	}
	s.process.control.progressed()
}

func (s *hosted) ready(from transport.Address, epoch placement.Epoch) {
	s.do(s.core.Ready(from, epoch))
	s.watchDrain(epoch) // only one that served on drains now
}

// cancel takes back a call whose caller gave it up, if it still waits.
func (s *hosted) cancel(from transport.Address, entity string, id uint64) bool {
	c, running := s.core.Find(entity, func(c *region.Call) bool { return c.Sender.Address == from && inbound(c).id == id })
	s.touch()
	return c != nil && !running && s.core.Cancel(c)
}

func (s *hosted) openAt(from transport.Address, epoch placement.Epoch) {
	s.do(s.core.OpenAt(from, epoch, 0, s.process.w.now))
}

func (s *hosted) cancelMove(epoch placement.Epoch) bool {
	fx, off := s.core.CancelMove(epoch)
	s.do(fx)
	return off
}

// wake brings an entity to life.
func (s *hosted) wake(e *region.Entity) *value {
	v := &value{}
	if e.State != nil {
		v.turns = binary.BigEndian.Uint64(e.State)
	}
	e.Value, e.State, e.Why = v, nil, codegen.Resumed
	return v
}
