package singleton

import (
	"math/rand/v2"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
)

// RunLeaves runs one seed. In this run members only join and leave in order, and no turn of the
// singleton may be lost, even if many members leave at once. In some runs members are also killed.
// Then a turn may be lost if only a killed member knew it, or if it was sent to that member before
// the death was known. No process may wait forever. If trace is not nil, it gets every line of the
// run.
func RunLeaves(seed uint64, trace func(line string)) Result {
	random := rand.New(rand.NewPCG(seed, 0x52))
	r := newRun(random, newLeaves(random), trace)
	for range r.plan.nodes {
		r.world.At(r.milliseconds(0, 1500), r.start)
	}
	if !r.settle(r.settled) {
		return r.end()
	}
	l := leaves{r, map[*sim.Node]bool{}}
	for range r.plan.faults {
		l.any()
		r.wait(r.milliseconds(0, float64(r.plan.pause)/float64(time.Millisecond)))
		if r.random.IntN(6) == 0 {
			r.wait(r.milliseconds(100, 5000))
		}
	}
	if r.plan.ends {
		l.all()
	}
	return r.end()
}

type leaves struct {
	*run
	left map[*sim.Node]bool // the members that were asked to leave, or were killed
}

func (l leaves) any() {
	var nodes []*sim.Node // may leave or be killed
	for _, n := range l.stay() {
		if l.heir(n) {
			nodes = append(nodes, n)
		}
	}
	switch kind := l.random.IntN(8); {
	case len(nodes) == 0 || kind == 0:
		l.trace("another node starts")
		l.start()
	case kind == 1 && l.plan.kill:
		n := nodes[l.random.IntN(len(nodes))]
		l.trace("%s is killed", n.Address.Name)
		l.mayLose = l.mayLose || l.transit() || l.actors[n.Address].shard.Core.State() == region.Open
		l.left[n], l.actors[n.Address].killed = true, true
		l.mayLose = l.mayLose || len(l.stay()) == 0 // a leaving member may find no taker
		l.world.Kill(n)
	case kind < 4: // the oldest
		l.leave(nodes[0])
	default:
		l.leave(nodes[l.random.IntN(len(nodes))])
	}
}

func (l leaves) stay() (nodes []*sim.Node) {
	for _, n := range l.world.Running() {
		if v := n.View(); !l.left[n] && v != nil && v.SelfStatus == membership.Up {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (l leaves) heir(n *sim.Node) bool {
	for _, o := range l.world.Running() {
		if m, ok := n.View().Member(o.Address); ok && o != n && !l.left[o] && m.Status <= membership.Up {
			return true
		}
	}
	return false
}

func (l leaves) transit() bool {
	for _, a := range l.order {
		switch a.shard.Core.State() {
		case region.Draining, region.Sent, region.Preparing, region.Prepared:
			if !a.over() {
				return true
			}
		}
	}
	return false
}

func (l leaves) leave(n *sim.Node) {
	l.trace("%s leaves", n.Address.Name)
	l.left[n] = true
	a := l.actors[n.Address]
	a.onLoop(a.control.Leave)
}

// all makes all members leave. The singleton's state ends with the last member. A node may start
// meanwhile. The instance of that node must not begin while the instance of a leaving member is
// active.
func (l leaves) all() {
	for stay := l.stay(); len(stay) > 0; stay = l.stay() {
		l.ended = l.ended || len(stay) == 1
		l.leave(stay[0])
		l.wait(l.milliseconds(0, float64(l.plan.pause)/float64(time.Millisecond)))
		if l.random.IntN(4) == 0 {
			l.start()
		}
	}
	if !l.settle(func() bool { return len(l.stay()) > 0 || len(l.world.Running()) == 0 }) {
		l.fail("some members have not left after %v: %v", settleTime, l.order)
	}
}

// begins checks that a new instance knows all turns of the instances before it.
func (r *run) begins(at *actor, turns uint64) {
	founder := at.node.View().Founder
	if r.plan.kill && founder != r.founder { // too many were killed, and a new cluster was founded
		r.mayLose = true
	}
	r.founder = founder
	if r.plan.planned && turns != r.turns && !r.mayLose && !r.ended {
		r.fail("earlier instances had %d turns, but the next one starts with %d", r.turns, turns)
	}
	r.turns, r.mayLose = turns, false
}
