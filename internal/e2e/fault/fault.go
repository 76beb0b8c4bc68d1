// Package fault runs faults on a cluster of real processes under load, and
// judges the fate of the calls. Related faults share a file; catalog.go lists
// them all.
package fault

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// A Fault is something that happens to a cluster.
type Fault struct {
	Name    string
	About   string // one line
	Subject Subject
	// Durable makes the singleton durable. Others are, or are not, by their subject.
	Durable bool
	// Singleton has the nodes host a singleton besides.
	Singleton bool
	// Victim is the number of the node that it happens to, unless the run names another: 1 is
	// the oldest, which coordinates; -1 is the youngest. 0: it has no victim.
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
	// Needs returns the reason, as an error, if it cannot be run on this machine.
	Needs func() error
	// Program builds the program of the nodes in a directory and returns its path;
	// nil: it is the one of the run.
	Program func(ctx context.Context, dir string) (path string, err error)
	// Separate puts servers, nodes and callers on hosts of their own, between which
	// packets can be dropped.
	Separate bool
	// Direct gives nodes and callers direct lanes, through proxies.
	Direct bool
	// MinMembers has no node be up before more than half of them are there, so that a
	// smaller side that is started anew does not form a cluster of its own.
	MinMembers bool
	// Near is the server that a node or caller connects to; nil means any.
	Near func(name string) int
	// Spares says that the fault may remove nobody from the cluster.
	Spares bool
	// SparesOthers says that only nodes that Inject passes to Run.Strike may be removed.
	SparesOthers bool
	// Inject makes it happen and returns when it has taken effect in full.
	Inject func(ctx context.Context, r *Run) error
	Limits Limits
	// Times is the number of strikes, unless the run sets another number. Under load these are
	// further ones, one after another, on nodes that nobody calls, each measured until all
	// nodes have noticed it, for which Notice is the limit; 0: none. Other subjects need at
	// least 1: see Subject.
	Times  int
	Notice time.Duration
	// Strike makes it happen to a node and returns the time at which it did.
	Strike func(n *cluster.Node) (time.Time, error)
	// Hit makes it happen to a cluster with durable entities.
	Hit func(ctx context.Context, d *DurableRun) (Strike, error)
	// Replicas is the number of replicas of the store's streams. 0: one.
	Replicas int
	// Lengths is the number of Lengths that it lasts, in each round if it has rounds.
	// Default 1.
	Lengths int
	// Within bounds Inject, besides Lengths times Length. Default 30s.
	Within time.Duration
}
