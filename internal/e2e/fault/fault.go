// Package fault runs faults on a cluster of real processes under load, and
// judges the fate of the calls. Related faults share a file; catalog.go lists
// them all.
package fault

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/load"
)

// A Fault is something that happens to a cluster.
type Fault struct {
	Name    string
	About   string // one line
	Subject Subject
	// Durable makes the singleton durable. For other kinds of entities, the subject decides.
	Durable bool
	// Singleton makes the nodes host a singleton, too.
	Singleton bool
	// Victim is the number of the node hit by the fault, unless the run names another: 1 is the
	// oldest node, which is the coordinator's; -1 is the youngest. 0 means no victim.
	Victim int
	// Nodes and Servers are the default numbers of nodes and NATS servers. 0 means 3 nodes and one
	// server.
	Nodes, Servers int
	// Length is the default time for which the fault lasts.
	Length time.Duration
	// Rounds is the default number of rounds of a fault that has rounds. 0 means 5.
	Rounds int
	// Entities is the default number of entities. 0 means 1,000.
	Entities int
	// Rate is the default number of calls a second. 0 means 2,000.
	Rate int
	// Needs returns an error that names the reason if the fault cannot be run on this machine.
	Needs func() error
	// Program builds the program of the nodes in a directory, and returns its path. Nil means the
	// run's own program.
	Program func(ctx context.Context, dir string) (path string, err error)
	// Separate puts each server, node and caller on a host of its own, so that packets between them
	// can be dropped.
	Separate bool
	// Direct gives nodes and callers direct lanes, through proxies.
	Direct bool
	// MinMembers lets no node be up before more than half of the nodes have joined. So the smaller
	// side of a partition, restarted, forms no second cluster.
	MinMembers bool
	// Near returns the server that a node or caller connects to; nil means any.
	Near func(name string) int
	// Spares says that the fault must not remove any node from the cluster.
	Spares bool
	// SparesOthers says that only nodes passed by Inject to Run.Strike may be removed.
	SparesOthers bool
	// Inject injects the fault, and returns when the fault has taken full effect.
	Inject func(ctx context.Context, r *Run) error
	Limits Limits
	// Times is the default number of strikes. With UnderLoad these strikes follow Inject, one after
	// another, on nodes that nobody calls; 0 means none. Notice limits the time until all nodes
	// have noticed a strike. Other subjects need at least 1: see Subject.
	Times  int
	Notice time.Duration
	// Strike injects the fault at one node, and returns the time at which it did.
	Strike func(n *cluster.Node) (time.Time, error)
	// Hit injects the fault into a cluster with durable entities.
	Hit func(ctx context.Context, d *DurableRun) (Strike, error)
	// Table makes the nodes agree by a table, which the fault can make unreachable: see
	// TableProxy.
	Table bool
	// Replicas is the number of replicas of the store's streams. 0 means one.
	Replicas int
	// Forward makes entities publish the messages that they get from a stream.
	Forward bool
	// Lengths times Length is how long the fault, or each of its rounds, lasts. Default 1.
	Lengths int
	// Within bounds Inject beyond Lengths times Length. Default 30s.
	Within time.Duration
}

var faults = []Fault{join, leave, leaveMany, rolling, overload, kill, pause, hang, natsOutage, natsRestart, singletonLeave, singletonKill, durableSingletonKill, remembered, durableKill, durableKillR3, durablePause, durableRestart, durableServer, serverCrashUnsynced, brokerStallKill, twoStores, durableServerR3, power, fullRestart, partition, oneWay, flipFlop, loss, longPause, poison, starved, clock, directCut, directBlackHole, directFlap, tableOutage, tableHalf, tableSplit, changeOver, reminders, streams, publish}

func All() []Fault { return append([]Fault(nil), faults...) }

func ByName(name string) (Fault, error) {
	for _, f := range faults {
		if f.Name == name {
			return f, nil
		}
	}
	return Fault{}, fmt.Errorf("unknown fault %q (-list prints all faults)", name)
}

// A Subject is the kind of entities and nodes that a fault strikes. It decides how the fault is run
// and judged.
type Subject int

// Subjects of faults. Times is Fault.Times.
const (
	// UnderLoad strikes a cluster whose entities are called all the time. If Times is set, it
	// afterwards also strikes nodes that nobody calls.
	UnderLoad Subject = iota
	// OnSingleton strikes the node of a singleton that is called all the time, Times times. It is
	// judged by Limits.Failed, Limits.Lost (callers that the next instance has forgotten) and
	// Limits.Pause.
	OnSingleton
	// OnRemembered strikes a node with remembered entities that nobody calls, Times times. It is
	// judged by Limits.Recovery.
	OnRemembered
	// OnEveryNode strikes all nodes together, Times times, while a client outside the cluster stays
	// connected. It is judged by Limits.Recovery.
	OnEveryNode
	// OnDurable strikes nodes or servers of durable entities that are called all the time, Times
	// times, by Hit. It is judged by Limits.Failed, Lost, Doubled and Recovery.
	OnDurable
	// OnReminders kills, stops and replaces nodes of durable entities while their reminders are
	// due. It is judged by Limits.Lost, Doubled and Recovery: the greatest delay of 100 reminders.
	OnReminders
	// OnStreams strikes nodes and servers Times times while nodes apply a stream to durable entities. It
	// is judged by Limits.Lost and Doubled.
	OnStreams
)

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
	switch s {
	case OnReminders:
		return "a cluster with reminders"
	case OnStreams:
		return "a cluster that reads a stream"
	}
	return fmt.Sprintf("Subject(%d)", int(s))
}

type report struct {
	notes  []string
	misses []string
}

// Note adds a line that is printed below the row.
func (r *report) Note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// Miss records a figure over its limit, which fails the run.
func (r *report) Miss(format string, args ...any) {
	r.misses = append(r.misses, fmt.Sprintf(format, args...))
}

// A Row has the figures of one run of a fault.
type Row struct {
	Fault string
	load.Verdict
	load.Timing
	Notes  []string // further figures, in words
	Errors []string // the first errors that callers got
	Misses []string // figures over their limits; none when the run passed
}

func (r Row) Missed() []string { return r.Misses }

// Print writes a header, the row and its notes.
func (r Row) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fault\tcalls\tfailed\tunknown\tlost\tdoubled\tout of order\tmisstated\tlongest pause\tall succeed after")
	fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\n", r.Fault, r.Calls, r.Failed, r.Unknown, r.Lost,
		r.Doubled, r.Disorder, r.Misstated, round(r.Longest), round(r.Recovery))
	if err := t.Flush(); err != nil {
		return err
	}
	for _, line := range slices.Concat(r.Notes, r.Errors, r.Examples) {
		fmt.Fprintln(w, line)
	}
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// unjudged means that the figure is only printed.
const unjudged = -1

// Limits are the highest figures that a fault may have. A figure whose limit is unjudged has none.
type Limits struct {
	Failed, Unknown, Lost, Doubled, Disorder, Misstated int
	Closed                                              int // entities whose shard says that the store has lost acknowledged changes

	Pause    time.Duration // any entity's longest
	Recovery time.Duration // until all calls succeed again
	Refusal  time.Duration // p99 until excess calls are refused

	// Neighbours bounds the p99 of calls to entities beside poisoned ones, as a multiple of their
	// p99 before. If the machine has too few processors, it is a multiple of their p99 beside a
	// foreign process that loops. 0 means no limit.
	Neighbours float64
}

// misses describes figures over their limits, except Refusal and Neighbours, which their faults
// judge.
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
