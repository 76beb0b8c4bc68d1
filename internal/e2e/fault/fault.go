// Package fault runs faults on a cluster of real processes under load, and
// judges the fate of the calls. Each fault has a file of its own.
package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// A Subject is the kind of entities that a fault is about, which decides how it is run and judged.
type Subject int

// The subjects of faults.
const (
	// UnderLoad: a cluster whose entities are called all the time. Do runs it and, if
	// Times is set, Notice.
	UnderLoad Subject = iota
	// OnSingleton: the node of a singleton that is called all the time, Times times.
	// Handed runs it. It is judged by Limits.Failed, Limits.Lost (callers that were
	// forgotten) and Limits.Pause.
	OnSingleton
	// OnRemembered: a node with remembered entities that nobody calls, Times times.
	// Activate runs it. It is judged by Limits.Recovery.
	OnRemembered
	// OnEveryNode: all nodes together, Times times, while a client from outside stays.
	// RestartAll runs it. It is judged by Limits.Recovery.
	OnEveryNode
	// OnDurable: nodes or servers of durable entities that are called all the time, Times
	// times. Durable runs it, by Hit. It is judged by Limits.Failed, Lost, Doubled and Recovery.
	OnDurable
)

// String names the subject.
func (s Subject) String() string {
	switch s {
	case UnderLoad:
		return "a cluster under load"
	case OnSingleton:
		return "a singleton's node"
	case OnRemembered:
		return "a node with remembered entities"
	case OnEveryNode:
		return "all nodes together"
	case OnDurable:
		return "a cluster with durable entities"
	}
	return fmt.Sprintf("Subject(%d)", int(s))
}

// A Fault is something that happens to a cluster.
type Fault struct {
	Name    string
	About   string // one line
	Subject Subject
	// Durable: the singleton is durable. Others are, or are not, by their subject.
	Durable bool
	// Victim is which node it happens to when the run names none: 1 is the
	// oldest, which coordinates; -1 is the youngest. 0: it has no victim.
	Victim int
	// Nodes and Servers are how many nodes and NATS servers there are, if the run
	// does not say. 0: 3 nodes, one server.
	Nodes, Servers int
	// Length is how long it lasts, if the run does not say.
	Length time.Duration
	// Rounds is how often it happens, if the run does not say. 0: 5, for faults
	// that have rounds.
	Rounds int
	// Rate is how many calls are made a second, if the run does not say. 0: 2,000.
	Rate int
	// Needs returns why it cannot be run on this machine; nil means it can be run.
	Needs func() error
	// Program builds the program of the nodes in a directory and returns its path;
	// nil: it is the one of the run.
	Program func(ctx context.Context, dir string) (path string, err error)
	// Separate: servers, nodes and callers are on hosts of their own, between which
	// packets can be dropped.
	Separate bool
	// Direct: nodes and callers have direct lanes, through proxies.
	Direct bool
	// MinMembers: no node is up before more than half of them are there, so that a
	// smaller side that is started anew does not form a cluster of its own.
	MinMembers bool
	// Near is the server that a node or caller connects to; nil means any.
	Near func(name string) int
	// Spares: nobody may be removed from the cluster by it.
	Spares bool
	// SparesOthers: only processes that Inject names to Strike may be removed.
	SparesOthers bool
	// Inject makes it happen and returns when it has taken effect in full.
	Inject func(ctx context.Context, r *Run) error
	Limits Limits
	// Times is how often it is made to happen once more, one after the other, on
	// Nodes that nobody calls, if the run does not say; 0 means that is not run. It is
	// measured when all nodes have noticed, which may take Notice at most.
	Times  int
	Notice time.Duration
	// Strike makes it happen to a node and returns when.
	Strike func(n *cluster.Node) (time.Time, error)
	// Hit makes it happen to a cluster with durable entities.
	Hit func(ctx context.Context, d *DurableRun) (Strike, error)
	// Replicas is the number of servers that keep each durable entity. 0: one.
	Replicas int
	// Lengths is how often it lasts Length, one after the other, in each round if it
	// has Rounds. Default 1.
	Lengths int
	// Within bounds Inject, besides Lengths times Length. Default 30s.
	Within time.Duration
}

// unjudged is the limit of a figure that is printed only.
const unjudged = -1

// Limits are the most that a fault may cost; unjudged where there is no limit.
type Limits struct {
	Failed, Unknown, Lost, Doubled, Disorder, Misstated int

	Pause    time.Duration // of any entity
	Recovery time.Duration // until all calls go well again
	Refusal  time.Duration // of calls that are too many, p99

	// Neighbours is how many times longer calls beside poisoned entities may take, p99, than
	// they did before, or beside a foreign process that loops where the machine has too few
	// processors. 0: not limited.
	Neighbours float64
}

// misses names the figures of the row that are over their limits.
func (l Limits) misses(r Row) (misses []string) {
	count := func(what string, got, most int) {
		if most != unjudged && got > most {
			misses = append(misses, fmt.Sprintf("%s: %d, want at most %d", what, got, most))
		}
	}
	took := func(what string, got, most time.Duration) {
		if most != unjudged && got > most {
			misses = append(misses, fmt.Sprintf("%s: %v, want at most %v", what, round(got), most))
		}
	}
	count("failed", r.Failed, l.Failed)
	count("unknown", r.Unknown, l.Unknown)
	count("lost", r.Lost, l.Lost)
	count("doubled", r.Doubled, l.Doubled)
	count("out of order", r.Disorder, l.Disorder)
	count("misstated", r.Misstated, l.Misstated)
	count("entities that do not answer", r.Silent, 0)
	took("longest pause", r.Longest, l.Pause)
	took("recovery", r.Recovery, l.Recovery)
	return misses
}
