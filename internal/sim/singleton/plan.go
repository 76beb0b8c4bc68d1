package singleton

import (
	"math/rand/v2"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
)

// A guard keeps the singleton the only one.
type guard uint8

const (
	byDowning guard = iota // downing with fencing
	byLease                // a lease; the cluster may fall apart
	byNothing              // automatic downing
)

// A plan has the decisions of a seed before anything happens.
type plan struct {
	guard     guard
	nodes     int
	faults    int
	pause     time.Duration // the most between two faults
	loss      float64       // of the control planes' messages
	slow      float64       // the share of those that take long
	storeLoss float64
	retry     time.Duration
	downing   membership.Downing
	servers   int
	// planned: members leave in order and join, and instances do not die by themselves.
	planned bool
	kill    bool // planned, and members are killed too
	ends    bool // planned, and in the end all members leave
}

func newPlan(r *rand.Rand) plan {
	p := plan{
		guard: []guard{byDowning, byDowning, byLease, byLease, byNothing}[r.IntN(5)],
		nodes: 2 + r.IntN(6), faults: 3 + r.IntN(8), pause: time.Duration(200+r.IntN(3000)) * time.Millisecond,
		loss: []float64{0, 0.05, 0.3}[r.IntN(3)], slow: []float64{0, 0.1}[r.IntN(2)],
		storeLoss: []float64{0, 0.1, 0.4}[r.IntN(3)], retry: time.Duration(50+r.IntN(500)) * time.Millisecond,
		servers: 1 + r.IntN(3),
	}
	switch {
	case p.guard == byNothing, p.guard == byLease && r.IntN(2) == 0:
		p.downing = membership.DowningAuto // halves go on side by side
	default:
		p.downing = []membership.Downing{membership.DowningBroker, membership.DowningKeepMajority, membership.DowningAll}[r.IntN(3)]
	}
	return p
}

// newLeaves is a plan of leaves in order, often of many members within milliseconds.
func newLeaves(r *rand.Rand) plan {
	return plan{
		planned: true, kill: r.IntN(4) == 0, ends: r.IntN(4) == 0,
		guard: []guard{byDowning, byDowning, byLease}[r.IntN(3)], downing: membership.DowningBroker,
		nodes: 2 + r.IntN(6), faults: 3 + r.IntN(15),
		pause: []time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second}[r.IntN(4)],
		loss:  []float64{0, 0.05, 0.3}[r.IntN(3)], slow: []float64{0, 0.1}[r.IntN(2)],
		retry: time.Duration(50+r.IntN(500)) * time.Millisecond, servers: 1 + r.IntN(3),
	}
}
