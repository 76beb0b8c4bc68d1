package coordinator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A member is one process of the cluster, as the coordinator knows it. A registered member that was
// removed is kept until recovery ends, because its reports about moves count.
type member struct {
	Member
	present  bool      // in the last view
	register *Register // the latest; nil until it registered
	hosts    map[string]bool
	hosted   int                        // the number of types that it hosts
	pools    map[string]string          // what its pools must survive, by type
	kept     map[string]placement.Epoch // the latest pins that it keeps, by type; "" is the pause
	load     load

	// plan.go: while a plan is made.
	total int     // shards that it will have
	used  float64 // processors that they use
	slot  int     // its index among the homes of a type; -1: not a home
}

// add counts arriving shards and the processors that they use. Negative numbers mean departing
// shards.
func (m *member) add(shards int, processors float64) {
	m.total += shards
	m.used += processors
}

func (m *member) alive() bool { return m.present && m.Status != membership.Down }

func (m *member) awaited() bool { return m.alive() && m.Hosts && m.register == nil }

func (m *member) up() bool { return m.present && m.Status == membership.Up }

func (m *member) home(kind string) bool { return m.up() && !m.Unreachable && m.hosts[kind] }

// empties reports whether the member should give its shards of the type away, because it leaves or
// does not host the type.
func (m *member) empties(kind string) bool {
	return m.alive() && !m.Unreachable && (m.Status != membership.Up || !m.hosts[kind])
}

// mayEmpty reports whether empties may be true for one of the cluster's types. types is their
// number.
func (m *member) mayEmpty(types int) bool {
	return m.alive() && !m.Unreachable && (m.Status != membership.Up || m.hosted != types)
}

// knows reports whether the member hosts the type or still holds shards of it.
func (m *member) knows(kind string) bool {
	_, ok := m.hosts[kind]
	return ok
}

func (c *Coordinator) alive(a transport.Address) bool {
	m := c.members[a]
	return m != nil && m.alive()
}

func (c *Coordinator) forget(a transport.Address) {
	delete(c.members, a)
	if i, ok := slices.BinarySearchFunc(c.order, a, transport.Address.Compare); ok {
		c.order = slices.Delete(c.order, i, i+1)
	}
}

func (c *Coordinator) unreachable() string {
	var names []string
	for _, a := range c.order {
		if m := c.members[a]; m.alive() && m.Unreachable {
			names = append(names, a.Name)
		}
	}
	if names == nil {
		return ""
	}
	return " (" + strings.Join(names, ", ") + " unreachable)"
}

// onView sends the term to new members at once, so that they register before they are Up.
func (c *Coordinator) onView(v View) {
	c.view = v
	for _, a := range c.order {
		c.members[a].present = false
	}
	before := map[transport.Address]bool{} // members that were alive
	for _, a := range c.order {
		before[a] = c.members[a].Status != membership.Down
	}
	for _, in := range v.Members {
		m := c.members[in.Address]
		if m == nil {
			m = &member{kept: map[string]placement.Epoch{}}
			c.members[in.Address] = m
			i, _ := slices.BinarySearchFunc(c.order, in.Address, transport.Address.Compare)
			c.order = slices.Insert(c.order, i, in.Address)
			if in.Status != membership.Down && !c.statusAt.IsZero() {
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
		m.Status = membership.Down
		if !m.present && (c.recovered || m.register == nil) {
			c.forget(a)
		}
	}
	c.reap = true
}

// onRegister handles a registration. After recovery, claims count only in a member's first
// registration, for otherwise unknown shards.
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
	r.Shards = slices.Clone(r.Shards)
	r.Shards = slices.DeleteFunc(r.Shards, func(o HeldShard) bool {
		if o.sound(from) || r.retires(o) {
			return false
		}
		c.event(Event{What: Refused, Node: from, Shard: o.ShardID, Reason: fmt.Sprintf("an invalid claim: state %v, epoch %v, epoch of the move %v, other node %v", o.State, o.Epoch, o.Move, o.Peer)})
		return true
	})
	for _, o := range r.Shards {
		if e := max(o.Epoch, o.Move); e.Term() > c.config.Term.Number {
			c.superseded = true
			c.event(Event{What: Superseded, Node: from, Shard: o.ShardID, Epoch: e, Reason: "a claim of a later term"})
			return
		}
	}
	first := m.register == nil
	m.register = &r
	m.hosts, m.hosted, m.pools = map[string]bool{}, 0, map[string]string{}
	for _, info := range r.Types {
		if err := c.learn(info); err != nil {
			c.event(Event{What: TypeRefused, Node: from, Reason: err.Error()})
			continue
		}
		m.hosts[info.Name], m.pools[info.Name] = info.Hosts, info.Pool.Survive
	}
	for _, hosts := range m.hosts { //arch:order-free a count
		if hosts {
			m.hosted++
		}
	}
	c.learnKept(m, r.Pins, r.Pause)
	c.plan = true
	c.send(from, Registered{c.config.Term, r.Seq})
	if c.recovered {
		if first {
			c.adopt(from, r.Shards)
		}
		c.send(from, TableStatus{c.version()})
	}
}
