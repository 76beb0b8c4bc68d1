package coordinator

import (
	"fmt"
	"strings"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// chosenBy is why a shard without a home was given that one.
func chosenBy(k *kind, s *shard, to transport.Address) string {
	by := k.place.String()
	if k.pins.at(s.id.Shard) == to.Name {
		by = "a wish (PlaceShards)"
	}
	if s.why == "" {
		return "it was given its first home there by " + by
	}
	return s.why + " and given a new home by " + by
}

// explain tells people where a shard is and why.
func explain(c *planner, id placement.ShardID) string {
	k, s := c.kinds[id.Kind], c.shard(id)
	switch {
	case !c.recovered:
		return "the coordinator waits until " + c.waiting + " registered or are down"
	case k == nil:
		return fmt.Sprintf("no member hosts %s", id.Kind)
	case s == nil:
		return fmt.Sprintf("%s has %d shards, and none of number %d", id.Kind, k.info.Shards, id.Shard)
	}
	var b strings.Builder
	switch {
	case !s.owner.IsZero():
		fmt.Fprintf(&b, "%v lives at %s under epoch %v: %s", id, s.owner.Name, s.epoch, s.why)
	case !k.wanted:
		fmt.Fprintf(&b, "%v has no home: nobody called the type yet", id)
	default:
		fmt.Fprintf(&b, "%v has no home: %s", id, c.whyNot(k))
	}
	if m := s.move; m != nil {
		fmt.Fprintf(&b, "; it moves to %s, %s (%v", m.to.Name, c.causeOf(m), m.phase)
		if m.state != 0 {
			fmt.Fprintf(&b, ", %v at the old home", m.state)
		}
		b.WriteString(")")
	}
	if name := k.pins.at(id.Shard); name != "" && name != s.owner.Name {
		fmt.Fprintf(&b, "; it is wished to be at %s", name)
		if s.move == nil && !c.view.Converged {
			b.WriteString(", and the view has not converged" + c.unreachable())
		}
	}
	return b.String()
}
