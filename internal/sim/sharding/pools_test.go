package sharding

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// poolName is the name of the pool. Instance i is the only entity of the i-th shard.
const poolName = "P"

// Bounds of the pool.
const (
	poolLeast   = 2
	poolPerNode = 1
)

// loadInterval is the interval between reports of loads. It is so short that the budget's hour is
// loadHour here.
const (
	loadInterval = 20 * time.Millisecond
	loadRest     = 30 * loadInterval
	loadHour     = 360 * loadInterval
)

// mayFail returns how many of a number of members may fail without an interruption of the pool.
func mayFail(nodes int) int { return min(1, nodes-1) }

// kinds returns the names of the types.
func (w *world) kinds() []string {
	if w.plan.pool > 0 {
		return []string{kindName, poolName}
	}
	return []string{kindName}
}

// types returns the types that each member hosts.
func (p plan) types() []coordinator.TypeInfo {
	k := coordinator.TypeInfo{Name: kindName, Package: "p", Shards: uint32(p.shards), HashName: "xxh64", Hosts: true}
	if p.loaded {
		k.Tuning.Allocation = placement.LoadWeighted{}.String()
	}
	if p.pool == 0 {
		return []coordinator.TypeInfo{k}
	}
	survive, err := coordinator.FormatSurvive(mayFail)
	if err != nil {
		panic(err)
	}
	pool := coordinator.TypeInfo{Name: poolName, Package: "p", Shards: uint32(p.pool), HashName: "pool", Hosts: true}
	pool.Tuning.Pool = coordinator.Pool{Min: poolLeast, Max: uint32(p.pool), PerNode: poolPerNode, Survive: survive}
	return []coordinator.TypeInfo{k, pool}
}

// handoffOf returns how shards of a type move. The pool has the default of package shard.
func (p plan) handoffOf(kind string) region.Handoff {
	if kind == poolName {
		return region.Handoff{Serving: true, Unordered: true}
	}
	return p.handoff
}

// instances returns the pool's instances that have a home, as the process knows. count is one more
// than the number of the last instance.
func (p *process) instances() (all []placement.ShardID, count uint32) {
	for _, id := range p.w.ids[p.w.plan.shards:] {
		if e, ok := p.table.Lookup(id); ok && !e.Home.IsZero() {
			all = append(all, id)
			count = id.Shard - uint32(p.w.plan.pool) + 1
		}
	}
	return all, count
}

// instance returns a random instance that has a home.
func (p *process) instance() (id placement.ShardID, ok bool) {
	if p.table == nil {
		return id, false
	}
	all, _ := p.instances()
	if len(all) == 0 {
		return id, false
	}
	return all[p.w.r.IntN(len(all))], true
}

// has reports whether the process may call an entity of the shard. In a pool it may call only an
// instance that has a home.
func (p *process) has(id placement.ShardID) bool {
	if id.Kind != poolName {
		return true
	}
	if p.table == nil {
		return false
	}
	e, ok := p.table.Lookup(id)
	return ok && !e.Home.IsZero()
}

// stranded takes back the calls that wait for an instance which the pool no longer has, as package
// node does. Tells are lost here, because to the oracle another instance is another entity.
func (p *process) stranded(id placement.ShardID) {
	if id.Kind != poolName || p.table == nil {
		return
	}
	if _, count := p.instances(); count == 0 || id.Shard-uint32(p.w.plan.pool) < count {
		return
	}
	p.pending.Strand(&p.routes[id].Route, func(e *wire.Envelope) { p.w.oracle.lose(e, "its instance has ended") })
}

// resize makes a member ask for a number of instances, or for a number by load again.
func (w *world) resize() {
	asker := w.pick((*process).healthy)
	if asker == nil {
		return
	}
	n := uint32(w.r.IntN(w.plan.pool + 2))
	w.log("%s asks for %d instances", asker.name, n)
	asker.control.request(func(id uint64) coordinator.Message {
		return coordinator.SetPins{ID: id, Type: poolName, Count: &n}
	}, func(coordinator.Message) {})
}

// drift sets initial loads, and changes them all the time.
func (w *world) drift() {
	if w.costs == nil {
		w.costs = make([]float64, len(w.ids))
		for i := range w.costs {
			w.costs[i] = 0.4 / math.Pow(float64(1+w.r.IntN(len(w.ids))), 1.1)
		}
		w.demand = 1
	}
	i, j := w.r.IntN(len(w.costs)), w.r.IntN(len(w.costs))
	switch {
	case w.one(3):
		w.costs[i], w.costs[j] = w.costs[j], w.costs[i]
	case w.one(2):
		w.costs[i] = w.r.Float64() / 2
	}
	if w.one(8) {
		w.demand = w.r.Float64() * float64(w.plan.pool) / 2
	}
	w.after(w.upTo(200*time.Millisecond), w.drift)
}

// reportLoads reports how much the shards at a host use, now and at each interval.
func (p *process) reportLoads() {
	p.after(loadInterval, p.reportLoads)
	if p.w.quiet || p.table == nil {
		return
	}
	l := coordinator.MemberLoad{Other: uint32(p.w.r.IntN(50)), Memory: uint32(p.w.r.IntN(700))}
	if p.w.one(50) {
		l.Memory = 950
	}
	for i, id := range p.w.ids {
		if e, ok := p.table.Lookup(id); !ok || e.Home != p.self.Address {
			continue
		}
		noise := 0.8 + 0.4*p.w.r.Float64()
		l.Shards = append(l.Shards, coordinator.ShardLoad{ShardID: id, Level: coordinator.LevelOf(p.w.costs[i] * noise)})
	}
	p.control.do(func() { p.control.ReportLoad(l) })
	if p.w.plan.pool > 0 {
		p.reportPool()
	}
}

// reportPool reports how busy the instances at a host are.
func (p *process) reportPool() {
	here, n := 0, 0
	for _, id := range p.w.ids[p.w.plan.shards:] {
		if e, ok := p.table.Lookup(id); ok && !e.Home.IsZero() {
			n++
			if e.Home == p.self.Address {
				here++
			}
		}
	}
	if here == 0 {
		return
	}
	busy := min(1, p.w.demand/float64(n)*(0.8+0.4*p.w.r.Float64()))
	l := coordinator.PoolLoad{Type: poolName, Instances: uint32(here), Busy: uint32(1000 * busy * float64(here))}
	p.control.do(func() { p.control.ToCoordinator(l) })
}

// A started is the beginning of a move by load.
type started struct {
	shard placement.ShardID
	at    time.Time
}

// An arrival is the end of a move, as a coordinator knows it.
type arrival struct {
	by *process
	at time.Time
}

// placed checks a coordinator's decision by load. It must be within the budget, unless the home has
// more than 1.5 of the mean load. It must not move a shard that has just arrived.
func (o *oracle) placed(p *process, e coordinator.Event) {
	switch {
	case e.What == coordinator.PoolSized:
		o.sized++
	case e.What == coordinator.MoveCommitted && e.Peer.IsZero():
		o.retired++
	case e.What == coordinator.MoveResumed:
		o.spent[p] = slices.DeleteFunc(o.spent[p], func(m started) bool { return m.shard == e.Shard && o.w.now.Sub(m.at) < o.w.now.Sub(o.came[e.Shard].at) })
	case e.What == coordinator.MoveCommitted || e.What == coordinator.MovePromoted:
		o.came[e.Shard] = arrival{p, o.w.now}
	}
	by, ok := strings.CutPrefix(e.Reason, "by load: ")
	if e.What != coordinator.MoveStarted || !ok {
		return
	}
	o.byLoad++
	var home, rest string
	var load float64
	if _, err := fmt.Sscanf(by, "%s at %f, %s", &home, &load, &rest); err != nil {
		o.w.fail("%s: %q: %v", p.name, e.Reason, err)
	}
	spent := slices.DeleteFunc(o.spent[p], func(m started) bool { return o.w.now.Sub(m.at) > loadHour })
	o.spent[p] = append(spent, started{e.Shard, o.w.now})
	if most := int(placement.LoadWeighted{}.Hourly(o.w.plan.shards)); len(spent) >= most && load < 1.495 {
		o.w.fail("%s moves %v by load, after %d moves in an hour of %d allowed: %s", p.name, e.Shard, len(spent), most, e.Reason)
	}
	if came, ok := o.came[e.Shard]; ok && came.by == p && o.w.now.Sub(came.at) < loadRest {
		o.w.fail("%s moves %v by load %v after it came", p.name, e.Shard, o.w.now.Sub(came.at))
	}
}

// zoneOf returns the zone of a process. Each server of the broker has its own zone.
func zoneOf(p *process) string { return string(rune('a' + p.server)) }

// apart checks the pool at rest. It has enough instances to survive failures, each at a member of
// its own. They are in two zones if there are two.
func (w *world) apart(at *process) {
	if w.plan.pool == 0 {
		return
	}
	hosts, zones := 0, map[string]bool{}
	for _, p := range w.procs {
		if p.healthy() {
			hosts++
			zones[zoneOf(p)] = true
		}
	}
	all, count := at.instances()
	least := min(hosts, max(poolLeast, mayFail(hosts)+1))
	used, in := map[transport.Address]int{}, map[string]bool{}
	for _, id := range all {
		e, _ := at.table.Lookup(id)
		used[e.Home]++
		in[zoneOf(w.process(e.Home))] = true
	}
	if len(in) < min(len(zones), mayFail(hosts)+1) {
		w.fail("the instances are in the zones %v, and the %d members in %v", in, hosts, zones)
	}
	if len(all) < least || int(count) != len(all) || len(used) != len(all) {
		w.fail("the pool has the instances %v of %d at %d members of %d, want %d at least, each at one of its own", all, count, len(used), hosts, least)
	}
}
