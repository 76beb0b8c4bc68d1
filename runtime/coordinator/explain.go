package coordinator

import (
	"fmt"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// chosenBy says why a shard without a home was given the home to.
func chosenBy(k *kind, s *shard, to transport.Address) string {
	by := k.place.String()
	if k.pins.at(s.id.Shard) == to.Name {
		by = "a pin (PlaceShards)"
	}
	if s.why == "" {
		return "it was given its first home there by " + by
	}
	return s.why + " and given a new home by " + by
}

// explain tells people where a shard is and why, and since when it has that home.
func explain(c *planner, id placement.ShardID) (text string, since time.Time) {
	k, s := c.kinds[id.Kind], c.shard(id)
	switch {
	case !c.recovered:
		return "the coordinator waits until " + c.waiting + " registered or are down", since
	case k == nil:
		return fmt.Sprintf("no member hosts %s", id.Kind), since
	case s == nil:
		return fmt.Sprintf("%s has %d shards, and none of number %d", id.Kind, k.info.Shards, id.Shard), since
	}
	var b strings.Builder
	switch {
	case !s.home.IsZero():
		since = s.since
		fmt.Fprintf(&b, "%v lives at %s under epoch %v: %s", id, s.home.Name, s.epoch, s.why)
	case !k.wanted:
		fmt.Fprintf(&b, "%v has no home: nobody called the type yet", id)
	default:
		fmt.Fprintf(&b, "%v has no home: %s", id, c.whyNot(k))
	}
	if m := s.move; m != nil {
		fmt.Fprintf(&b, "; it moves to %s, %s (%s)", m.to.Name, c.causeOf(m), m.progress())
	}
	if name := k.pins.at(id.Shard); name != "" && name != s.home.Name {
		fmt.Fprintf(&b, "; it is pinned to %s", name)
		if s.move == nil && !c.view.Converged {
			b.WriteString(", and the view has not converged" + c.unreachable())
		}
	}
	if c.pause.On {
		fmt.Fprintf(&b, "; %v", c.pause)
	}
	return b.String(), since
}

// progress is how far a move is, for people.
func (m *move) progress() string {
	if m.state == 0 {
		return m.phase.String()
	}
	return fmt.Sprintf("%v, %v at the old home", m.phase, m.state)
}

// A Moving is a move of a shard that is under way.
type Moving struct {
	Shard    placement.ShardID
	From, To transport.Address
	Epoch    placement.Epoch // of the new home
	Why      string
	Phase    string    // how far it is
	Began    time.Time // as this coordinator knows
}

// Moves returns the moves that are under way, in the order of their begin.
func (c *Coordinator) Moves() []Moving {
	var all []Moving
	for _, m := range c.moves {
		all = append(all, Moving{m.shard.id, m.from, m.to, m.epoch, c.causeOf(m), m.progress(), m.began})
	}
	return all
}
