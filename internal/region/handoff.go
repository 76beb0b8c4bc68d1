package region

import (
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Handoff is how a shard moves. Both homes must have the same one. With the zero value
// the shard's state moves with it, and each sender's calls run in the order in which they
// were made. The numbers are those of the options in the Akka Cluster specification
// (graceful handoff); the zero value is its 2b, 3b and 4a.
type Handoff struct {
	// Serving: the old home runs turns until the new one is ready (2a). State that they
	// change does not move.
	Serving bool
	// DropCalls: the old home drops calls that arrive while it gives the shard away (2c).
	// Their senders may try again.
	DropCalls bool
	// Unordered: the new home runs a sender's calls as they arrive, even while older
	// ones may still arrive through the old home (3a).
	Unordered bool
	// Refusing: once the new home has the shard, the old home refuses calls that still
	// arrive, and names the new home (4b).
	Refusing bool
	// DropState: the state stays behind.
	DropState bool
}

// CheckState returns an error if entities with state cannot move that way.
func (h Handoff) CheckState() error {
	var bad []string
	if h.Serving {
		bad = append(bad, "serving would lose changes that turns make while the state is being sent")
	}
	if h.Unordered && !h.DropState {
		bad = append(bad, "unordered would run calls out of order")
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("the type has state: %s", strings.Join(bad, ", and "))
}

// String joins the names of the set fields by "+": "ordered" if none is set, and
// "drop-state" alone, which implies others.
func (h Handoff) String() string {
	if h.DropState {
		return "drop-state"
	}
	var words []string
	for _, o := range []struct {
		on   bool
		word string
	}{{h.Serving, "serving"}, {h.DropCalls, "drop-calls"}, {h.Unordered, "unordered"}, {h.Refusing, "refusing"}} {
		if o.on {
			words = append(words, o.word)
		}
	}
	if words == nil {
		return "ordered"
	}
	return strings.Join(words, "+")
}

// offer begins a move while the shard goes on: the driver sends an Init without
// state.
func (s *Shard) offer(to transport.Address, epoch placement.Epoch) Effects {
	s.offered = &move{to, epoch}
	s.peer, s.moveE = to, epoch
	return Effects{Offer: true}
}

// Offering reports whether the shard is open, and another node was asked to prepare it.
func (s *Shard) Offering() bool { return s.offered != nil && s.state == Open }

// Underway is the move of a shard that is open still: it waits for barriers, or the
// shard is on offer. A new coordinator must hear of it, for it goes on by itself.
func (s *Shard) Underway() (to transport.Address, epoch placement.Epoch, ok bool) {
	switch {
	case s.state != Open:
	case s.offered != nil:
		return s.offered.to, s.offered.epoch, true
	case s.pending != nil:
		return s.pending.to, s.pending.epoch, true
	}
	return transport.Address{}, 0, false
}

// accepted takes the new home's Ready to an offer: running turns end now, then the
// shard is the other's.
func (s *Shard) accepted() Effects {
	fx := s.drain()
	s.granted = true
	return fx
}

// drain lets no more turns begin.
func (s *Shard) drain() (fx Effects) {
	s.become(Draining)
	s.offered = nil
	later := s.waiting
	s.waiting = queue{}
	s.running = 0
	for _, e := range s.entities.sorted() {
		if e.want() {
			s.running++
		}
		s.waiting.take(&e.mailbox)
	}
	s.waiting.take(&later)
	if s.how.DropCalls {
		fx.Drop = s.sift(&s.waiting, func(c *Call) bool { return c.Epoch <= s.epoch || c.Local })
	}
	fx.Drained = s.running == 0
	return fx
}
