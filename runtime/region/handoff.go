package region

import (
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Handoff says how a shard moves, by the options of the Akka Cluster
// specification's graceful handoff. Both homes must go by the same. The zero value
// is 2b, 3b and 4a: the state travels and each sender's order holds.
type Handoff struct {
	// Serves is 2a: the old home runs turns until the new one is ready. What they
	// change does not travel.
	Serves bool
	// Sheds is 2c: the old home drops the calls that come while it gives the shard
	// away; their senders may try again.
	Sheds bool
	// Unordered is 3a: the new home runs a sender's calls as they come, though older
	// ones may still come by way of the old home.
	Unordered bool
	// TurnsAway is 4b: the old home refuses what still comes once the new home has
	// the shard, and says where it is.
	TurnsAway bool
	// Drops leaves the state behind.
	Drops bool
}

// ParseHandoff reads the paper's options, of each number at most one, or one of
// "ordered" (the default: 2b 3b 4a) and "drop" (2c 3a 4b, without the state).
func ParseHandoff(options ...string) (h Handoff, err error) {
	numbers := map[byte]string{}
	for _, o := range options {
		switch o {
		case "2a":
			h.Serves = true
		case "2c":
			h.Sheds = true
		case "3a":
			h.Unordered = true
		case "4b":
			h.TurnsAway = true
		case "2b", "3b", "4a":
		case "ordered", "drop":
			if len(options) > 1 {
				return Handoff{}, fmt.Errorf("%q stands for all options: name no other", o)
			}
			if o == "drop" {
				return Handoff{Sheds: true, Unordered: true, TurnsAway: true, Drops: true}, nil
			}
			return Handoff{}, nil
		default:
			return Handoff{}, fmt.Errorf("unknown option %.20q: want ordered, drop, or of 2a 2b 2c, 3a 3b and 4a 4b one each", o)
		}
		if was := numbers[o[0]]; was != "" {
			return Handoff{}, fmt.Errorf("options %s and %s exclude each other", was, o)
		}
		numbers[o[0]] = o
	}
	return h, nil
}

// CheckState returns why a type with state cannot move so.
func (h Handoff) CheckState() error {
	var bad []string
	if h.Serves {
		bad = append(bad, "2a would lose what turns change while the state is on its way")
	}
	if h.Unordered && !h.Drops {
		bad = append(bad, "3a would run calls out of order")
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("the type has state: %s (want 2b and 3b, or drop)", strings.Join(bad, ", and "))
}

// String names the options: "ordered", "drop", or "2a 3b 4a".
func (h Handoff) String() string {
	switch h {
	case Handoff{}:
		return "ordered"
	case Handoff{Sheds: true, Unordered: true, TurnsAway: true, Drops: true}:
		return "drop"
	}
	words := []string{"2b", "3b", "4a"}
	if h.Serves {
		words[0] = "2a"
	}
	if h.Sheds {
		words[0] = "2c"
	}
	if h.Unordered {
		words[1] = "3a"
	}
	if h.TurnsAway {
		words[2] = "4b"
	}
	return strings.Join(words, " ")
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
	if s.how.Sheds {
		fx.Drop = s.sift(&s.waiting, func(c *Call) bool { return c.Epoch <= s.epoch || c.Local })
	}
	fx.Drained = s.running == 0
	return fx
}
