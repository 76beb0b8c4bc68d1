package fault

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/netns"
)

// partition cuts the connection between two data centers. Each has its own NATS servers, so the
// nodes in one data center still reach each other. When a node of the smaller side ends during the
// cut, it is started again. Membership.MinMembers keeps the restarted nodes from forming a second
// cluster. A table in JetStream has copies on all servers, because the side that can read it stays.
var partition = Fault{
	Name:         "partition",
	About:        "two of five nodes, one of three NATS servers and a caller are cut off from the others for 60s",
	Nodes:        5,
	Servers:      3,
	Replicas:     3,
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

const (
	// certainlyRemoved is how long nodes must be cut off to be certainly removed, by default
	// settings.
	certainlyRemoved = 30 * time.Second
	viewLimit        = 15 * time.Second // after the heal
	stopLimit        = 6 * time.Second  // QuorumTimeout, and 1 s for the load of the machine
)

// sideOf returns the server of a node or caller. The smaller side is server 0, with n1, n2 and the
// second caller; n3 is alone at server 1.
func sideOf(name string) int {
	switch name {
	case "n1", "n2", callerName(1):
		return 0
	case "n3":
		return 1
	}
	return 2
}

type split struct {
	*Run
	minority  []victim   // nodes of the smaller side when the split began
	restarter *restarter // of the smaller side's nodes
}

// begin cuts off nodes, the first server and the second caller.
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

// reunite heals the partition, and waits until all nodes have one view and an even share of the
// entities.
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

// judgeNoSecondCluster reports turns at processes that were started on the smaller side during the
// partition.
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

type cuts struct {
	*report
	cluster *cluster.Cluster
}

func (c *cuts) hosts(names ...string) (hosts []*netns.Host, err error) {
	for _, name := range names {
		h, err := c.cluster.Host(name)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

func (c *cuts) everywhere(except ...*netns.Host) (hosts []*netns.Host) {
	for _, h := range c.cluster.Network().Hosts() {
		if !slices.Contains(except, h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

func (c *cuts) heal() error {
	network := c.cluster.Network()
	dropped, err := network.Dropped()
	if err != nil {
		return err
	}
	c.Note("%d packets were dropped", dropped)
	return network.Drop()
}

// oneWay loses a node's packets in one direction, as a broken cable or firewall does. The node is
// removed. The nodes that it finds unreachable stay.
var oneWay = Fault{
	Name:         "one-way",
	About:        "for 60s nothing arrives at one node, and what it sends does; then, for 60s, the other way round",
	Victim:       -1,
	Nodes:        5,
	Servers:      3,
	Length:       time.Minute,
	Needs:        netns.Supported,
	Separate:     true,
	SparesOthers: true,
	Lengths:      2,
	Within:       2 * time.Minute,
	Limits:       cutLimits,
	Inject: func(ctx context.Context, r *Run) error {
		k := keepUp(r.Cluster, r.Victim)
		defer func() { _ = k.end() }()
		for _, way := range []direction{arriving, leaving} {
			if err := r.spread(ctx); err != nil {
				return err
			}
			v, err := way.cut(r, k.node(r.Victim.Name()))
			if err != nil {
				return err
			}
			if err := r.Sleep(ctx, r.Length); err != nil {
				return err
			}
			r.noteRemoval(fmt.Sprintf("nothing %v: ", way), v, r.Length)
			if err := r.judgeHomes(v); err != nil {
				return err
			}
			if err := r.judgeStopped([]victim{v}, r.Length); err != nil {
				return err
			}
			if err := r.heal(); err != nil {
				return err
			}
			r.Begin() // figures count from the last heal
			if err := r.oneView(ctx, r.began, viewLimit); err != nil {
				return err
			}
		}
		r.Note("%d processes ended and were started again", k.total())
		return r.spread(ctx)
	},
}

// flipFlop loses packets to one node from time to time. Whenever the node is removed, it is
// restarted. Other nodes are not disturbed.
var flipFlop = Fault{
	Name:         "flip-flop",
	About:        "for 20s nothing arrives at one node, for 20s everything does, and so on, ten times over",
	Victim:       -1,
	Nodes:        5,
	Servers:      3,
	Length:       20 * time.Second,
	Rounds:       10,
	Needs:        netns.Supported,
	Separate:     true,
	SparesOthers: true,
	Lengths:      2,
	Within:       5 * time.Minute,
	Limits:       cutLimits,
	Inject: func(ctx context.Context, r *Run) error {
		k := keepUp(r.Cluster, r.Victim)
		defer func() { _ = k.end() }()
		for range r.options.Rounds {
			if err := r.spread(ctx); err != nil {
				return err
			}
			if _, err := arriving.cut(r, k.node(r.Victim.Name())); err != nil {
				return err
			}
			if err := r.Sleep(ctx, r.Length); err != nil {
				return err
			}
			if err := r.heal(); err != nil {
				return err
			}
			r.Begin() // figures count from the last heal
			if err := r.Sleep(ctx, r.Length); err != nil {
				return err
			}
		}
		if err := r.oneView(ctx, r.began, max(r.Length, viewLimit)); err != nil {
			return err
		}
		if err := r.spread(ctx); err != nil {
			return err
		}
		return r.judgeStrikes(k)
	},
}

// cutLimits are for faults that cut nodes off or make them stand still. Nothing that the other nodes have acknowledged may
// be lost, and calls must succeed within Recovery after the heal.
var cutLimits = Limits{
	Failed: unjudged, Unknown: unjudged, Lost: 0, Doubled: 0, Disorder: 0, Misstated: 0,
	Pause: unjudged, Recovery: 30 * time.Second,
}

type direction bool

const (
	arriving direction = false
	leaving  direction = true
)

func (d direction) String() string {
	if d == leaving {
		return "leaves"
	}
	return "arrives"
}

func (d direction) cut(r *Run, n *cluster.Node) (victim, error) {
	own, err := r.hosts(n.Name())
	if err != nil {
		return victim{}, err
	}
	rule := netns.Rule{From: r.everywhere(own...), To: own}
	if d == leaving {
		rule.From, rule.To = rule.To, rule.From
	}
	r.Begin()
	struck := r.Strike(n)
	return struck[0], r.Cluster.Network().Drop(rule)
}

// loss drops random packets. TCP resends them, so messages are late. With 80% lost in both
// directions, the victim's connections carry almost nothing, so it may be removed once. With 30%
// lost between all hosts, no node may be removed.
var loss = Fault{
	Name:         "loss",
	About:        "for 2m a node loses 80% of its packets, both ways; then, for 2m, every host loses 30% (the paper's time is -length 10m)",
	Victim:       -1,
	Nodes:        5,
	Servers:      3,
	Length:       2 * time.Minute,
	Rate:         200, // more does not fit through
	Needs:        netns.Supported,
	Separate:     true,
	SparesOthers: true,
	Lengths:      2,
	Within:       2 * time.Minute,
	Limits:       cutLimits,
	Inject: func(ctx context.Context, r *Run) error {
		if err := r.lossAtOne(ctx); err != nil {
			return err
		}
		return r.lossEverywhere(ctx)
	},
}

const (
	lossAtVictim   = 80 // percent
	lossAtAll      = 30
	changesAtLoss  = 1 // of the view, at most
	lossViewWithin = 30 * time.Second
)

func (r *Run) lossAtOne(ctx context.Context) error {
	k := keepUp(r.Cluster, r.Victim)
	defer func() { _ = k.end() }()
	if err := r.spread(ctx); err != nil {
		return err
	}
	own, err := r.hosts(r.Victim.Name())
	if err != nil {
		return err
	}
	others := r.everywhere(own...)
	r.Begin()
	v := r.Strike(r.Victim)[0]
	err = r.Cluster.Network().Drop(
		netns.Rule{From: own, To: others, Percent: lossAtVictim}, netns.Rule{From: others, To: own, Percent: lossAtVictim})
	if err != nil {
		return err
	}
	if err := r.Sleep(ctx, r.Length); err != nil {
		return err
	}
	changes := r.changes(v.since)
	r.Note("%d%% at %s: %d changes of the view", lossAtVictim, v.node.Name(), changes)
	if changes > changesAtLoss {
		r.Miss("%d changes of the view, want at most %d", changes, changesAtLoss)
	}
	if at := r.removal(v.node.Name(), v.since); !at.IsZero() {
		r.Note("%s was given up %v after the fault", v.node.Name(), round(at.Sub(v.since)))
		if err := r.judgeHomes(v); err != nil {
			return err
		}
	}
	if err := r.heal(); err != nil {
		return err
	}
	r.Begin()
	if err := r.oneView(ctx, r.began, lossViewWithin); err != nil {
		return err
	}
	r.Note("%d processes ended and were started again", k.total())
	return r.spread(ctx)
}

func (r *Run) lossEverywhere(ctx context.Context) error {
	all := r.everywhere()
	begin, ended := time.Now(), r.ended()
	if err := r.Cluster.Network().Drop(netns.Rule{From: all, To: all, Percent: lossAtAll}); err != nil {
		return err
	}
	made, failed := r.Load.Made(), r.Load.Failed()
	if err := r.Sleep(ctx, r.Length); err != nil {
		return err
	}
	changes := r.changes(begin)
	r.Note("%d%% everywhere: %d changes of the view, %d processes ended; %d calls, %d of them failed",
		lossAtAll, changes, r.ended()-ended, r.Load.Made()-made, r.Load.Failed()-failed)
	if changes > 0 || r.ended() > ended {
		r.Miss("%d changes of the view and %d ended processes with %d%% loss everywhere, want none", changes, r.ended()-ended, lossAtAll)
	}
	if err := r.heal(); err != nil {
		return err
	}
	r.Begin()
	return r.oneView(ctx, r.began, lossViewWithin)
}

func (r *Run) ended() (n int) {
	for _, node := range r.Cluster.Nodes() {
		if node.Ended() {
			n++
		}
	}
	return n
}
