package sharding

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/call"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/transport"
)

// A route drives one call.Route.
type route struct {
	process *process
	id      placement.ShardID
	target  *target // nil: calls are held
	core    call.Route
}

type target struct {
	local *hosted
	link  *link
	epoch placement.Epoch
}

// An ask is a call whose answer somebody waits for.
type ask struct {
	id   uint64
	link *link // it was last sent on; nil while it is held or local
	seq  uint64
	done func(answer)
}

type answer struct {
	code wire.Code
	lost bool
}

// label names a call in the trace.
func label(e *wire.Envelope) string {
	what := "tell"
	if e.Type == wire.TypeCall {
		what = "call"
	}
	return fmt.Sprintf("%s %s", what, e.Payload)
}

// send brings a call or a tell on its way.
func (r *route) send(e *wire.Envelope) {
	p := r.process
	t := r.target
	switch {
	case t == nil:
		p.w.log("%s: holds %s", p.name, label(e))
		r.hold(e)
	case t.local != nil:
		e.Epoch = uint64(t.epoch)
		if t.local.enqueue(e, func() bool { return r.target == t }) {
			return
		}
		p.w.fail("%s: its own shard refused %s", p.name, label(e))
		return
	default:
		e.Epoch = uint64(t.epoch)
		seq, ok := t.link.append(e)
		if !ok {
			p.w.log("%s: holds %s, the owner is gone", p.name, label(e))
			r.hold(e)
			return
		}
		p.w.log("%s: sends %s to %s at %v", p.name, label(e), t.link.peer.Name, t.epoch)
		r.core.LastSeq = seq
		p.sent(e.ID, t.link, seq)
	}
}

// hold keeps a call until a home is known.
func (r *route) hold(e *wire.Envelope) {
	p := r.process
	if p.w.plan.small && p.held() >= maxHeld {
		if !p.complete(e.ID, answer{code: wire.CodeOverloaded}) {
			p.w.oracle.refusedTells++
		}
		return
	}
	r.core.Hold(call.Outgoing{Envelope: keep(e)})
	p.ask()
}

// maxHeld bounds the calls that wait for homes where buffers are small.
const maxHeld = 12

// ask asks for homes.
func (p *process) ask() {
	if p.host {
		p.control.ask()
	} else {
		p.client.ask()
	}
}

func keep(e *wire.Envelope) wire.Envelope {
	c := *e
	c.Entity, c.Payload, c.Chain = slices.Clone(e.Entity), slices.Clone(e.Payload), slices.Clone(e.Chain)
	c.Kind, c.Method = slices.Clone(e.Kind), slices.Clone(e.Method)
	return c
}

func (r *route) learn(owner transport.Address, epoch placement.Epoch) {
	r.change(func(acked uint64) call.Step {
		return r.core.Learn(owner, epoch, acked, r.core.Owner == r.process.self.Address)
	})
}

// place takes the table's entry. An epoch of a lower term that the table does not
// show is past, even if it is higher; but of what it has itself, or has given away,
// this process knows best.
func (r *route) place(owner transport.Address, epoch placement.Epoch, term uint32) {
	r.change(func(acked uint64) call.Step {
		here := r.core.Owner == r.process.self.Address
		if !here && owner != r.process.self.Address && epoch < r.core.Epoch && r.core.Epoch.Term() < term {
			r.core.Epoch = epoch - 1
		}
		return r.core.Learn(owner, epoch, acked, here)
	})
}

func (r *route) refused(l *link, e wire.Envelope, owner transport.Address, epoch placement.Epoch) {
	r.process.sent(e.ID, nil, 0)
	r.change(func(acked uint64) call.Step {
		r.core.Refused(l.peer.Address, call.Outgoing{Envelope: e}, owner, epoch)
		return r.core.Acked(l.peer.Address, acked)
	})
}

func (r *route) acked(l *link, seq uint64) {
	r.change(func(uint64) call.Step { return r.core.Acked(l.peer.Address, seq) })
}

func (r *route) ownerGone(a transport.Address, left []call.Outgoing) {
	r.change(func(uint64) call.Step { return r.core.OwnerGone(a, left) })
}

func (r *route) change(f func(acked uint64) call.Step) {
	p := r.process
	was := r.ownerLink()
	var acked uint64
	if was != nil {
		if acked = was.core.Acked(); was.gone {
			acked = ^uint64(0) // what it never handled was taken back
		}
	}
	before := r.core.State
	step := f(acked)
	if r.core.State != call.Known || step.Go {
		r.leaveTarget()
	}
	if step.Go || r.core.State != before {
		p.w.log("%s: %v route %v → %v, owner %s at %v, deliver %d, flush to %q, via %q",
			p.name, r.id, before, r.core.State, r.core.Owner.Name, r.core.Epoch, len(step.Deliver), step.FlushTo.Name, step.Via.Name)
	}
	if was != nil {
		r.leave(was, step)
	} else if s := p.shards[r.id]; step.FlushTo == p.self.Address && s != nil {
		s.Flush(flushOf(p.self, p.self, step.Epoch, step.Left, step.Owner))
	} else if l := p.links[step.FlushTo]; l != nil {
		l.append(r.flushWord(step))
	}
	if step.Go {
		r.goTo(step)
	} else if step.Ask && r.core.Held() > 0 {
		p.ask()
	}
}

func (r *route) ownerLink() *link {
	if r.target != nil {
		return r.target.link
	}
	if a := r.core.Owner; !a.IsZero() && a != r.process.self.Address {
		return r.process.links[a]
	}
	return nil
}

func (r *route) leave(l *link, step call.Step) {
	if !step.FlushTo.IsZero() {
		seq, ok := l.append(r.flushWord(step))
		if ok && r.core.State == call.Stopped {
			r.core.LastSeq = seq
		}
	}
	if r.core.State == call.Stopped && !slices.Contains(l.stopped, r) {
		l.stopped = append(l.stopped, r)
	}
}

// flushWord tells a home that nothing older of this process follows.
func (r *route) flushWord(step call.Step) *wire.Envelope {
	return &wire.Envelope{
		Type: wire.TypeFlush, Kind: []byte(r.id.Kind), Shard: r.id.Shard,
		Epoch: uint64(step.Epoch), Hop: uint64(step.Left), Node: transport.Peer{Address: step.Owner},
	}
}

func (r *route) goTo(step call.Step) {
	p := r.process
	if r.core.Owner == p.self.Address {
		r.goLocal(step)
		return
	}
	l := p.link(r.core.Owner)
	if l == nil || l.gone {
		r.core.OwnerGone(r.core.Owner, step.Deliver)
		p.ask()
		return
	}
	if !step.Via.IsZero() {
		seq, ok := l.append(&wire.Envelope{
			Type: wire.TypeGate, Kind: []byte(r.id.Kind), Shard: r.id.Shard, Epoch: uint64(r.core.Epoch),
			Via: transport.Peer{Address: step.Via},
		})
		if ok {
			r.core.LastSeq = seq
		}
	}
	for i := range step.Deliver {
		e := &step.Deliver[i].Envelope
		if e.Type == wire.TypeCall && p.pending[e.ID] == nil {
			continue
		}
		e.Epoch = uint64(r.core.Epoch)
		p.w.log("%s: sends %s to %s at %v", p.name, label(e), l.peer.Name, r.core.Epoch)
		seq, ok := l.append(e)
		if !ok {
			p.w.oracle.lose(e, "its owner is gone")
			p.complete(e.ID, answer{code: wire.CodeMoved})
			continue
		}
		r.core.LastSeq = seq
		p.sent(e.ID, l, seq)
	}
	r.target = &target{link: l, epoch: r.core.Epoch}
}

func (r *route) goLocal(step call.Step) {
	p := r.process
	s := p.shards[r.id]
	if !step.Via.IsZero() {
		s.CloseBarrier(p.self.Address, step.Via, r.core.Epoch)
	}
	for i := range step.Deliver {
		e := step.Deliver[i].Envelope
		if e.Type == wire.TypeCall && p.pending[e.ID] == nil {
			continue
		}
		e.Epoch = uint64(r.core.Epoch)
		p.sent(e.ID, nil, 0)
		if !s.enqueue(&e, nil) {
			p.w.oracle.lose(&e, "its own shard refused it")
			p.complete(e.ID, answer{code: wire.CodeMoved})
		}
	}
	r.target = &target{local: s, epoch: r.core.Epoch}
	s.Direct(true)
}

// leaveTarget holds calls from now on.
func (r *route) leaveTarget() {
	if t := r.target; t != nil && t.local != nil {
		t.local.Direct(false)
	}
	r.target = nil
}

func (p *process) sent(id uint64, l *link, seq uint64) {
	if c := p.pending[id]; c != nil {
		c.link, c.seq = l, seq
	}
}

// complete ends one try of a call. It reports whether anybody waited for it.
func (p *process) complete(id uint64, a answer) bool {
	c := p.pending[id]
	if c == nil {
		return false
	}
	delete(p.pending, id)
	p.after(0, func() { c.done(a) })
	return true
}

func (p *process) lost(match func(*ask) bool) {
	var ids []uint64
	for id, c := range p.pending {
		if match(c) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		p.complete(id, answer{lost: true})
	}
}

func (p *process) reply(e *wire.Envelope) {
	if e.Code == wire.CodeMoved && e.Epoch != 0 {
		r := p.routes[placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}]
		r.learn(e.Node.Address, placement.Epoch(e.Epoch))
	}
	p.complete(e.ID, answer{code: e.Code})
}

func flushOf(sender, via transport.Peer, epoch, hop placement.Epoch, to transport.Address) region.Flush {
	return region.Flush{Sender: sender, Via: via, Epoch: epoch, Hop: hop, To: to}
}
