package shard

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/call"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/transport"
)

// kind is one entity type as this process knows it: its routes, and its host if
// it lives here.
type kind struct {
	plane  *plane
	desc   codegen.Kind
	name   []byte
	shards uint32
	err    error                  // why no call of it can work
	errors func() []codegen.Error // those that callers can tell apart
	routes []route
	// Set before Start: host is nil where the kind is only called, declared where
	// HostX was not.
	host     *host
	declared *hostSettings
}

func newKind(pl *plane, desc codegen.Kind) *kind {
	k := &kind{plane: pl, desc: desc, name: []byte(desc.Name), err: checkKind(&desc)}
	k.errors = sync.OnceValue(func() []codegen.Error { return codegen.Errors(desc.Errors) })
	k.shards = uint32(desc.Shards)
	if k.err != nil {
		return k
	}
	k.routes = make([]route, k.shards)
	for i := range k.routes {
		k.routes[i].kind, k.routes[i].shard = k, k.shards+uint32(i)
	}
	return k
}

// route is the route of a shard number; nil if the kind has no such shard.
func (k *kind) route(shard uint32) *route {
	if shard < k.shards || shard-k.shards >= uint32(len(k.routes)) {
		return nil
	}
	return &k.routes[shard-k.shards]
}

// routeOf is the route of an entity, by the hash of its reference.
func (k *kind) routeOf(hash uint64) *route {
	return &k.routes[placement.ShardOf(hash, k.shards)-k.shards]
}

// adopt follows the table from an older one. What did not change is passed over,
// for tables come as often as shards move; but for routes that wait for a home.
func (k *kind) adopt(old, t *placement.Table) {
	was, part := old.Kind(k.desc.Name), t.Kind(k.desc.Name)
	if part == nil || k.err != nil {
		return
	}
	if part.Shards() != k.shards {
		return // said by why, when a call runs out of time
	}
	term := t.Version().Term
	sameTerm := old.Version().Term == term
	for e := range part.All() {
		r := k.route(e.Shard)
		if before, ok := was.Lookup(e.Shard); ok && sameTerm && before == e && r.target.Load() != nil {
			continue
		}
		if k.host != nil {
			k.host.shard(e.Shard).Place(e.Owner, e.Epoch, term.Number)
		}
		r.place(e.Owner, e.Epoch, term.Number)
	}
}

// comeBack goes to the shards of a member by the new path on that lane, for it has
// dropped the one before. Where the table does not know of the shard, it is asked for.
func (k *kind) comeBack(t *placement.Table, a transport.Address, lane int) {
	for i := range k.routes {
		r := &k.routes[i]
		if k.plane.laneOf(r.shard) != lane || !r.leadsTo(a) {
			continue
		}
		r.ownerGone(a, nil)
		if e, ok := t.Kind(k.desc.Name).Lookup(r.shard); ok && e.Owner == a {
			r.learn(a, e.Epoch, true)
		}
	}
}

// leadsTo reports whether a is the shard's home, as the route knows it.
func (r *route) leadsTo(a transport.Address) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.core.Owner == a
}

// target is where a route's calls go; it never changes, only the route's pointer to it.
type target struct {
	local *hostedShard // this process
	path  *path        // or another one
	epoch placement.Epoch
}

// route drives one call.Route. Its LastSeq belongs to the lock of the path that
// target names, everything else of core to mu.
type route struct {
	kind   *kind
	shard  uint32
	target atomic.Pointer[target] // nil: calls are held
	mu     sync.Mutex
	core   call.Route
}

// send brings an envelope of a call or a tell on its way. Errors say that it
// never will be.
func (r *route) send(e *wire.Envelope) error {
	pl := r.kind.plane
	for try := 0; ; try++ {
		if err := pl.pause(try); err != nil {
			return err
		}
		t := r.target.Load()
		switch {
		case t == nil:
			done, err := r.hold(e)
			if done || err != nil {
				return err
			}
		case t.local != nil:
			e.Epoch = uint64(t.epoch)
			if settled, err := t.local.enqueue(e, r, t); settled {
				return err
			}
		default:
			p := t.path
			p.mu.Lock()
			if r.target.Load() != t {
				p.mu.Unlock()
				continue
			}
			e.Epoch = uint64(t.epoch)
			seq, err := p.appendLocked(e)
			if err != nil {
				p.mu.Unlock()
				if err == errPeerGone {
					if done, err := r.hold(e); done || err != nil {
						return err
					}
					continue
				}
				return err
			}
			r.core.LastSeq = seq
			if e.ID != 0 { // before anybody can publish it
				pl.pending.sent(e.ID, p, seq)
			}
			p.sendLocked(e.ID == 0)
			return nil
		}
	}
}

// hold keeps the call until a home is known. It reports false when one is.
func (r *route) hold(e *wire.Envelope) (bool, error) {
	pl := r.kind.plane
	r.mu.Lock()
	if t := r.target.Load(); t != nil && (t.path == nil || !t.path.isGone()) {
		r.mu.Unlock()
		return false, nil
	}
	if r.kind.desc.Singleton {
		defer pl.ctl.ask(r.kind.desc.Name)
		return true, r.holdWithin(e)
	}
	if pl.held.Load() >= int64(pl.cfg.BufferSize) {
		r.mu.Unlock()
		return false, r.errHolding()
	}
	if !pl.budget.Take(shardhost.SizeOf(e)) {
		r.mu.Unlock()
		return false, r.errHoldingBytes(shardhost.SizeOf(e))
	}
	r.core.Hold(call.Outgoing{Envelope: keep(e), Driver: time.Now()})
	r.mu.Unlock()
	pl.held.Add(1)
	pl.ledger.add(callBuffered)
	pl.ctl.ask(r.kind.desc.Name)
	return true, nil
}

// holdWithin keeps a call of a singleton, and drops the oldest when too many
// wait: each is answered and counted. mu is held, and released.
func (r *route) holdWithin(e *wire.Envelope) (err error) {
	pl := r.kind.plane
	if !pl.budget.Take(shardhost.SizeOf(e)) {
		r.mu.Unlock()
		return r.errHoldingBytes(shardhost.SizeOf(e))
	}
	dropped := r.core.HoldWithin(call.Outgoing{Envelope: keep(e), Driver: time.Now()}, pl.cfg.singletonBuffer())
	r.mu.Unlock()
	pl.held.Add(1)
	pl.letGo(dropped)
	pl.ledger.add(callBuffered)
	for i := range dropped {
		d := &dropped[i].Envelope
		pl.ledger.add(callShed)
		switch {
		case d.ID != 0:
			pl.pending.complete(d.ID, result{code: codeShed})
		case e.ID == 0 && pl.cfg.singletonBuffer() == 0:
			err = r.errUnbuffered() // the caller is here to hear it
		default:
			pl.loseTell(NotExecuted)
		}
	}
	return err
}

// letGo counts calls that are not held any more.
func (pl *plane) letGo(out []call.Outgoing) {
	for i := range out {
		pl.budget.Give(shardhost.SizeOf(&out[i].Envelope))
	}
	pl.held.Add(-int64(len(out)))
}

// takeBack counts calls that are held anew, room or not: their senders have been told
// that they are on their way.
func (pl *plane) takeBack(out []call.Outgoing) {
	for i := range out {
		pl.budget.Force(shardhost.SizeOf(&out[i].Envelope))
	}
	pl.held.Add(int64(len(out)))
}

// found goes to where a singleton's instance was found. It may be under a lower
// epoch than one that is gone: the cluster may have begun anew.
func (r *route) found(owner transport.Address, epoch placement.Epoch) {
	r.change(func(acked uint64) call.Step {
		return r.learnLocked(owner, epoch, acked, r.core.State == call.Unknown)
	})
}

// keep copies what belongs to the caller. The entity and the method are of
// strings, which nobody changes.
func keep(e *wire.Envelope) wire.Envelope {
	c := *e
	c.Payload = append([]byte(nil), e.Payload...)
	c.Chain = append([]byte(nil), e.Chain...)
	return c
}

// forget takes a held call back. It reports whether it was still held.
func (r *route) forget(id uint64) bool {
	r.mu.Lock()
	out := r.core.Drop(func(o call.Outgoing) bool { return o.Envelope.ID == id })
	r.mu.Unlock()
	r.kind.plane.letGo(out)
	return len(out) > 0
}

// holdsTells tells whether tells wait here.
func (r *route) holdsTells() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.core.Holds(func(o call.Outgoing) bool { return o.Envelope.ID == 0 })
}

// dropTells drops held tells that wait since before t and counts them.
func (r *route) dropTells(t time.Time) int {
	r.mu.Lock()
	out := r.core.Drop(func(o call.Outgoing) bool {
		at, ok := o.Driver.(time.Time)
		return ok && o.Envelope.ID == 0 && at.Before(t)
	})
	r.mu.Unlock()
	r.kind.plane.letGo(out)
	return len(out)
}

// place takes the table's entry. Term is the table's: an epoch of a lower term
// that the table does not show is past, even if it is higher; but of what it has
// itself, or has given away, this process knows best.
func (r *route) place(owner transport.Address, epoch placement.Epoch, term uint32) {
	self := r.kind.plane.self.Address
	r.change(func(acked uint64) call.Step {
		ours := owner == self || r.core.Owner == self
		return r.learnLocked(owner, epoch, acked, !ours && epoch < r.core.Epoch && r.core.Epoch.Term() < term)
	})
}

// learn takes a placement.
func (r *route) learn(owner transport.Address, epoch placement.Epoch, force bool) {
	r.change(func(acked uint64) call.Step { return r.learnLocked(owner, epoch, acked, force) })
}

func (r *route) learnLocked(owner transport.Address, epoch placement.Epoch, acked uint64, force bool) call.Step {
	if force && epoch <= r.core.Epoch {
		r.core.Epoch = epoch - 1
	}
	return r.core.Learn(owner, epoch, acked, r.core.Owner == r.kind.plane.self.Address)
}

// refused takes an envelope back that the owner at the other end of p refused.
func (r *route) refused(p *path, e wire.Envelope, owner transport.Address, epoch placement.Epoch) {
	r.kind.plane.takeBack([]call.Outgoing{{Envelope: e}})
	r.kind.plane.pending.sent(e.ID, nil, 0)
	r.change(func(acked uint64) call.Step {
		r.core.Refused(p.peer.Address, call.Outgoing{Envelope: e}, owner, epoch)
		return r.core.Acked(p.peer.Address, acked)
	})
}

// acked takes the old owner's acknowledgement.
func (r *route) acked(p *path, seq uint64) {
	r.change(func(uint64) call.Step { return r.core.Acked(p.peer.Address, seq) })
}

// ownerGone tells that a node was removed, and what it certainly did not execute.
func (r *route) ownerGone(a transport.Address, left []call.Outgoing) {
	r.kind.plane.takeBack(left)
	r.change(func(uint64) call.Step { return r.core.OwnerGone(a, left) })
}

// change applies f to the core and does what it says, before any other call for
// the shard passes by.
func (r *route) change(f func(acked uint64) call.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var acked uint64
	was := r.ownerPath()
	if was != nil {
		was.mu.Lock()
		if acked = was.core.Acked(); was.gone {
			acked = ^uint64(0) // what it never handled was taken back when it went
		}
	}
	step := f(acked)
	if r.core.State != call.Known || step.Go {
		r.leaveTarget()
	}
	if was != nil {
		r.leaveLocked(was, step)
		was.mu.Unlock()
		if !step.FlushTo.IsZero() {
			was.flush()
		}
	} else if pl := r.kind.plane; step.FlushTo == pl.self.Address && r.kind.host != nil {
		r.kind.host.shard(r.shard).Flush(region.Flush{
			Sender: pl.self, Via: pl.self, Epoch: step.Epoch, Hop: step.Left, To: step.Owner,
		})
	} else if p := pl.knownPath(step.FlushTo, pl.laneOf(r.shard)); p != nil { // the owner between was never reached
		p.post(r.flushWord(step))
	}
	if step.Go {
		r.goTo(step)
	} else if step.Ask && r.core.Held() > 0 {
		r.kind.plane.ctl.ask(r.kind.desc.Name)
	}
}

// ownerPath is the path to the owner that the core knows; nil for this process.
func (r *route) ownerPath() *path {
	pl := r.kind.plane
	if t := r.target.Load(); t != nil {
		return t.path
	}
	if r.core.Owner.IsZero() || r.core.Owner == pl.self.Address {
		return nil
	}
	return pl.knownPath(r.core.Owner, pl.laneOf(r.shard))
}

// leaveLocked sends the Flush that a step asks for, and has the old owner's path
// report its acknowledgements while the route waits for them. p.mu is held.
func (r *route) leaveLocked(p *path, step call.Step) {
	if !step.FlushTo.IsZero() {
		seq, err := p.appendLocked(r.flushWord(step))
		if err == nil && r.core.State == call.Stopped {
			r.core.LastSeq = seq
		}
	}
	if r.core.State == call.Stopped && !slices.Contains(p.stopped, r) {
		p.stopped = append(p.stopped, r)
	}
}

// flushWord tells a home that nothing older of this process follows.
func (r *route) flushWord(step call.Step) *wire.Envelope {
	return &wire.Envelope{
		Type: wire.TypeFlush, Kind: r.kind.name, Shard: r.shard,
		Epoch: uint64(step.Epoch), Hop: uint64(step.Left), Node: transport.Peer{Address: step.Owner},
	}
}

// goTo delivers what waited to the new owner and lets calls pass by again. mu is held.
func (r *route) goTo(step call.Step) {
	pl := r.kind.plane
	owner, epoch := r.core.Owner, r.core.Epoch
	pl.letGo(step.Deliver)
	if owner == pl.self.Address {
		r.goLocal(step)
		return
	}
	p := pl.path(transport.Peer{Address: owner}, pl.laneOf(r.shard))
	if p != nil {
		p.mu.Lock()
	}
	if p == nil || p.gone { // it has left: wait for the next one
		if p != nil {
			p.mu.Unlock()
		}
		r.core.OwnerGone(owner, step.Deliver)
		pl.takeBack(step.Deliver)
		pl.ctl.ask(r.kind.desc.Name)
		return
	}
	if !step.Via.IsZero() {
		seq, err := p.appendLocked(&wire.Envelope{
			Type: wire.TypeGate, Kind: r.kind.name, Shard: r.shard, Epoch: uint64(epoch),
			Via: transport.Peer{Address: step.Via},
		})
		if err == nil { // who comes this way needs a Flush to leave again, calls or not
			r.core.LastSeq = seq
		}
	}
	for i := range step.Deliver {
		e := &step.Deliver[i].Envelope
		if e.ID != 0 && !pl.pending.waits(e.ID) {
			pl.ledger.add(callExpired)
			continue
		}
		e.Epoch = uint64(epoch)
		seq, err := p.appendLocked(e)
		if err != nil {
			pl.failUnsent(e, err)
			continue
		}
		r.core.LastSeq = seq
		pl.pending.sent(e.ID, p, seq)
	}
	r.target.Store(&target{path: p, epoch: epoch})
	p.mu.Unlock()
	p.flush()
}

// goLocal is goTo for this process itself.
func (r *route) goLocal(step call.Step) {
	pl := r.kind.plane
	if r.kind.host == nil { // the table is wrong about this node: wait for another one
		r.core.OwnerGone(pl.self.Address, step.Deliver)
		pl.takeBack(step.Deliver)
		return
	}
	sh := r.kind.host.shard(r.shard)
	if !step.Via.IsZero() {
		sh.CloseBarrier(pl.self.Address, step.Via, r.core.Epoch)
	}
	for i := range step.Deliver {
		e := step.Deliver[i].Envelope
		if e.ID != 0 && !pl.pending.waits(e.ID) {
			pl.ledger.add(callExpired)
			continue
		}
		e.Epoch = uint64(r.core.Epoch)
		pl.pending.sent(e.ID, nil, 0)
		sh.enqueueKept(&e)
	}
	r.target.Store(&target{local: sh, epoch: r.core.Epoch})
	sh.direct(true)
}

// leaveTarget holds calls from now on.
func (r *route) leaveTarget() {
	if t := r.target.Load(); t != nil && t.local != nil {
		t.local.direct(false)
	}
	r.target.Store(nil)
}

// failUnsent answers a call that could not be appended.
func (pl *plane) failUnsent(e *wire.Envelope, err error) {
	code := codeUnsent
	if errors.Is(err, errTooLarge) {
		code = wire.CodeUnsendable
	}
	if e.ID == 0 || !pl.pending.complete(e.ID, result{code: code, text: err.Error()}) {
		pl.loseTell(NotExecuted)
	}
}
