package region

import (
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// BeginMove starts moving the shard away, under the epoch that its new home will
// have. A repeated or late order changes nothing. While a gate is closed the move
// waits, for the gate's calls would have to pass through two homes.
func (s *Shard) BeginMove(to transport.Address, epoch placement.Epoch) Effects {
	defer s.check()
	if s.state != Open || epoch <= s.epoch || epoch <= s.off {
		return Effects{}
	}
	if len(s.gates.closed) > 0 {
		s.pending = &move{to, epoch}
		return Effects{}
	}
	s.become(Draining)
	s.peer, s.moveE = to, epoch
	later := s.waiting
	s.waiting = queue{}
	for _, id := range slices.Sorted(maps.Keys(s.entities)) {
		s.waiting.take(&s.entities[id].mailbox)
	}
	s.waiting.take(&later)
	return Effects{Drained: s.running == 0}
}

// Stopped tells that the stop hooks ran and the state was encoded into the
// entities' State: the driver sends Init now.
func (s *Shard) Stopped() bool {
	if s.state != Draining || s.running > 0 {
		return false // resumed meanwhile
	}
	s.become(Sent)
	return true
}

// States are the entities that travel, by id.
func (s *Shard) States() []*Entity {
	out := make([]*Entity, 0, len(s.entities))
	for _, id := range slices.Sorted(maps.Keys(s.entities)) {
		out = append(out, s.entities[id])
	}
	return out
}

// Ready takes the new home's answer: it has everything. What waited is forwarded
// to it, behind that goes Open, and from now on it is the owner.
func (s *Shard) Ready(from transport.Address, epoch placement.Epoch) Effects {
	defer s.check()
	if s.state != Sent || s.peer != from || s.moveE != epoch || epoch <= s.off {
		return Effects{}
	}
	s.become(Forwarding)
	s.last = s.epoch
	s.owner, s.epoch, s.since = from, epoch, 0
	s.entities = nil
	fx := Effects{Open: true, Flushed: s.gates.flushed}
	s.gates.flushed = nil
	fx.Forward = s.waiting.filter(func(c *Call) bool { return c.Epoch <= epoch })
	return fx
}

// Prepare takes a part of the shard's state from its old home. It reports
// whether this was the last part, which the driver answers with Ready, and
// whether the part was refused because this node knows better.
func (s *Shard) Prepare(from transport.Address, epoch placement.Epoch, states map[string][]byte, last bool) (ready, refused bool) {
	defer s.check()
	switch {
	case epoch <= s.off:
		return false, true
	case (s.state == Closed || s.state == Forwarding || s.state == Prepared) && epoch > s.epoch && epoch > s.moveE,
		s.state == Preparing && epoch > s.moveE:
		if s.state != Preparing {
			s.become(Preparing)
		}
		s.peer, s.moveE = from, epoch
		s.entities = map[string]*Entity{}
	case s.state == Preparing && epoch == s.moveE && s.peer == from:
	default:
		return false, true
	}
	for id, state := range states { //arch:order-free fills a map
		s.entities[id] = &Entity{ID: id, State: state, Why: codegen.Moved}
	}
	if last {
		s.become(Prepared)
	}
	return last, false
}

// OpenAt takes the old home's Open: everything that waited there has come.
func (s *Shard) OpenAt(from transport.Address, epoch placement.Epoch, now uint32, at time.Time) Effects {
	if s.state != Prepared || s.peer != from || s.moveE != epoch {
		return Effects{}
	}
	return s.open(epoch, epoch, now, at)
}

// CancelMove takes the word, the coordinator's or this node's own, that the move
// to that epoch is off. It reports false when it is too late: the shard is open
// under that epoch here, or Open has gone out.
//
// The new home drops what it had prepared. The old home never sends Open for
// the epoch from then on, and runs nothing before the table says that it may.
// Who never heard of the move refuses it from now on.
func (s *Shard) CancelMove(epoch placement.Epoch) (Effects, bool) {
	defer s.check()
	if (s.state == Open || s.state == Forwarding) && s.epoch >= epoch {
		return Effects{}, false
	}
	s.off = max(s.off, epoch)
	if s.pending != nil && s.pending.epoch <= epoch {
		s.pending = nil
	}
	if (s.state == Preparing || s.state == Prepared) && s.moveE <= epoch {
		return s.close(), true
	}
	return Effects{}, true
}

// Place takes a placement from the table. To be named as owner under a new epoch
// is the order to open: with the state that was prepared, as before if the shard
// never left, else with nothing. Force takes an epoch lower than the known one,
// from a coordinator of a later term.
func (s *Shard) Place(owner transport.Address, epoch placement.Epoch, force bool, now uint32, at time.Time) Effects {
	defer s.check()
	if epoch == s.epoch && owner == s.owner || epoch < s.epoch && !force {
		return Effects{}
	}
	if owner == s.self {
		return s.placeHere(epoch, now, at)
	}
	known := s.state
	s.epoch, s.owner = epoch, owner
	switch known {
	case Open:
		return s.lose()
	case Draining, Sent:
		if owner == s.peer && epoch == s.moveE {
			var forward queue
			forward.take(&s.waiting)
			fx := s.lose()
			s.become(Forwarding)
			fx.Forward = forward.filter(func(*Call) bool { return true })
			return fx
		}
		return s.lose()
	case Preparing, Prepared:
		if epoch > s.moveE {
			return s.close()
		}
		return Effects{}
	case Forwarding:
		if owner != s.peer {
			return s.close()
		}
	}
	return s.refuseOld()
}

func (s *Shard) placeHere(epoch placement.Epoch, now uint32, at time.Time) Effects {
	since := epoch
	switch s.state {
	case Open, Draining, Sent:
		since = s.since // it never left
	case Closed, Forwarding:
		s.entities = nil
	}
	return s.open(epoch, since, now, at)
}

// open lets turns run, under a new epoch.
func (s *Shard) open(epoch, since placement.Epoch, now uint32, at time.Time) Effects {
	defer s.check()
	s.become(Open)
	s.epoch, s.since, s.owner = epoch, since, s.self
	s.pending = nil
	if since == epoch {
		s.gates.cut = nil
		s.gates.flushed = slices.DeleteFunc(s.gates.flushed, func(f Flush) bool { return f.Epoch < epoch })
	}
	fx := Effects{Opened: true}
	var waiting queue
	waiting.take(&s.waiting)
	s.redeliver(&waiting, now, at, &fx)
	return fx
}

// redeliver brings calls to the shard once more, in order.
func (s *Shard) redeliver(q *queue, now uint32, at time.Time, fx *Effects) {
	for c := q.pop(); c != nil; c = q.pop() {
		e, v := s.Deliver(c, now, at)
		switch v {
		case Run:
			fx.Start = append(fx.Start, Start{e, c})
		case Forward:
			fx.Forward = append(fx.Forward, c)
		case Moved:
			fx.Refuse = append(fx.Refuse, c)
		case Overloaded, Circular:
			fx.Drop = append(fx.Drop, c)
		}
	}
}

// lose gives the shard up at once: another node owns it under a higher epoch.
// Turns under way end, and their entities with them.
func (s *Shard) lose() Effects {
	for _, e := range s.entities { //arch:order-free marks each
		e.orphan = e.busy
	}
	s.running = 0
	var fx Effects
	for _, id := range slices.Sorted(maps.Keys(s.entities)) {
		box := &s.entities[id].mailbox
		for c := box.pop(); c != nil; c = box.pop() {
			fx.Drop = append(fx.Drop, c)
		}
	}
	more := s.close()
	fx.Refuse = more.Refuse
	return fx
}

func (s *Shard) close() Effects {
	if s.state != Closed {
		s.become(Closed)
	}
	s.entities, s.since, s.pending = nil, 0, nil
	for _, t := range s.gates.closed {
		s.waiting.take(&t.held)
	}
	s.gates = gates{}
	return s.refuseOld()
}

// refuseOld refuses the waiting calls that no newer table can help.
func (s *Shard) refuseOld() Effects {
	return Effects{Refuse: s.waiting.filter(func(c *Call) bool { return c.Epoch <= s.epoch })}
}
