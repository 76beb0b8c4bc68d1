// Package chaos makes random runs of small clusters with random settings, with every fault and every
// ordinary event of [sim.World]. The clusters must come back to one view. The seed decides everything.
// In about one run in eleven, the only fault is a split, mostly between racks of nodes with
// consecutive names, and the majority's side must not stop.
//
//	go run ./internal/sim/cmd/simulate -scenario random -seeds 10000
//	go run ./internal/sim/cmd/simulate -scenario random -seed 42 -events
//	go run ./internal/sim/cmd/simulate -scenario random -seed 42 -trace
//
// The second command replays one seed and prints the faults and the members' events; the
// third also prints every message.
//
// To add a fault, put it into the table of faults, and its repair into run.heal. A new
// setting of membership belongs in newPlan.
package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
)

type Options struct {
	Seed uint64
	// Table makes the members agree by a table, and adds faults of the table.
	Table bool
	// Trace, if set, gets every line of the trace.
	Trace func(line string)

	change func(*plan) // for tests: changes the plan of the seed
}

// A Result has the outcome of a run.
type Result struct {
	Seed  uint64
	Err   error // the first failure, or nil
	Hash  uint64
	Steps uint64
	// Virtual is how long the run took in virtual time. Settled is the part after the last
	// fault.
	Virtual, Settled time.Duration
	Nodes            int // processes that ever were
	Counts           Counts
}

// Counts counts membership events, once for each node that sees the event. A sweep of many
// seeds does not test an event whose count is 0.
type Counts struct {
	Ups, Downs, Removals, Leaves, Rejoins, SelfDowned, JoinFailed, Fenced, Unreachable int
}

type run struct {
	plan   plan
	world  *sim.World
	random *rand.Rand
	// operators is apart from random, so that runs without operators keep their steps.
	operators *rand.Rand

	counts Counts

	table bool
	calm  bool // no more random events may happen
}

// Run makes the random run of a seed.
func Run(o Options) Result {
	r := &run{random: newRandom(o.Seed), operators: rand.New(rand.NewPCG(o.Seed, 0x09e7a))}
	r.plan = newPlan(r.random, o)
	r.plan.told = r.operators.IntN(3) == 0
	if o.change != nil {
		o.change(&r.plan)
	}
	r.world = sim.New(r.plan.world)
	r.table = r.plan.config.Table.Enabled
	r.world.OnEvents, r.world.OnEnd = r.count, r.ended
	for i := range r.plan.nodes {
		r.world.At(milliseconds(r.random, 0, pick(r.random, 50.0, 3000)), func() { r.start(name(i)) })
	}
	r.world.Run(milliseconds(r.random, 500, 8000))
	var broken error
	if r.plan.clean {
		broken = split{r}.cleanly()
	} else {
		r.happen()
	}
	r.heal()
	began := r.world.Now()
	settled := r.world.RunUntil(r.plan.settle, 100*time.Millisecond, r.settled)
	result := Result{
		Seed: o.Seed, Err: r.world.Err(), Hash: r.world.Hash(), Steps: r.world.Steps(), Virtual: r.world.Now(),
		Settled: r.world.Now() - began, Nodes: len(r.world.Nodes()), Counts: r.counts,
	}
	if result.Err == nil {
		result.Err = broken
	}
	if result.Err == nil && !settled {
		result.Err = fmt.Errorf("the members have not agreed on one view %v after the last fault:\n%s", r.plan.settle, r.describe())
	}
	return result
}

func (r *run) happen() {
	for range r.plan.faults {
		faults{r}.any()
		wait := milliseconds(r.random, 0, float64(r.plan.pause/time.Millisecond))
		if r.random.IntN(6) == 0 {
			wait += milliseconds(r.random, 5000, 25_000) // long enough for slow nodes
		}
		r.world.Run(wait)
		if r.world.Err() != nil {
			return
		}
	}
}

func (r *run) start(name string) {
	running := r.world.Running()
	if len(running) >= r.plan.most || r.calm && named(running, name) {
		return
	}
	number, err := strconv.Atoi(name[1:])
	if err != nil {
		panic(err) // as below
	}
	n, err := r.world.Add(r.plan.configOf(r.random, name), sim.Place{
		Server: r.plan.server(r.random, number),
		Drift:  r.random.IntN(2*r.plan.drift+1) - r.plan.drift,
		Offset: time.Duration(r.random.Int64N(int64(r.plan.offset))),
	})
	if err != nil {
		panic(err) // a mistake of the plan
	}
	r.world.Start(n)
}

func (r *run) count(_ *sim.Node, events []membership.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case membership.MemberUp:
			r.counts.Ups++
		case membership.MemberDowned:
			r.counts.Downs++
		case membership.MemberRemoved:
			r.counts.Removals++
			if e.Member.Status == membership.Down && e.Member.Fenced {
				r.counts.Fenced++
			}
		case membership.MemberLeaving:
			r.counts.Leaves++
		case membership.UnreachableMember:
			r.counts.Unreachable++
		case membership.JoinFailed:
			r.counts.JoinFailed++
		case membership.SelfDowned:
			r.counts.SelfDowned++
			if e.Rejoin {
				r.counts.Rejoins++
			}
		}
	}
}

// ended starts a process again after the process has ended: always if it must rejoin, and never
// after an orderly removal. After any other end it does so in half of the cases before heal, and
// never after heal.
func (r *run) ended(n *sim.Node, last membership.Event) {
	again := r.random.IntN(2) == 0 && !r.calm
	switch last := last.(type) {
	case membership.SelfDowned:
		again = again || last.Rejoin
	case membership.SelfRemoved:
		again = false
	}
	if again {
		r.world.After(milliseconds(r.random, 10, 500), func() { r.start(n.Address.Name) })
	}
}

func (r *run) heal() {
	w := r.world
	r.calm = true
	w.LoseAll(0)
	for i, a := range w.Servers() {
		w.StartServer(a)
		for _, b := range w.Servers()[:i] {
			w.Mend(a, b)
		}
	}
	w.TableDown(false)
	for _, n := range w.Running() {
		w.CutTable(n, false)
		w.Lose(n, 0, 0)
		w.Thaw(n)
	}
}

// settled reports whether all running processes are Up in one view. As the operator, it starts
// required processes, and downs dead members if downing is manual or no running voter could fence
// them.
func (r *run) settled() bool {
	nodes := r.world.Running()
	blue, votersIn, first := 0, 0, len(r.plan.config.Seeds) == 0
	for _, n := range nodes {
		if len(n.Config.Roles) > 0 {
			blue++
			if n.IsMember() {
				votersIn++
			}
		}
		first = first || n.Address.Name == r.plan.config.Seeds[0]
	}
	want := max(r.plan.config.MinMembers, r.plan.config.QuorumSize, 1)
	for _, m := range r.plan.config.MinRoleMembers {
		if blue < m.Members {
			want = len(nodes) + 1
		}
	}
	if r.plan.config.DowningRole != "" && blue == 0 {
		want = len(nodes) + 1
	}
	switch {
	case len(nodes) < want && want > r.plan.most:
		r.makeRoom(nodes) // for a node that has the role
	case !first:
		r.start(r.plan.config.Seeds[0])
	case len(nodes) < want:
		r.start(freeName(nodes, r.random.IntN(100)))
	}
	if r.plan.config.Downing == membership.DowningManual || r.plan.config.DowningRole != "" && votersIn == 0 {
		r.downDead(nodes)
	}
	return sim.Agreed(r.world.Running())
}

// named reports whether one of the nodes has the name. A second process with a name waits for the
// first to end.
func named(nodes []*sim.Node, name string) bool {
	return slices.ContainsFunc(nodes, func(n *sim.Node) bool { return n.Address.Name == name })
}

// freeName returns the first free name from the i-th on.
func freeName(nodes []*sim.Node, i int) string {
	for named(nodes, name(i)) {
		i++
	}
	return name(i)
}

func (r *run) makeRoom(nodes []*sim.Node) {
	for _, n := range nodes {
		if len(n.Config.Roles) == 0 {
			r.world.Kill(n)
			return
		}
	}
}

func (r *run) downDead(nodes []*sim.Node) {
	dead := make(map[string]bool)
	for _, n := range r.world.Nodes() {
		if n.Ended() {
			dead[n.Address.String()] = true
		}
	}
	for _, n := range nodes {
		if !n.IsMember() {
			continue
		}
		for _, m := range n.View().ByAddress {
			if (dead[m.Address.String()] || m.Quarantined) && !m.Forced {
				r.world.Give(n, membership.DownNode{Node: m.Address})
			}
		}
	}
}

func (r *run) describe() string {
	var pictures []string
	seenBy := make(map[string][]string)
	for _, n := range r.world.Running() {
		var b strings.Builder
		v := n.View()
		fmt.Fprintf(&b, "founder %v, leader %v, converged %v %s\n", v.Founder, v.Leader, v.Converged, v.Why)
		for _, m := range v.ByAge {
			fmt.Fprintf(&b, "   %v %v\n", m.Member, m.Evidence)
		}
		picture := b.String()
		if seenBy[picture] == nil {
			pictures = append(pictures, picture)
		}
		seenBy[picture] = append(seenBy[picture], fmt.Sprintf("%v %v", n.Address, v.SelfStatus))
	}
	var b strings.Builder
	for _, p := range pictures {
		fmt.Fprintf(&b, "%s: %s", strings.Join(seenBy[p], ", "), p)
	}
	return b.String()
}
