package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type claim struct {
	node transport.Address
	HeldShard
}

// rank returns the epoch by which claims are ordered.
func (c claim) rank() placement.Epoch { return max(c.Epoch, c.Move) }

// recover ends recovery once every node that may hold shards has registered.
func (c *Coordinator) recover() {
	var awaited []string
	present := false
	for _, a := range c.order {
		m := c.members[a]
		present = present || m.present
		if m.awaited() {
			awaited = append(awaited, a.String())
		}
	}
	waiting := strings.Join(awaited, ", ")
	if !present {
		waiting = "a first view"
	}
	if waiting != "" {
		if waiting != c.waiting {
			c.event(Event{What: Waiting, Reason: waiting})
		}
		c.waiting = waiting
		return
	}
	c.waiting, c.recovered, c.reap, c.plan = "", true, false, true
	var all []claim
	for _, a := range c.order {
		m := c.members[a]
		if m.register == nil {
			continue
		}
		for _, o := range m.register.Shards {
			if m.knows(o.Kind) {
				all = append(all, claim{a, o})
			}
		}
	}
	n := c.resolve(all)
	c.disown()
	c.event(Event{What: Recovered, Count: n})
	for _, a := range slices.Clone(c.order) {
		if !c.members[a].present {
			c.forget(a)
		}
	}
}

// disown puts the unclaimed shards of pools into the table without a home. A former term may have
// assigned a home that never learnt of it; members and callers then forget that home. All shards of
// other types get homes anyway.
func (c *Coordinator) disown() {
	if c.config.Term.Number == 1 {
		return // there was no former term
	}
	for _, name := range c.names {
		k := c.types[name]
		for i := range k.shards {
			if s := &k.shards[i]; k.isPool() && s.last == 0 {
				c.give(s, transport.Address{})
			}
		}
	}
}

// adopt handles the claims of a node that registered after recovery. A claim counts only if this
// coordinator has assigned no epoch to the shard. The node joined after recovery, so this
// coordinator assigned all other shards that the node holds.
func (c *Coordinator) adopt(from transport.Address, held []HeldShard) {
	var fresh []claim
	for _, o := range held {
		if s := c.shard(o.ShardID); s != nil && s.last == 0 && c.members[from].knows(o.Kind) {
			fresh = append(fresh, claim{from, o})
		}
	}
	c.resolve(fresh)
}

func (c *Coordinator) resolve(all []claim) int {
	slices.SortStableFunc(all, func(a, b claim) int { return a.ShardID.Compare(b.ShardID) })
	n := 0
	for len(all) > 0 {
		end := slices.IndexFunc(all, func(o claim) bool { return o.ShardID != all[0].ShardID })
		if end < 0 {
			end = len(all)
		}
		if s := c.shard(all[0].ShardID); s == nil {
			c.event(Event{What: Refused, Node: all[0].node, Shard: all[0].ShardID, Reason: "a claim to a shard that the type does not have"})
		} else {
			c.resolveShard(s, all[:end])
			c.types[s.id.Kind].opened, c.types[s.id.Kind].wanted = true, true
			n++
		}
		all = all[end:]
	}
	return n
}

// resolveShard decides a shard's home by the table in the package's doc. Comments name its rows.
func (c *Coordinator) resolveShard(s *shard, claims []claim) {
	for _, o := range claims {
		s.last = max(s.last, o.rank())
	}
	s.why = "it was there when this coordinator began, at " + c.now.UTC().Format(time.RFC3339)
	top := slices.DeleteFunc(slices.Clone(claims), func(o claim) bool { return o.rank() != s.last })
	if i := slices.IndexFunc(top, func(o claim) bool { return o.State == Active && c.alive(o.node) }); i >= 0 {
		if c.config.Anew {
			c.give(s, top[i].node)
		} else {
			c.set(s, top[i].node, s.last) // row 1
		}
		s.since = time.Time{}
		c.contest(s, claims)
		return
	}
	target := slices.IndexFunc(top, func(o claim) bool { return o.State.target() && c.alive(o.node) })
	source := slices.IndexFunc(top, func(o claim) bool { return !o.State.target() && o.State != Active })
	switch {
	case source >= 0 && c.alive(top[source].node):
		c.resolveMove(s, top[source], target >= 0 && top[target].node == top[source].Peer)
	case target >= 0: // row 6
		c.give(s, top[target].node)
		c.event(Event{What: MovePromoted, Shard: s.id, Node: top[target].Peer, Peer: s.home, Epoch: s.epoch, Reason: "the old home is gone"})
	case source >= 0 && c.alive(top[source].Peer): // row 6
		c.give(s, top[source].Peer)
		c.event(Event{What: MovePromoted, Shard: s.id, Node: top[source].node, Peer: s.home, Epoch: s.epoch, Reason: "the old home is gone"})
	default: // row 7
		c.give(s, transport.Address{})
		c.event(Event{What: HomeLost, Shard: s.id, Node: top[0].node, Epoch: s.epoch, Reason: "down or removed"})
	}
}

func (c *Coordinator) resolveMove(s *shard, old claim, prepared bool) {
	peer := c.alive(old.Peer)
	if old.State == Forwarding {
		e := Event{Shard: s.id, Node: old.node, Peer: old.Peer}
		switch {
		case !peer: // row 5
			c.give(s, transport.Address{})
			e = Event{What: HomeLost, Shard: s.id, Node: old.Peer, Reason: "lost after it had taken the shard over"}
		case prepared && !c.config.Anew: // row 4: no need to wait for Open, which was sent
			c.set(s, old.Peer, old.Move)
			e.What = MoveCommitted
		default: // row 4: it may be prepared since, or have given the shard away
			c.give(s, old.Peer)
			e.What, e.Reason = MovePromoted, "the old home has sent Open"
		}
		e.Epoch = s.epoch
		c.event(e)
		return
	}
	c.set(s, old.node, old.Epoch)
	s.since = time.Time{}
	m := &move{shard: s, from: old.node, to: old.Peer, epoch: old.Move, cause: balancing, phase: moving, state: old.State, resendAt: c.now, began: c.now}
	if c.mustGo(s) {
		m.cause = leaving
	}
	if old.Peer.IsZero() {
		m.cause = retiring
	} else if !peer { // row 3
		m.become(askingOld)
	} // else row 2
	s.move = m
	c.moves = append(c.moves, m)
	c.event(Event{What: MoveRestored, Shard: s.id, Node: m.from, Peer: m.to, Epoch: m.epoch, Reason: m.phase.String()})
}

// contest reports each node whose claim to s lost to a claim with a higher epoch, for example after
// a partition. Such a node gives the shard up when it gets the table.
func (c *Coordinator) contest(s *shard, claims []claim) {
	for _, o := range claims {
		if o.State == Active && o.node != s.home {
			c.event(Event{What: ClaimLost, Shard: s.id, Node: o.node, Peer: s.home, Epoch: s.epoch, Reason: fmt.Sprintf("it claims %v", o.Epoch)})
		}
	}
}
