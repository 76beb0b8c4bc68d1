package region

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/invariant"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Shard is one shard at one node. It is not safe for concurrent use, except for Look.
//
// It is built in layers, each of which owns its fields and uses only the layers below:
//
//	flushing    takes flushes to their barriers
//	placing     takes the shard over, and gives it up by the table
//	moving      gives the shard to another home
//	stopping    runs the stop hooks of a shard that moves away
//	delivery    brings calls to where they run or wait: the waiting calls and the barriers
//	turns       turns and mailboxes of entities, in the room that waiting calls have
//	entities    entities by their ids
//	standing    state, epochs and home, and where calls go for which the shard has left
//
// Invariants:
//  1. A turn is under way only in Open and Draining.
//  2. While the shard is Draining, running is the number of busy entities.
//  3. A mailbox is empty unless its entity is busy and wanted.
//  4. While the shard is Open, Forwarding or Closed, only calls of a newer epoch
//     than its own wait in its queue; unless it was forwarded to a departed home.
//  5. A Forwarding shard remembers where it went, a Closed one does not.
//  6. A shard that runs or ran here has had its home here since an epoch of at most its own.
//  7. In a shard that is Sent no entity is active: each is encoded, or forgotten.
//  8. Only an Open shard is on offer, and only where the old home serves on.
//  9. Unless the shard is Open, every entity that is busy or live is wanted, and
//     an idle one is live if and only if it has a Value.
//  10. barred is set while a barrier is closed, or calls are not direct.
//  11. Every live entity is in the list of active ones, and they are counted.
//  12. Each call that waits has reserved its size, and nothing else has.
//  13. Senders have yet to flush only while the shard is Forwarding and not settled,
//     and only a Forwarding shard is settled.
//  14. A shard that is Closed or Forwarding has no entity.
//  15. Tells are counted if and only if the turn under way is one of tells.
//  16. An entity whose turn has a call is busy and wanted.
type Shard struct {
	flushing
	// Driver is the driver's own. It is set once, before anything else.
	Driver any
}

// New returns the shard, Closed.
func New(id placement.ShardID, self transport.Address, l Limits) *Shard {
	s := &Shard{}
	s.standing = standing{id: id, self: self, how: l.Handoff}
	s.limits, s.shard = l, s
	s.rebar()
	return s
}

func (s *Shard) check() {
	if invariant.Enabled {
		if err := s.Check(); err != nil {
			invariant.Failf("%v", err)
		}
	}
}

// Check returns the first broken invariant.
func (s *Shard) Check() error {
	running, alive := 0, 0
	for e := range s.entities.all() {
		w := e.word.Load()
		has := w & flags
		if of := has&told != 0; of != (tells(w) > 0) || of && has&busy == 0 {
			return fmt.Errorf("shard %v: invariant 15: %q has flags %b and %d tells", s.id, e.ID, has, tells(w))
		}
		if has&live != 0 {
			alive++
		}
		if has&live != 0 && !e.listed() {
			return fmt.Errorf("shard %v: invariant 11: %q is live and not in the list", s.id, e.ID)
		}
		if has&busy != 0 {
			running++
		}
		if e.mailbox().len() > 0 && has&(busy|wanted) != busy|wanted {
			return fmt.Errorf("shard %v: invariant 3: %q has flags %b and %d calls wait for it", s.id, e.ID, has, e.mailbox().len())
		}
		if e.Turn() != nil && has&(busy|wanted) != busy|wanted {
			return fmt.Errorf("shard %v: invariant 16: %q has flags %b and the turn of a call", s.id, e.ID, has)
		}
		if s.state != Open && has&(busy|live) != 0 && has&wanted == 0 {
			return fmt.Errorf("shard %v: invariant 9: %q has flags %b in a shard that is %v", s.id, e.ID, has, s.state)
		}
		if s.state != Open && has&busy == 0 && (has&live != 0) != (e.Value != nil) {
			return fmt.Errorf("shard %v: invariant 9: %q has flags %b and its value is %v", s.id, e.ID, has, e.Value)
		}
	}
	if alive != s.Live() {
		return fmt.Errorf("shard %v: invariant 11: %d entities are live, counted %d", s.id, alive, s.Live())
	}
	if !s.barred.Load() && (len(s.barriers.closed) > 0 || !s.direct) {
		return fmt.Errorf("shard %v: invariant 10: it is not barred, with %d barriers", s.id, len(s.barriers.closed))
	}
	if forwarding := len(s.departures) > 0; s.state == Forwarding && !forwarding || s.state == Closed && forwarding {
		return fmt.Errorf("shard %v: invariant 5: %v, forwarding %v", s.id, s.state, s.departures)
	}
	if ran := s.state == Open || s.state == Forwarding || s.leaves(); ran && (s.since == 0 || s.since > s.epoch) {
		return fmt.Errorf("shard %v: invariant 6: %v since %v, now %v", s.id, s.state, s.since, s.epoch)
	}
	if s.state == Sent && s.active() {
		return fmt.Errorf("shard %v: invariant 7: sent, and an entity is active", s.id)
	}
	if running > 0 && s.state != Open && s.state != Draining {
		return fmt.Errorf("shard %v: invariant 1: %d turns while %v", s.id, running, s.state)
	}
	if s.state == Open || s.state == Forwarding && !s.strays() || s.state == Closed {
		for c := range s.waiting.all() {
			if c.Epoch <= s.epoch {
				return fmt.Errorf("shard %v: invariant 4: %v and a call for %q of epoch %v waits", s.id, s.state, c.Entity, c.Epoch)
			}
		}
	}
	if err := s.checkSettled(); err != nil {
		return err
	}
	if err := s.checkRoom(); err != nil {
		return err
	}
	if n := s.entities.n; n > 0 && (s.state == Closed || s.state == Forwarding) {
		return fmt.Errorf("shard %v: invariant 14: %v with %d entities", s.id, s.state, n)
	}
	if s.offered != nil && (s.state != Open || !s.how.Serving) {
		return fmt.Errorf("shard %v: invariant 8: %v and on offer", s.id, s.state)
	}
	if s.state == Draining && running != s.running {
		return fmt.Errorf("shard %v: invariant 2: %d busy, counted %d", s.id, running, s.running)
	}
	return nil
}

// Deliver brings a call to the shard. now is the driver's coarse clock, at the
// time by which waiting is bounded.
func (s *Shard) Deliver(c *Call, now uint32, at time.Time) (*Entity, Verdict) {
	defer s.check()
	return s.takeIn(c, now, at)
}

// BeginTerm takes the number of the term of the table that shows the shard's placement,
// after Place. If the shard stayed open here, calls that wait for the table of a higher
// epoch run: that table was lost with its coordinator.
func (s *Shard) BeginTerm(term uint32, now uint32) (fx Effects) {
	defer s.check()
	return s.beginTerm(term, now)
}

// Direct sets whether local calls may begin outside the lock (see [Entity.Enter])
// while the shard is Open and no barrier is closed. The driver turns it on when its own
// calls go to the shard straight away, and off before they are held or go elsewhere;
// so none overtakes an older one. Off at first.
func (s *Shard) Direct(on bool) {
	defer s.check()
	s.setDirect(on)
}

// CloseBarrier holds the sender's direct calls until its Flush came by way of the
// old home, if it has not come already.
func (s *Shard) CloseBarrier(sender, via transport.Address, epoch placement.Epoch, now uint32, at time.Time) Effects {
	defer s.check()
	return s.closeBarrier(sender, via, epoch, now, at)
}

// GoDirect notes that a sender that learnt of that epoch needs no barrier, or none
// any more: all its older calls have come, or its old home is gone. Those of them that wait here
// for a table which its own home does not have, and may never get, go ahead of its direct
// calls. While another barrier of the same turn is closed GoDirect changes nothing.
func (s *Shard) GoDirect(sender transport.Address, epoch placement.Epoch, now uint32) Effects {
	defer s.check()
	return s.goDirect(sender, epoch, now)
}

// Flush takes a sender's Flush from the sender itself: this node is its Via.
func (s *Shard) Flush(f Flush, now uint32, at time.Time) Effects {
	defer s.check()
	return s.takeFlush(f, now, at)
}

// Flushed takes a Flush that has come through its Via. It follows the calls that
// it came with to where they went, unless the barrier is here: then it opens it, or
// is remembered until the barrier comes or the shard moves on.
func (s *Shard) Flushed(f Flush, now uint32, at time.Time) Effects {
	defer s.check()
	return s.takeFlushed(f, now, at)
}

// OpenBarriers opens the barriers whose old home is gone, and those that have waited for
// BarrierTimeout; calls that still arrive through those homes are refused, because they
// would be out of order. Forget and Return come first.
func (s *Shard) OpenBarriers(gone func(transport.Address) bool, now uint32, at time.Time) Effects {
	defer s.check()
	return s.openBarriers(gone, now, at)
}

// RefuseWaiting refuses calls that wait here although a barrier elsewhere timed out,
// so that younger calls of its sender have run. The detours came with the Open of that move,
// which is taken next.
func (s *Shard) RefuseWaiting(from transport.Address, epoch placement.Epoch, detours []Detour) Effects {
	defer s.check()
	return s.refuseWaiting(from, epoch, detours)
}

// BeginMove starts moving the shard away, under the epoch that its new home will
// have. A repeated or late order changes nothing. While a barrier is closed the move
// waits, for the barrier's calls would have to pass through two homes.
func (s *Shard) BeginMove(to transport.Address, epoch placement.Epoch) Effects {
	defer s.check()
	return s.beginMove(to, epoch)
}

// Stop begins a turn of each active entity for the stop hooks, and returns those
// entities, by id. The driver calls MayPassivate before it runs the hook of each, in that
// order; at the end States, and Stopped. ok is false when the shard is not drained,
// the move is off, or the hooks of a move run already.
func (s *Shard) Stop() (entities []*Entity, ok bool) {
	defer s.check()
	return s.beginStops()
}

// Stopped reports that the stop hooks ran and the state was encoded into the
// entities' State, for the move to that epoch. When sent is true the driver sends
// Init now; else the move is off, or a call came in between.
func (s *Shard) Stopped(epoch placement.Epoch, now uint32) (fx Effects, sent bool) {
	defer s.check()
	return s.endMove(epoch, now)
}

// Ready takes the new home's answer: it has everything. Waiting calls are forwarded to
// it, Open follows them, and from now on it is the home.
func (s *Shard) Ready(from transport.Address, epoch placement.Epoch) Effects {
	defer s.check()
	return s.takeReady(from, epoch)
}

// Prepare takes a part of the shard's state from its old home. It reports
// whether this was the last part, which the driver answers with Ready, and
// whether the part was refused because this node knows better.
func (s *Shard) Prepare(from transport.Address, epoch placement.Epoch, states map[string][]byte, last bool) (ready, refused bool) {
	defer s.check()
	return s.prepare(from, epoch, states, last)
}

// OpenAt takes the old home's Open: everything that waited there has come.
func (s *Shard) OpenAt(from transport.Address, epoch placement.Epoch, now uint32, at time.Time) Effects {
	defer s.check()
	return s.openAt(from, epoch, now, at)
}

// CancelMove gives up the move to that epoch, by order of the coordinator or of this node. It reports false when it is too late: the shard is open
// under that epoch here, or Open has gone out.
//
// The new home drops the prepared shard. The old home never sends Open for
// the epoch from then on, and runs nothing before the table says that it may.
// A node that never heard of the move refuses it from now on.
func (s *Shard) CancelMove(epoch placement.Epoch) (Effects, bool) {
	defer s.check()
	return s.cancelMove(epoch)
}

// Place takes a placement from the table. To be named as the home under a new epoch is the
// order to open: with the state that was prepared, as before if the shard never left,
// else with nothing. Force takes an epoch lower than the known one, from a coordinator of
// a later term; but a shard that has left under a higher epoch does not come back under a
// lower one.
func (s *Shard) Place(home transport.Address, epoch placement.Epoch, force bool, now uint32, at time.Time) Effects {
	defer s.check()
	return s.takePlacement(home, epoch, force, now, at)
}

// Forget is for nodes that are gone: nothing is forwarded to them any more. Calls that
// still arrive go on to the home that the table names.
func (s *Shard) Forget(gone func(transport.Address) bool, now uint32) (fx Effects) {
	defer s.check()
	return s.forgetHomes(gone, now)
}

// Return takes back a call that was forwarded to a departed home, which certainly has not
// handled it, under the epoch that it was forwarded with. died is false if that home left in
// order. A call that its sender sent to another home is refused if the next one died: the
// home between may be gone too, and then its sender's younger calls came there directly.
func (s *Shard) Return(c *Call, died bool, now uint32, at time.Time) Effects {
	defer s.check()
	return s.takeBack(c, died, now, at)
}

// Settle ends forwarding if nothing waits here and every sender whose calls were
// forwarded has flushed, is gone, or was silent for 10 s.
func (s *Shard) Settle(at time.Time) {
	defer s.check()
	s.settle(at)
}

// Dismiss gives up all that waits here, for a node that ends: neither the shard nor
// word of its home will come any more.
func (s *Shard) Dismiss() Effects {
	defer s.check()
	return s.giveUp()
}
