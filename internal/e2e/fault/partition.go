package fault

import (
	"context"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/netns"
)

// partition is the fault in which two data centers lose sight of each other. Each side has NATS
// servers of its own, to which its nodes are connected, so that both could go on by themselves:
// that is harder than nodes that are cut off from their servers, which can say nothing to
// anybody. One of the two callers is on the smaller side. Nodes of it that end are started
// again at once, while it is still cut off: Config.MinMembers keeps them from forming a cluster
// of their own.
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
		p := split{Run: r}
		if err := p.begin(smaller); err != nil {
			return err
		}
		p.restarter = keepUp(r.Cluster, smaller...)
		defer func() { _ = p.restarter.end() }()
		if err := r.Sleep(ctx, r.Length); err != nil {
			return err
		}
		return p.reunite(ctx)
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

// A split is a partition under way.
type split struct {
	*Run
	minority  []victim   // on the smaller side when it began
	restarter *restarter // of the nodes of the smaller side
}

// begin drops all packets between the side of these nodes and the others. The
// first server and the second caller are on the side of these nodes.
func (p *split) begin(nodes []*cluster.Node) error {
	names := []string{"s1", callerName(1)}
	for _, n := range nodes {
		names = append(names, n.Name())
	}
	side, err := p.hosts(names...)
	if err != nil {
		return err
	}
	others := p.everywhere(side...)
	p.Begin()
	p.minority = p.Strike(nodes...)
	return p.Cluster.Network().Drop(netns.Rule{From: side, To: others}, netns.Rule{From: others, To: side})
}

// reunite heals the partition and waits until all is as before.
func (p *split) reunite(ctx context.Context) error {
	for _, v := range p.minority {
		p.noteRemoval("", v, p.Length)
	}
	if err := p.judgeHomes(p.minority...); err != nil {
		return err
	}
	if err := p.judgeStopped(p.minority, p.Length); err != nil {
		return err
	}
	p.Note("%d processes of the smaller side ended before the heal and were started again", p.restarter.total())
	if err := p.judgeNoSecondCluster(); err != nil {
		return err
	}
	if err := p.heal(); err != nil {
		return err
	}
	p.Begin() // figures count from the heal
	if err := p.oneView(ctx, p.began, viewLimit); err != nil {
		return err
	}
	if err := p.restarter.end(); err != nil {
		return err
	}
	return p.spread(ctx)
}

// judgeNoSecondCluster looks for turns at processes that were started on the
// smaller side while it was cut off.
func (p *split) judgeNoSecondCluster() error {
	for _, n := range p.Cluster.Nodes() {
		if !p.struck[n.Name()] || slices.ContainsFunc(p.minority, func(v victim) bool { return v.node == n }) {
			continue
		}
		ran, err := n.Witnessed()
		if err != nil {
			return err
		}
		if len(ran) > 0 {
			p.Miss("%s, started again while it was cut off, ran %d calls", n.Name(), len(ran))
		}
	}
	return nil
}
