package chaos

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

type split struct{ *run }

func (r split) groups() (one, other []*sim.Server) {
	for _, s := range r.world.Servers() {
		if r.random.IntN(2) == 0 {
			one = append(one, s)
		} else {
			other = append(other, s)
		}
	}
	switch {
	case len(one) == 0:
		one, other = other[:1], other[1:]
	case len(other) == 0:
		one, other = one[1:], one[:1]
	}
	return one, other
}

// cutOff closes connections between two groups of servers, or drops messages. It passes to later a
// function that ends the cut.
func (r split) cutOff(later func(undo func())) (one, other []*sim.Server) {
	one, other = r.groups()
	closed := r.random.IntN(2) == 0
	for _, a := range one {
		for _, b := range other {
			if closed {
				r.world.Part(a, b)
			} else {
				r.world.Cut(a, b)
				r.world.Cut(b, a)
			}
		}
	}
	later(func() {
		for _, a := range one {
			for _, b := range other {
				r.world.Mend(a, b)
			}
		}
	})
	return one, other
}

// cleanly splits a cluster without other faults, and fails if a node on the majority's side has
// stopped. It judges only DowningBroker, DowningManual and DowningKeepMajority. It does not judge runs
// in which the larger side gives way to a cluster formed by the smaller side.
func (r split) cleanly() error {
	w := r.world
	if !w.RunUntil(time.Minute, 100*time.Millisecond, func() bool { return sim.Agreed(w.Running()) }) {
		return nil // the cluster waits for members that are not started yet
	}
	w.Run(milliseconds(r.random, 0, 15_000))
	if !sim.Agreed(w.Running()) {
		return nil // a node gave up joining, or came late
	}
	var undo func()
	one, other := r.cutOff(func(u func()) { undo = u })
	all := w.Running()
	founder := all[0].View().Founder
	majority := majorityAt(all, one)
	if majority == nil {
		majority = majorityAt(all, other)
	}
	switch r.plan.config.Downing {
	case broker, membership.DowningManual, membership.DowningKeepMajority:
	default:
		majority = nil
	}
	lasts := milliseconds(r.random, 1000, pick(r.random, 15_000.0, 60_000, 60_000))
	if r.plan.lasts > 0 {
		lasts = r.plan.lasts
	}
	w.Run(lasts)
	outranked := r.outranked(founder)
	undo()
	w.Run(milliseconds(r.random, 1000, 20_000))
	if outranked {
		return nil
	}
	var stopped []error
	for _, n := range majority {
		if n.Ended() {
			stopped = append(stopped, fmt.Errorf("%v has stopped on the side with the majority (%d of %d members): %v", n.Address, len(majority), len(all), n.Last()))
		}
	}
	return errors.Join(stopped...)
}

// outranked reports whether the cluster of this founder gives way when it meets the other clusters.
// The cluster with fewer Up members gives way; if the numbers are equal, the founders decide: see
// detector.Presence.OnAlive.
func (r split) outranked(founder transport.Address) bool {
	own, other, rival := 0, 0, transport.Address{}
	for _, n := range r.world.Running() {
		v := n.View()
		if v == nil {
			continue
		}
		switch size := v.Count(membership.Up); {
		case v.Founder == founder:
			own = max(own, size)
		case size > other, size == other && gossip.FounderBefore(v.Founder, rival):
			other, rival = size, v.Founder
		}
	}
	return other > own || other > 0 && other == own && gossip.FounderBefore(rival, founder)
}

// majorityAt returns the nodes at these servers, or nil if they have no majority of the votes. With
// DowningRole only nodes with the role vote.
func majorityAt(all []*sim.Node, servers []*sim.Server) []*sim.Node {
	votes := func(n *sim.Node) bool { return n.Config.DowningRole == "" || len(n.Config.Roles) > 0 }
	var side []*sim.Node
	voters, with := 0, 0
	for _, n := range all {
		here := false
		for _, s := range servers {
			here = here || n.Server() == s
		}
		if here {
			side = append(side, n)
		}
		if votes(n) {
			voters++
			if here {
				with++
			}
		}
	}
	if 2*with > voters {
		return side
	}
	return nil
}
