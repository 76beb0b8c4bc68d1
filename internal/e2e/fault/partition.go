package fault

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/netns"
)

// partition: two data centers lose sight of each other. Each side has NATS
// servers of its own, to which its nodes are connected, so that both could go on by
// themselves: that is harder than nodes that are cut off from their servers, which
// can say nothing to anybody. One of the two callers is on the smaller side. Nodes of
// it that end are started again at once, while it is still cut off: Config.MinMembers
// keeps them from forming a cluster of their own.
var partition = Fault{
	Name:         "partition",
	About:        "two of five nodes, one of three NATS servers and a caller are cut off from the others for 60s",
	Nodes:        5,
	Servers:      3,
	Length:       time.Minute,
	Needs:        netns.Supported,
	Separate:     true,
	Near:         sideOf,
	MinMembers:   true,
	SparesOthers: true,
	Within:       90 * time.Second,
	Limits: Limits{
		Failed: unjudged, Unknown: unjudged, Lost: 0, Doubled: 0, Disorder: 0, Misstated: 0,
		Pause: unjudged, Recovery: 30 * time.Second,
	},
	Inject: func(ctx context.Context, r *Run) error {
		if err := r.spread(ctx); err != nil {
			return err
		}
		var smaller []*cluster.Node
		for _, n := range r.Nodes {
			if sideOf(n.Name()) == 0 {
				smaller = append(smaller, n)
			}
		}
		minority, err := r.cutOff(smaller)
		if err != nil {
			return err
		}
		k := r.keep(smaller...)
		defer func() { _ = k.end() }()
		if err := r.Sleep(ctx, r.Length); err != nil {
			return err
		}
		return r.reunite(ctx, minority, k)
	},
}

// Limits of a partition.
const (
	// certainlyRemoved is how long nodes must be cut off so that they must have been
	// removed, by default settings.
	certainlyRemoved = 30 * time.Second
	viewLimit        = 15 * time.Second // after the heal
	stopLimit        = 6 * time.Second  // LeaseMajority, and one for the load of the machine
)

// sideOf is the server to which a node or caller is connected. The first one is on
// the smaller side: with n1, with n2 if the others are more, and with one caller.
func sideOf(name string) int {
	switch name {
	case "n1", "n2", callerName(1):
		return 0
	case "n3":
		return 1
	}
	return 2
}

// cutOff drops all packets between the side of these nodes and the others. The
// first server and the second caller are on theirs.
func (r *Run) cutOff(nodes []*cluster.Node) ([]victim, error) {
	names := []string{"s1", callerName(1)}
	for _, n := range nodes {
		names = append(names, n.Name())
	}
	side, err := r.hosts(names...)
	if err != nil {
		return nil, err
	}
	others := r.everywhere(side...)
	r.Begin()
	victims := r.Strike(nodes...)
	return victims, r.Cluster.Network().Drop(netns.Rule{From: side, To: others}, netns.Rule{From: others, To: side})
}

// reunite heals the partition and waits until all is as before.
func (r *Run) reunite(ctx context.Context, minority []victim, k *keeper) error {
	for _, v := range minority {
		r.noteRemoval("", v)
	}
	if err := r.judgeOwners(minority...); err != nil {
		return err
	}
	if err := r.judgeStopped(minority); err != nil {
		return err
	}
	r.Note("%d processes of the smaller side ended before the heal and were started again", k.total())
	if err := r.judgeNoSecondCluster(minority); err != nil {
		return err
	}
	if err := r.heal(); err != nil {
		return err
	}
	r.Begin() // figures count from the heal
	if err := r.oneView(ctx, r.began, viewLimit); err != nil {
		return err
	}
	if err := k.end(); err != nil {
		return err
	}
	return r.spread(ctx)
}

// judgeNoSecondCluster looks for turns at processes that were started on the
// smaller side while it was cut off.
func (r *Run) judgeNoSecondCluster(minority []victim) error {
	for _, n := range r.Cluster.Nodes() {
		if !r.struck[n.Name()] || slices.ContainsFunc(minority, func(v victim) bool { return v.node == n }) {
			continue
		}
		ran, err := n.Witnessed()
		if err != nil {
			return err
		}
		if len(ran) > 0 {
			r.Miss("%s, started again while it was cut off, ran %d calls", n.Name(), len(ran))
		}
	}
	return nil
}

// judgeStopped looks for turns that victims ran long after they were cut off.
func (r *Run) judgeStopped(victims []victim) error {
	if r.Length < certainlyRemoved {
		return nil // too short to tell
	}
	for _, v := range victims {
		ran, err := v.node.Witnessed()
		if err != nil {
			return err
		}
		late := 0
		for _, call := range ran {
			if time.Unix(0, call.At).Sub(v.since) > stopLimit {
				late++
			}
		}
		if late > 0 {
			r.Miss("%s ran %d calls later than %v after it was cut off", v.node.Name(), late, stopLimit)
		}
	}
	return nil
}

func callerName(i int) string { return fmt.Sprintf("client-%d", i) }
