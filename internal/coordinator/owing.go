package coordinator

import (
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// Owing returns the other members that can be reached and owe this coordinator an answer
// which needs no time of their own, by address: they have not registered, or not reported
// the state of a move that is to be cancelled. They are asked again and again; while one
// of them owes, shards have no home. The driver decides about a member that owes an
// answer for long.
func (c *Coordinator) Owing() []transport.Address {
	var nodes []transport.Address
	owes := func(a transport.Address) {
		m := c.members[a]
		if a != c.config.Self && m != nil && m.alive() && !m.Unreachable && !slices.Contains(nodes, a) {
			nodes = append(nodes, a)
		}
	}
	if c.superseded {
		return nil
	}
	for _, a := range c.order {
		if c.members[a].silent() {
			owes(a)
		}
	}
	for _, m := range c.moves {
		switch m.phase {
		case askingNew:
			owes(m.to)
		case askingOld:
			owes(m.from)
		case moving, ended:
		}
	}
	slices.SortFunc(nodes, transport.Address.Compare)
	return nodes
}
