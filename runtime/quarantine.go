package shard

import (
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// quarantine notices members that answer heartbeats and owe the coordinator here an
// answer for longer than Membership.QuarantineAfter, although it is asked for again
// and again. It belongs to the control loop.
type quarantine struct {
	control *control
	since   map[transport.Address]time.Time // when it was first seen that a member owes
}

// look is called after each step of the coordinator. Only time in which this node
// itself could hear counts: its turn lease runs, and the member is reachable.
func (q *quarantine) look(now time.Time) {
	c := q.control
	var owing []transport.Address
	if c.coord != nil && c.plane.lease.Valid() {
		owing = c.coord.Owing()
	}
	owed := make(map[transport.Address]time.Time, len(owing))
	for _, node := range owing {
		since, ok := q.since[node]
		if !ok {
			since = now
		}
		owed[node] = since
	}
	q.since = owed
	for _, node := range owing {
		if now.Sub(owed[node]) < c.node.cfg.Membership.QuarantineAfter {
			continue
		}
		delete(q.since, node)
		c.node.log.Error("member quarantined: it answers heartbeats, and what it must answer it does not",
			"member", node.String(), "after", c.node.cfg.Membership.QuarantineAfter)
		c.loop.Post(func() { c.stepMembers(membership.Undeliverable{Peer: node}) })
	}
}
