package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// onAsk records that calls need a type. A sender with an old table gets the latest one.
func (c *Coordinator) onAsk(from transport.Address, a Ask) {
	k := c.types[a.Type]
	switch {
	case k == nil && !c.recovered:
		if len(c.asked) < maxAsked {
			c.asked[a.Type] = true
		}
	case k == nil:
		c.send(from, NoHome{c.config.Term, a.Type, "the coordinator knows no member that hosts the type (start one)"})
		return
	case !k.wanted:
		k.wanted, c.plan = true, true
		if l := c.leader(k); l != nil {
			l.wanted = true // the leader's shards get homes first
		}
	}
	switch {
	case !c.recovered:
		c.send(from, NoHome{c.config.Term, a.Type, "the coordinator waits until " + c.waiting + " registered or are down"})
	case a.Have.Compare(c.version()) < 0:
		c.onTableRequest(from, TableRequest{a.Have})
	case k.homeless() > 0:
		if why := c.whyNot(k); why != "" {
			c.send(from, NoHome{c.config.Term, a.Type, why})
		}
	case k.isPool():
		c.send(from, NoHome{c.config.Term, a.Type, fmt.Sprintf("the pool has %d instances, 0 to %d", k.count, k.count-1)})
	}
}

func (c *Coordinator) whyNot(k *entityType) string {
	up, homes := 0, 0
	for _, a := range c.order {
		m := c.members[a]
		if m.present && m.Status == membership.Up && m.Hosts && m.register != nil {
			up++
		}
		if m.home(k.info.Name) {
			homes++
		}
	}
	switch {
	case homes == 0:
		return "no member that hosts this type is up and reachable"
	case !k.opened && up < c.config.MinMembers:
		return fmt.Sprintf("%d of at least %d hosting members are up (MinMembers)", up, c.config.MinMembers)
	case !k.opened && homes < int(k.info.MinHosts):
		return fmt.Sprintf("%d of at least %d members that host this type are up (MinHosts)", homes, k.info.MinHosts)
	}
	return ""
}

func (c *Coordinator) allocate() {
	for _, name := range c.inOrder() {
		k := c.types[name]
		if !k.wanted || k.lacks == 0 || c.whyNot(k) != "" {
			continue
		}
		homes, _ := c.homes(k)
		given := 0
		for i := range k.kept() {
			s := &k.shards[i]
			if !s.home.IsZero() {
				continue
			}
			if to := c.choose(s.id, homes); !to.IsZero() {
				c.give(s, to)
				s.why = chosenBy(k, s, to)
				given++
			}
		}
		k.opened = true
		c.event(Event{What: Allocated, Shard: placement.ShardID{Kind: name}, Count: given})
	}
}

// choose asks the strategy for a home, and counts the shard there.
func (c *Coordinator) choose(id placement.ShardID, homes []placement.Load) transport.Address {
	k := c.types[id.Kind]
	to, pinned := k.pinned(id.Shard, homes)
	if !pinned {
		to = c.place(k).Allocate(id, homes)
	}
	for i := range homes {
		if homes[i].Node == to {
			homes[i].Shards++
			homes[i].Total++
			use := max(k.costOf(c.shard(id)), k.mean/2) // idle shards should not all go to one member
			homes[i].Used += use
			homes[i].OfType += use
			c.members[to].add(1, use)
			if k.isPool() {
				c.last = to
			}
			return to
		}
	}
	if !to.IsZero() {
		c.event(Event{What: StrategyRefused, Shard: id, Node: to, Reason: "it cannot host the shard"})
	}
	return transport.Address{}
}

func (c *Coordinator) emptyLeaving() {
	if !slices.ContainsFunc(c.order, func(a transport.Address) bool { return c.members[a].mayEmpty(len(c.names)) }) {
		return
	}
	free := c.config.MaxLeaveMoves - c.count(leaving)
	for _, name := range c.inOrder() {
		k := c.types[name]
		var homes []placement.Load
		for i := range k.shards {
			s := &k.shards[i]
			if free <= 0 {
				return
			}
			if s.at == nil || !c.mustGo(s) || !k.keeps(s) {
				continue
			}
			if homes == nil {
				if homes, _ = c.homes(k); homes == nil {
					break // no member takes them: they stay
				}
			}
			if to := c.choose(s.id, homes); !to.IsZero() {
				c.begin(s, to, leaving)
				free--
			}
		}
	}
}

// mustGo reports whether the shard should leave its live home.
func (c *Coordinator) mustGo(s *shard) bool {
	return s.at != nil && s.move == nil && !c.now.Before(s.rest) && s.at.empties(s.id.Kind)
}

// rebalance moves shards as pins and strategies require. All members must agree on the view: the
// coordinator of half a cluster must not move shards. During a pause only pins count.
func (c *Coordinator) rebalance() {
	refused, begun := "", 0
	for _, name := range c.inOrder() {
		k := c.types[name]
		free := c.moveLimit(k) - c.countOf(name)
		if free <= 0 || !k.opened {
			continue
		}
		homes, moves := c.homes(k)
		if len(homes) < 2 {
			continue
		}
		transfers := fulfil(moves, homes, free)
		pinned := len(transfers)
		var why []string // the reasons of moves without pins
		if w, ok := c.place(k).(placement.LoadWeighted); ok && !c.pause.On {
			if pinned == 0 { // else pins change loads first
				transfers, why = c.planByLoad(k, w, homes, free)
			}
		} else if pinned < free && !c.pause.On {
			transfers = append(transfers, c.place(k).Rebalance(name, homes, free-pinned)...)
		}
		if len(transfers) > 0 && !c.view.Converged {
			refused = "view not converged" + c.unreachable()
			break
		}
		for i, t := range transfers[:min(free, len(transfers))] {
			id := placement.ShardID{Kind: name, Shard: t.Shard}
			if i >= pinned && !allowed(homes, t) {
				c.event(Event{What: StrategyRefused, Shard: id, Node: t.To, Reason: "not a move that can be made"})
				continue
			}
			s := c.shard(id)
			s.at.add(-1, -k.costOf(s))
			c.members[t.To].add(1, k.costOf(s))
			by := ""
			if i >= pinned && why != nil {
				by = byLoad + why[i-pinned]
			}
			c.beginBy(s, t.To, balancing, by)
			free--
			begun++
		}
	}
	if refused != "" && refused != c.refused {
		c.event(Event{What: RebalanceRefused, Reason: refused})
	}
	c.refused = refused
	c.looked(begun, c.count(balancing), refused)
}

// allowed reports whether t moves a movable shard from one of homes to another of homes. It removes
// the shard from the Movable of the first one.
func allowed(homes []placement.Load, t placement.Transfer) bool {
	known, movable := false, false
	for i := range homes {
		known = known || homes[i].Node == t.To
		if j, ok := slices.BinarySearch(homes[i].Movable, t.Shard); ok && homes[i].Node != t.To {
			homes[i].Movable = slices.Delete(homes[i].Movable, j, j+1)
			movable = true
		}
	}
	return known && movable
}

func (c *Coordinator) nextRest() time.Time {
	var at time.Time
	if c.planAt.IsZero() {
		return at
	}
	for _, name := range c.names {
		for i := range c.types[name].shards {
			r := c.types[name].shards[i].rest
			if r.After(c.now) && (at.IsZero() || r.Before(at)) {
				at = r
			}
		}
	}
	return at
}

func (c *Coordinator) moveLimit(k *entityType) int {
	if k.info.MaxMoves > 0 {
		return int(k.info.MaxMoves)
	}
	return c.config.MaxMoves
}

// homes returns the loads of members that may get shards of the type, by address. moves are those
// that pins require, by present home. The next call uses the memory of loads again.
func (c *Coordinator) homes(k *entityType) (loads []placement.Load, moves []pinMove) {
	_, rests := k.place.(placement.LoadWeighted)
	loads = again(&c.memory.loads, len(c.order))[:0]
	for _, a := range c.order {
		m := c.members[a]
		all := m.hosted == len(c.names) // saves a map lookup
		if m.slot = -1; !m.up() || m.Unreachable || !all && !m.hosts[k.info.Name] {
			continue
		}
		m.slot = len(loads)
		l := placement.Load{Node: a, Total: m.total, Used: m.load.mean + m.used, Memory: m.load.memory}
		if m.register != nil {
			l.Capacity, l.Zone = float64(m.register.Capacity)/1000, m.register.Zone
		}
		loads = append(loads, l)
	}
	if len(loads) == 0 {
		return nil, nil
	}
	// The sums of each home are in small arrays, because the homes of shards are in no order.
	kept, shards, used := k.kept(), again(&c.memory.shards, len(loads)), again(&c.memory.used, len(loads))
	slots, costs := again(&c.memory.slots, len(kept)), again(&c.memory.costs, len(kept)) // of the kept shards; slot -1: may not move
	var movesFrom [][]pinMove
	for i := range kept {
		s := &kept[i]
		slots[i], costs[i] = -1, float32(k.costOf(s))
		m := c.goesTo(s)
		if m == nil || m.slot < 0 {
			continue
		}
		shards[m.slot]++
		used[m.slot] += float64(costs[i])
		if s.move != nil || c.now.Before(s.rest) {
			continue
		}
		if to, pinned := k.pinned(s.id.Shard, loads); !pinned {
			if !rests || s.since.IsZero() || !c.now.Before(s.since.Add(c.rest())) {
				slots[i] = int32(m.slot)
			}
		} else if from := loads[m.slot].Node; to != from {
			if movesFrom == nil {
				movesFrom = make([][]pinMove, len(loads))
			}
			movesFrom[m.slot] = append(movesFrom[m.slot], pinMove{from, placement.Transfer{Shard: s.id.Shard, To: to}})
		}
	}
	if rests {
		c.withBeside(k, costs)
	}
	// One slice holds the Movable of all homes, and one the Costs.
	movable, ordered, next := again(&c.memory.movable, len(kept)), again(&c.memory.ordered, len(kept)), again(&c.memory.next, len(loads))
	for i, at := 1, 0; i < len(loads); i++ {
		at += shards[i-1]
		next[i] = at
	}
	ends := again(&c.memory.ends, len(next))
	copy(ends, next)
	for i, slot := range slots {
		if slot >= 0 {
			movable[ends[slot]], ordered[ends[slot]] = k.info.Shards+uint32(i), costs[i]
			ends[slot]++
		}
	}
	for i := range loads {
		l, from, to := &loads[i], next[i], ends[i]
		l.Shards, l.OfType, l.Movable, l.Costs = shards[i], used[i], movable[from:to:to], ordered[from:to:to]
	}
	return loads, slices.Concat(movesFrom...)
}

// planMemory is what homes returns and works with. With a million shards, a plan would otherwise
// allocate 45 MB.
type planMemory struct {
	loads              []placement.Load
	shards, next, ends []int
	used               []float64
	slots              []int32
	costs, ordered     []float32
	movable            []uint32
}

// again returns n zero values in the memory of buf, which grows if necessary.
func again[T any](buf *[]T, n int) []T {
	*buf = slices.Grow((*buf)[:0], n)[:n]
	clear(*buf)
	return *buf
}

type pinMove struct {
	from transport.Address
	placement.Transfer
}

// fulfil returns the moves that pins require, at most limit of them. It also applies these moves to
// homes, so that the strategy sees the loads after the moves.
func fulfil(moves []pinMove, homes []placement.Load, limit int) (transfers []placement.Transfer) {
	for _, m := range moves[:min(limit, len(moves))] {
		transfers = append(transfers, m.Transfer)
		for i := range homes {
			switch homes[i].Node {
			case m.from:
				homes[i].Shards, homes[i].Total = homes[i].Shards-1, homes[i].Total-1
			case m.To:
				homes[i].Shards, homes[i].Total = homes[i].Shards+1, homes[i].Total+1
			}
		}
	}
	return transfers
}

// countTotals sums up the shards of each member, and the processors that they use. It also counts
// each type's shards without a home.
func (c *Coordinator) countTotals() {
	for _, a := range c.order {
		c.members[a].total, c.members[a].used = 0, 0
	}
	for _, name := range c.names {
		k := c.types[name]
		k.lacks = 0
		for i := range k.shards {
			s := &k.shards[i]
			if m := c.goesTo(s); m != nil {
				m.add(1, k.costOf(s))
			} else if s.at == nil && k.keeps(s) {
				k.lacks++
			}
		}
	}
}

// goesTo returns the member that will have the shard when its move has ended, or nil.
func (c *Coordinator) goesTo(s *shard) *member {
	if s.move != nil {
		return c.members[s.move.to]
	}
	return s.at
}
