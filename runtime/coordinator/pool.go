package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Pool has the settings of a pool, a type with one instance per shard. The zero value means that
// the type is not a pool. Instance i is the shard of number Shards+i; if the pool has n instances,
// those from n on have no home.
type Pool struct {
	Min, Max uint32 // bounds of the number of instances; 1 or more
	PerNode  uint32 // instances of the pool at one member at most; 0 means any number
	// Survive is the number of members that may fail at once, by the number of members that host
	// the type, as [FormatSurvive] writes it. "" means none. If hosts differ, the highest counts.
	Survive string
}

// MaxSurviveNodes is the number of members up to which a pool's hosts announce how many may fail.
// For more members, the number for MaxSurviveNodes counts.
const MaxSurviveNodes = 256

// FormatSurvive calls f, which returns how many members may fail, for 1 to [MaxSurviveNodes]
// members. The result lists each number of members from which f changes, with f's value: "1:0 5:1".
// It returns an error if f(n) is not 0 to n-1 for some n.
func FormatSurvive(f func(nodes int) int) (string, error) {
	var words []string
	last := -1
	for n := 1; n <= MaxSurviveNodes; n++ {
		v := f(n)
		if v < 0 || v >= n {
			return "", fmt.Errorf("%d of %d members may fail: want 0 to %d", v, n, n-1)
		}
		if v != last {
			words = append(words, fmt.Sprintf("%d:%d", n, v))
		}
		last = v
	}
	return strings.Join(words, " "), nil
}

// survive reads text, a result of FormatSurvive, and returns how many members may fail. nodes is
// the number of members.
func survive(text string, nodes int) (fail int) {
	for _, word := range strings.Fields(text) {
		from, value, _ := strings.Cut(word, ":")
		n, err := strconv.Atoi(from)
		v, bad := strconv.Atoi(value)
		if err != nil || bad != nil || n > nodes {
			break
		}
		fail = max(min(v, nodes-1), 0)
	}
	return fail
}

func (k *entityType) isPool() bool { return k.info.isPool() }

// kept returns the shards that should have a home: of a pool its instances, else all.
func (k *entityType) kept() []shard {
	if k.isPool() {
		return k.shards[:min(k.count, len(k.shards))]
	}
	return k.shards
}

// keeps reports whether the shard should have a home.
func (k *entityType) keeps(s *shard) bool {
	return !k.isPool() || s.id.Shard-k.info.Shards < uint32(k.count)
}

// sizePools sets the number of instances of each pool. It is the number that operators ask for or,
// if they ask for none, the number that the pool's load needs. If the pool must have more to
// survive failures, it gets more. The pool's bounds and the room of its members limit the number.
func (c *Coordinator) sizePools() {
	for _, name := range c.names {
		k := c.types[name]
		if !k.isPool() {
			continue
		}
		nodes := len(c.hostsOf(name))
		if nodes == 0 {
			continue
		}
		if k.load.want == 0 { // new coordinators begin with the present instances
			k.load.want = max(1, k.highest())
		}
		p := k.info.Pool
		n := max(c.needed(k), k.load.want)
		if k.pins.Count > 0 {
			n = max(c.needed(k), int(k.pins.Count))
		}
		k.wants = min(max(min(n, int(p.Max)), int(p.Min)), len(k.shards))
		n = k.wants
		if p.PerNode > 0 {
			n = min(n, nodes*int(p.PerNode))
		}
		if n != k.count {
			k.count = n
			c.event(Event{What: PoolSized, Shard: placement.ShardID{Kind: name}, Reason: c.sizeOf(k)})
		}
	}
}

// checkPools returns an error if a pool has too few or too many instances, an instance without a
// home, or too many at one member. An instance that moves to a member counts as there.
func (c *Coordinator) checkPools() error {
	for _, name := range c.names {
		k := c.types[name]
		nodes := len(c.hostsOf(name))
		if !k.isPool() || nodes == 0 || !k.opened {
			continue
		}
		p, room := k.info.Pool, len(k.shards)
		if p.PerNode > 0 {
			room = min(room, nodes*int(p.PerNode))
		}
		least := min(max(int(p.Min), min(c.needed(k), int(p.Max))), room)
		if k.count < least || k.count > min(max(int(p.Max), int(p.Min)), room) {
			return fmt.Errorf("%s has %d instances, want %d to %d, and %d members have room for %d", name, k.count, least, p.Max, nodes, room)
		}
		here, lost, free := map[*member]int{}, "", map[*member]bool{}
		for i := range k.kept() {
			s := &k.shards[i]
			m := c.goesTo(s)
			switch {
			case m != nil:
				here[m]++
				free[m] = free[m] || s.move == nil && !c.now.Before(s.rest)
			case s.move == nil:
				lost = s.id.String()
			}
		}
		hasRoom := func(a transport.Address) bool {
			m := c.members[a]
			return m.home(name) && (p.PerNode == 0 || here[m] < int(p.PerNode))
		}
		if lost != "" && slices.ContainsFunc(c.order, hasRoom) {
			return fmt.Errorf("%s has no home, and a member has room for it", lost)
		}
		if !c.view.Converged || c.pause.On || c.countOf(name) > 0 || !slices.ContainsFunc(c.order, hasRoom) {
			continue
		}
		for _, a := range c.order {
			if m := c.members[a]; p.PerNode > 0 && here[m] > int(p.PerNode) && free[m] && m.home(name) {
				return fmt.Errorf("%s has %d instances at %v, want %d at most, and none moves to one that has room", name, here[m], a, p.PerNode)
			}
		}
	}
	return nil
}

// sizeOf describes a pool's size and its reasons, for people.
func (c *Coordinator) sizeOf(k *entityType) string {
	by := k.load.String()
	if k.pins.Count > 0 {
		by = fmt.Sprintf("%d as operators ask", k.pins.Count)
	}
	return fmt.Sprintf("%d instances at %d members, and %d wanted: %d for failures, %s, and %d to %d",
		k.count, len(c.hostsOf(k.info.Name)), k.wants, c.needed(k), by, k.info.Pool.Min, k.info.Pool.Max)
}

// highest returns the number of shards up to the last one with a home.
func (k *entityType) highest() int {
	for i := len(k.shards) - 1; i >= 0; i-- {
		if !k.shards[i].home.IsZero() {
			return i + 1
		}
	}
	return 0
}

// needed returns the number of members that must have an instance: one more than the failures that
// the pool must survive.
func (c *Coordinator) needed(k *entityType) int {
	hosts := c.hostsOf(k.info.Name)
	fail := 0
	for _, m := range hosts {
		fail = max(fail, survive(m.pools[k.info.Name], len(hosts)))
	}
	return fail + 1
}

// hostsOf returns the members that count for a pool's size: those that host the type and are Up,
// whether reachable or not.
func (c *Coordinator) hostsOf(kind string) (all []*member) {
	for _, a := range c.order {
		if m := c.members[a]; m.up() && m.hosts[kind] {
			all = append(all, m)
		}
	}
	return all
}

// retire begins the orderly end of each pool's surplus instances, at their homes. It waits until
// all other instances of the pool are at their homes, so that a pool never has too few.
func (c *Coordinator) retire() {
	for _, name := range c.names {
		k := c.types[name]
		if !k.isPool() || slices.ContainsFunc(k.kept(), func(s shard) bool { return s.home.IsZero() || s.move != nil }) {
			continue
		}
		for i := len(k.shards) - 1; i >= k.count; i-- {
			s := &k.shards[i]
			m := c.members[s.home]
			if m != nil && m.alive() && !m.Unreachable && s.move == nil && !c.now.Before(s.rest) {
				c.begin(s, transport.Address{}, retiring)
			}
		}
	}
}

// retires reports whether r claims the shard as an ending instance, which its pool no longer needs.
func (r *Register) retires(o HeldShard) bool {
	return o.Peer.IsZero() && o.Epoch > 0 && o.Move > o.Epoch && (o.State == Draining || o.State == Sent) &&
		slices.ContainsFunc(r.Types, func(t TypeInfo) bool { return t.Name == o.Kind && t.isPool() })
}

// retired ends the move of a shard that has no home any more.
func (c *Coordinator) retired(m *move) {
	c.end(m)
	c.set(m.shard, transport.Address{}, m.epoch)
	m.shard.why = fmt.Sprintf("it ended at %s, for the pool became smaller", m.from.Name)
	c.event(Event{What: MoveCommitted, Shard: m.shard.id, Node: m.from, Epoch: m.epoch, Reason: "the pool became smaller"})
}

// place returns the strategy of a type. The strategy of a pool begins behind the member that got an
// instance last.
func (c *Coordinator) place(k *entityType) placement.Strategy {
	if l := c.leader(k); l != nil {
		return follows{k.place, k, l}
	}
	if !k.isPool() {
		return k.place
	}
	used := map[transport.Address]int{}
	for _, name := range c.names {
		if k := c.types[name]; k.isPool() {
			for i := range k.kept() {
				used[k.shards[i].goesTo()]++
			}
		}
	}
	return circle{last: c.last, used: used, perNode: int(k.info.Pool.PerNode), apart: min(c.needed(k), k.count)}
}

// A circle chooses the members for the instances of a pool. It takes the member with the fewest
// instances of the pool. Among equals it takes the one whose zone has the fewest, then the one with
// the fewest instances of all pools. Among members that are equal in all this, it takes the next in
// the order of addresses, round from the member chosen last. So pools overlap as little as
// possible, and the loss of a zone takes as few instances as possible.
type circle struct {
	last    transport.Address         // zero: begin with the first member
	used    map[transport.Address]int // instances of all pools
	perNode int                       // instances of the pool at one member at most; 0 means any number
	apart   int                       // the number of members that must have an instance
}

var _ placement.Strategy = circle{}

// String implements [placement.Strategy].
func (circle) String() string { return "circle" }

// Allocate implements [placement.Strategy].
func (c circle) Allocate(_ placement.ShardID, homes []placement.Load) transport.Address {
	start, found := slices.BinarySearchFunc(homes, c.last, func(l placement.Load, a transport.Address) int { return l.Node.Compare(a) })
	if found {
		start++
	}
	way := slices.Concat(homes[start:], homes[:start])
	way = slices.DeleteFunc(way, func(l placement.Load) bool { return c.perNode > 0 && l.Shards >= c.perNode })
	if len(way) == 0 {
		return transport.Address{}
	}
	zones := zonesOf(homes)
	return slices.MinFunc(way, func(a, b placement.Load) int {
		return cmp.Or(cmp.Compare(a.Shards, b.Shards), cmp.Compare(zones[a.Zone], zones[b.Zone]), cmp.Compare(c.used[a.Node], c.used[b.Node]))
	}).Node
}

// zonesOf returns how many instances of the pool each zone has.
func zonesOf(homes []placement.Load) map[string]int {
	zones := map[string]int{}
	for i := range homes {
		zones[homes[i].Zone] += homes[i].Shards
	}
	return zones
}

// Rebalance implements [placement.Strategy]. It moves instances in two cases only. Either too few
// members or zones have an instance for the failures that the pool must survive; or a member has
// too many, because it got one while another was to end there, and the other one stayed.
func (c circle) Rebalance(_ string, homes []placement.Load, limit int) (moves []placement.Transfer) {
	homes = slices.Clone(homes)
	for len(moves) < limit {
		from, to := c.excess(homes)
		if from < 0 {
			break
		}
		n := len(homes[from].Movable) - 1
		moves = append(moves, placement.Transfer{Shard: homes[from].Movable[n], To: homes[to].Node})
		homes[from].Movable, homes[from].Shards = homes[from].Movable[:n], homes[from].Shards-1
		homes[to].Shards++
	}
	return moves
}

// excess returns the indices of the member that an instance should leave (-1: none) and of its
// destination.
func (c circle) excess(homes []placement.Load) (from, to int) {
	members, zones, used := 0, zonesOf(homes), 0
	for i := range homes {
		members += min(homes[i].Shards, 1)
	}
	for _, n := range zones { //arch:order-free a count
		used += min(n, 1)
	}
	next := c.Allocate(placement.ShardID{}, homes)
	to = slices.IndexFunc(homes, func(l placement.Load) bool { return l.Node == next })
	if to < 0 {
		return -1, -1
	}
	most := func(above int, n func(l placement.Load) int) int {
		return slices.IndexFunc(homes, func(l placement.Load) bool { return len(l.Movable) > 0 && n(l) > above })
	}
	here := func(l placement.Load) int { return l.Shards }
	if c.perNode > 0 {
		if from = most(c.perNode, here); from >= 0 {
			return from, to
		}
	}
	if homes[to].Shards == 0 && members < min(c.apart, len(homes)) {
		if from = most(1, here); from >= 0 {
			return from, to
		}
	}
	if zones[homes[to].Zone] == 0 && used < min(c.apart, len(zones)) {
		return most(1, func(l placement.Load) int { return zones[l.Zone] }), to
	}
	return -1, -1
}
