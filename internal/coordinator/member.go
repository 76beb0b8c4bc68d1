package coordinator

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A member is one process of the cluster, kept until the coordinator ends if it
// registered: its reports about its moves outlive it.
type member struct {
	Member
	present  bool      // in the last view
	register *Register // the latest; nil until it registered
	hosts    map[string]bool
	kept     map[string]placement.Epoch // the wishes that it keeps, by kind
}

// alive reports whether the member can still own something.
func (m *member) alive() bool { return m.present && m.Status != singleton.Down }

// silent reports whether recovery has to wait for the member.
func (m *member) silent() bool { return m.alive() && m.Hosts && m.register == nil }

// home reports whether the member may be given shards of the kind.
func (m *member) home(kind string) bool {
	return m.present && m.Status == singleton.Up && !m.Unreachable && m.hosts[kind]
}

// knows reports whether the member registered the kind and agreed about it: hosting
// it or, with shards that it still has, not any more.
func (m *member) knows(kind string) bool {
	_, ok := m.hosts[kind]
	return ok
}

func (c *Coordinator) alive(a transport.Address) bool {
	m := c.members[a]
	return m != nil && m.alive()
}

// onView takes the new view in. Newcomers are told of the term at once, so that
// they register before they are Up.
func (c *Coordinator) onView(v View) {
	c.view = v
	for _, a := range c.order {
		c.members[a].present = false
	}
	before := map[transport.Address]bool{} // members that were alive
	for _, a := range c.order {
		before[a] = c.members[a].Status != singleton.Down
	}
	for _, in := range v.Members {
		m := c.members[in.Address]
		if m == nil {
			m = &member{}
			c.members[in.Address] = m
			i, _ := slices.BinarySearchFunc(c.order, in.Address, transport.Address.Compare)
			c.order = slices.Insert(c.order, i, in.Address)
			if in.Status != singleton.Down && !c.statusAt.IsZero() {
				c.send(in.Address, TableStatus{c.version()})
			}
		}
		m.Member, m.present = in, true
	}
	for _, a := range slices.Clone(c.order) {
		m := c.members[a]
		if m.alive() {
			continue
		}
		if before[a] || m.present && !slices.Contains(c.gone, a) && !slices.Contains(c.table.Gone(), a) {
			c.gone = append(c.gone, a)
		}
		m.Status = singleton.Down
		if !m.present && (c.recovered || m.register == nil) {
			c.forget(a)
		}
	}
	c.reap = true
}

// forget drops a member for good.
func (c *Coordinator) forget(a transport.Address) {
	delete(c.members, a)
	if i, ok := slices.BinarySearchFunc(c.order, a, transport.Address.Compare); ok {
		c.order = slices.Delete(c.order, i, i+1)
	}
}

// onRegister takes a node's hosted kinds and, before recovery, the shards that it owns.
// After recovery its claims count only where nothing else is known.
func (c *Coordinator) onRegister(from transport.Address, r Register) {
	if r.Node != from {
		c.refuse(from, r, fmt.Sprintf("it names %v", r.Node))
		return
	}
	m := c.members[from]
	if m.register != nil && m.register.Seq >= r.Seq {
		c.send(from, Registered{c.config.Term, m.register.Seq})
		return
	}
	r.Owned = slices.Clone(r.Owned)
	r.Owned = slices.DeleteFunc(r.Owned, func(o Owned) bool {
		if o.sound(from) {
			return false
		}
		c.event(Event{What: Refused, Node: from, Shard: o.ShardID, Reason: fmt.Sprintf("a claim that makes no sense: %v at %v, to be %v, with %v", o.State, o.Epoch, o.Move, o.Peer)})
		return true
	})
	for _, o := range r.Owned {
		if e := max(o.Epoch, o.Move); e.Term() > c.config.Term.Number {
			c.superseded = true
			c.event(Event{What: Superseded, Node: from, Shard: o.ShardID, Epoch: e, Reason: "a claim of a later term"})
			return
		}
	}
	first := m.register == nil
	m.register = &r
	m.hosts, m.kept = map[string]bool{}, map[string]placement.Epoch{}
	for _, info := range r.Kinds {
		if err := c.learn(info); err != nil {
			c.event(Event{What: KindRefused, Node: from, Reason: err.Error()})
			continue
		}
		m.hosts[info.Name] = info.Hosts
	}
	c.keepPins(m, r.Pins)
	c.plan, c.pinsAt = true, c.now
	c.send(from, Registered{c.config.Term, r.Seq})
	if c.recovered {
		if first {
			c.adopt(from, r.Owned)
		}
		c.send(from, TableStatus{c.version()})
	}
}

// learn compares a node's description of a kind with the known one. A node that
// only calls the kind does not make it known.
func (c *Coordinator) learn(info KindInfo) error {
	k := c.kinds[info.Name]
	if k == nil {
		if !info.Hosts {
			return nil
		}
		if err := placement.CheckShards(int(info.Shards)); err != nil || info.Name == "" {
			return fmt.Errorf("register kind %q: %d shards (want a name and a power of two up to %d)", info.Name, info.Shards, placement.MaxShards)
		}
		if c.shards+int(info.Shards) > maxShards {
			return fmt.Errorf("register kind %s: %d shards more than the cluster's %d make over %d (use fewer shards a kind)",
				info.Name, info.Shards, c.shards, maxShards)
		}
		c.addKind(info)
		return nil
	}
	have := k.info
	have.Hosts, have.Tuning = info.Hosts, info.Tuning
	if have != info {
		return fmt.Errorf("register kind %s: %s, but the cluster has %s (both sides must run the same contract)",
			info.Name, describe(info), describe(have))
	}
	if info.Hosts && k.info.Tuning != info.Tuning {
		c.tune(k, info.Tuning)
		c.event(Event{What: KindTuned, Shard: placement.ShardID{Kind: info.Name}, Reason: fmt.Sprintf("%+v", info.Tuning)})
	}
	return nil
}

// tune takes settings for a kind.
func (c *Coordinator) tune(k *kind, t Tuning) {
	k.info.Tuning = t
	place, ok := c.config.Strategies.find(t.Allocation, c.config.Strategy)
	if !ok {
		c.event(Event{
			What: StrategyRefused, Shard: placement.ShardID{Kind: k.info.Name},
			Reason: fmt.Sprintf("%s does not know %s and uses %v (host the type there too, with shard.Proxy)", c.config.Self.Name, t.Allocation, place),
		})
	}
	k.place = place
}

// moveLimit is how many shards of the kind may move at once for balance.
func (c *Coordinator) moveLimit(k *kind) int {
	if k.info.MaxMoves > 0 {
		return int(k.info.MaxMoves)
	}
	return c.config.MaxMoves
}

func describe(k KindInfo) string {
	return fmt.Sprintf("%s with %d shards by %s", k.Package, k.Shards, k.HashName)
}

// homes returns the members that may be given shards of the kind, with their load, in
// order of address, and the moves that pins ask for, in order of the present home.
func (c *Coordinator) homes(k *kind) (loads []placement.Load, wishes []wish) {
	at := map[transport.Address]int{}
	for _, a := range c.order {
		if c.members[a].home(k.info.Name) {
			at[a] = len(loads)
			loads = append(loads, placement.Load{Node: a, Total: c.totals[a]})
		}
	}
	if len(loads) == 0 {
		return nil, nil
	}
	wishesFrom := make([][]wish, len(loads))
	for i := range k.shards {
		s := &k.shards[i]
		l, ok := at[s.goesTo()]
		if !ok {
			continue
		}
		loads[l].Shards++
		if s.move != nil || c.now.Before(s.rest) {
			continue
		}
		if to, wished := k.pinned(s.id.Shard, loads); !wished {
			loads[l].Movable = append(loads[l].Movable, s.id.Shard)
		} else if to != loads[l].Node {
			wishesFrom[l] = append(wishesFrom[l], wish{loads[l].Node, placement.Transfer{Shard: s.id.Shard, To: to}})
		}
	}
	return loads, slices.Concat(wishesFrom...)
}

// countTotals counts every node's shards of all kinds, once for each plan.
func (c *Coordinator) countTotals() {
	c.totals = map[transport.Address]int{}
	for _, name := range c.names {
		for i := range c.kinds[name].shards {
			if to := c.kinds[name].shards[i].goesTo(); !to.IsZero() {
				c.totals[to]++
			}
		}
	}
}
