package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// LoadWeighted places shards by the processor time that they use. A member's load is the number of
// processors that it uses, divided by its Capacity. The mean is the same quotient for all members
// together.
//
// Shards begin to move when a member's load is above 1.2 times the mean, and they move until no
// load is above 1.1 times the mean. A member's penalty is (load/mean - 1)², below the mean a quarter
// of that. Each move takes a shard from the member with the highest load to where the sum of the two
// members' penalties falls most. If no move of the member's shards lowers that sum by more than
// 0.002, the member with the next lower load is tried. So under a steady load no shard moves, and a
// shard that is a member's whole load stays.
//
// Loads are means over time with a half-life of three reports, 30 s. After a move a shard stays for
// 5 min. In an hour a coordinator moves at most a tenth of a type's shards, or one shard if that is
// more. From members above 1.5 times the mean, more may move. No shard moves to a member that uses
// more than 0.9 of its GOMEMLIMIT, or whose capacity the shard would exceed. No shard moves while
// the highest load is below a twentieth of the capacity, or while a member's reports have stopped.
//
// Shards without a home go to the member with the lowest load; members above 0.9 of GOMEMLIMIT come
// last. Until a type's shards have been measured, they go to the member that has the fewest of them
// in proportion to its capacity.
type LoadWeighted struct{}

// Limits of LoadWeighted.
const (
	beginAbove  = 1.2 // of the mean
	stopBelow   = 1.1
	urgentAbove = 1.5 // the budget may be overdrawn
	leastGain   = 0.002
	fullMemory  = 0.9
	idleBelow   = 0.05 // of the capacity
	maxPlanned  = 8    // moves in a plan
	maxSides    = 16   // members considered as source of a move; one more as destination
)

// A Balance is what a coordinator keeps of one type between two plans of [LoadWeighted].
type Balance struct {
	Moving bool    // a member has been above 1.2, and moves go on until none is above 1.1
	Budget float64 // moves that may be made now; below 0 if it was overdrawn
}

// Hourly returns how many of n shards may move in an hour.
func (LoadWeighted) Hourly(n int) float64 { return max(1, float64(n)/10) }

// A LoadMove is a move of a [LoadWeighted] with its reason, as multiples of the mean load.
type LoadMove struct {
	Transfer
	Home     transport.Address // of the shard, before the move
	From, To float64           // the loads of Home and of Transfer.To before the move
	After    float64           // the load of Home after the move
	Left     float64           // the Budget after the move
}

// String describes the move for people.
func (m LoadMove) String() string {
	return fmt.Sprintf("%s at %.2f, %s at %.2f of mean; makes %.2f", m.Home.Name, m.From, m.Transfer.To.Name, m.To, m.After)
}

// String implements [Strategy].
func (LoadWeighted) String() string { return "load-weighted" }

// share returns the used share of a member's capacity.
func (l *Load) share() float64 { return l.Used / l.capacity() }

// capacity returns a member's capacity. An unknown capacity counts as one processor.
func (l *Load) capacity() float64 {
	if l.Capacity <= 0 {
		return 1
	}
	return l.Capacity
}

// Allocate implements [Strategy].
func (LoadWeighted) Allocate(_ ShardID, homes []Load) transport.Address {
	measured := slices.ContainsFunc(homes, func(l Load) bool { return l.OfType > 0 })
	return slices.MinFunc(homes, func(a, b Load) int {
		by := cmp.Compare(float64(a.Shards)/a.capacity(), float64(b.Shards)/b.capacity())
		if measured {
			full := cmp.Compare(btoi(a.Memory > fullMemory), btoi(b.Memory > fullMemory))
			by = cmp.Or(full, cmp.Compare(a.share(), b.share()), by)
		}
		return cmp.Or(by, cmp.Compare(a.Total, b.Total), a.Node.Compare(b.Node))
	}).Node
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Rebalance implements [Strategy]. It is Plan without a memory of earlier plans.
func (w LoadWeighted) Rebalance(_ string, homes []Load, limit int) (all []Transfer) {
	moves, _, _ := w.Plan(homes, Balance{Budget: float64(limit)}, limit)
	for _, m := range moves {
		all = append(all, m.Transfer)
	}
	return all
}

// Plan returns at most limit and at most 8 moves, the Balance after them, and why it stopped.
func (LoadWeighted) Plan(homes []Load, b Balance, limit int) (moves []LoadMove, after Balance, still string) {
	used, capacity := 0.0, 0.0
	for i := range homes {
		used += homes[i].Used
		capacity += homes[i].capacity()
	}
	if used <= 0 {
		return nil, Balance{false, b.Budget}, "no load has been measured yet"
	}
	p := plan{homes: homes, mean: used / capacity, moved: map[uint32]bool{}, load: make([]float64, len(homes))}
	for i := range homes {
		p.load[i] = homes[i].share() / p.mean
	}
	for len(moves) < min(limit, maxPlanned) {
		p.rank()
		highest := p.high[0]
		name, most, floor := homes[highest].Node.Name, p.load[highest], beginAbove
		if b.Moving {
			floor = stopBelow
		}
		switch {
		case most < floor:
			b.Moving = false
			return moves, b, fmt.Sprintf("%s, the highest, is at %.2f of mean, and moves begin above %.1f", name, most, beginAbove)
		case most*p.mean < idleBelow:
			b.Moving = false
			return moves, b, fmt.Sprintf("%s, the highest, is at %.2f of mean, but uses only %.1f%% of its capacity (moves begin from %.0f%% on)", name, most, 100*most*p.mean, 100*idleBelow)
		case b.Budget < 1 && most < urgentAbove:
			b.Moving = true
			return moves, b, fmt.Sprintf("%s is at %.2f of mean, but the budget of moves for this hour is used up (above %.1f it may be overdrawn)", name, most, urgentAbove)
		}
		if b.Budget < 1 {
			floor = urgentAbove // if the highest member's shards fit nowhere, other members must not overdraw the budget instead
		}
		best, ok := p.best(floor)
		if !ok {
			b.Moving = false
			if len(homes[highest].Movable) == 0 {
				return moves, b, fmt.Sprintf("%s is at %.2f of mean, but none of its shards may move now (they have just come, or are pinned)", name, most)
			}
			return moves, b, fmt.Sprintf("%s is at %.2f of mean, but none of its %d shards that may move would make it better by enough (is one entity most of its load?)", name, most, len(homes[highest].Movable))
		}
		b.Moving = true
		b.Budget--
		moves = append(moves, p.take(best, b.Budget))
	}
	return moves, b, "the limit of simultaneous moves is reached"
}

// A plan holds the loads of the members while moves are chosen.
type plan struct {
	homes []Load
	mean  float64 // of the used shares of capacities
	load  []float64
	moved map[uint32]bool
	high  []int // the homes with the highest loads, the highest first; at most maxSides
	low   []int // the homes with the lowest loads that may get shards, the lowest first; at most maxSides+1
}

// rank sets p.high and p.low. Of equally loaded homes it prefers the first in p.homes, which are
// ordered by address.
func (p *plan) rank() {
	p.high, p.low = p.high[:0], p.low[:0]
	for i := range p.homes {
		p.high = insert(p.high, i, maxSides, func(at int) bool { return p.load[at] < p.load[i] })
		if p.homes[i].Memory <= fullMemory {
			p.low = insert(p.low, i, maxSides+1, func(at int) bool { return p.load[at] > p.load[i] })
		}
	}
}

// insert adds i to a list before the trailing elements for which behind is true. A list longer than
// n loses its last element.
func insert(list []int, i, n int, behind func(at int) bool) []int {
	at := len(list)
	for at > 0 && behind(list[at-1]) {
		at--
	}
	switch {
	case at == n:
		return list
	case len(list) == n:
		list = list[:n-1]
	}
	return slices.Insert(list, at, i)
}

type choice struct {
	from, to, i int // i is an index in Movable
	gain, cost  float64
}

// penalty returns how badly a member is loaded. load is in multiples of the members' mean. The
// penalty is the square of its distance from 1, divided by 4 if load is below 1.
func penalty(load float64) float64 {
	d := load - 1
	if d < 0 {
		return d * d / 4
	}
	return d * d
}

// best returns the best move from the highest member that has a worthwhile move. ok is false if no
// member above floor has one.
func (p *plan) best(floor float64) (best choice, ok bool) {
	for _, from := range p.high {
		if p.load[from] < floor {
			break
		}
		best = choice{gain: leastGain}
		l := &p.homes[from]
		for i := range min(len(l.Movable), len(l.Costs)) {
			if cost := float64(l.Costs[i]); cost > 0 && !p.moved[l.Movable[i]] {
				p.target(&best, from, i, cost)
			}
		}
		if best.cost > 0 {
			return best, true
		}
	}
	return best, false
}

// target looks for a move of one shard with a higher gain than that of best. It considers each
// member in p.low that has room, and sets best to the move with the highest gain. The shard is
// p.homes[from].Movable[i], and uses cost processors.
func (p *plan) target(best *choice, from, i int, cost float64) {
	leaves := p.load[from] - cost/p.homes[from].capacity()/p.mean
	for _, to := range p.low {
		if to == from {
			continue
		}
		comes := p.load[to] + cost/p.homes[to].capacity()/p.mean
		if comes >= p.load[from] || comes*p.mean > 1 { // above its capacity
			continue
		}
		gain := penalty(p.load[from]) + penalty(p.load[to]) - penalty(leaves) - penalty(comes)
		if gain > best.gain {
			*best = choice{from, to, i, gain, cost}
		}
	}
}

// take applies a choice to the loads, and returns the move.
func (p *plan) take(c choice, left float64) LoadMove {
	from, to := &p.homes[c.from], &p.homes[c.to]
	m := LoadMove{
		Transfer: Transfer{from.Movable[c.i], to.Node}, Home: from.Node,
		From: p.load[c.from], To: p.load[c.to], Left: left,
	}
	p.load[c.from] -= c.cost / from.capacity() / p.mean
	p.load[c.to] += c.cost / to.capacity() / p.mean
	p.moved[m.Shard] = true
	m.After = p.load[c.from]
	return m
}
