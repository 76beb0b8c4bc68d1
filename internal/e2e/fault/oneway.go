package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/netns"
)

// oneWay is the fault in which of one node's packets those of one direction vanish, as with a
// broken cable or a firewall. Its messages arrive and it hears nothing, or the other way round.
// It is removed, and nobody that it accuses is.
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

// flipFlop is the fault in which nothing arrives at one node for a while, then everything, and
// so on. Whenever it was removed its process is started again. The others go on as if nothing
// were.
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

// cutLimits are those of a node that is cut off and comes back: nothing that was
// acknowledged elsewhere is lost, and soon after the heal all is well again.
var cutLimits = Limits{
	Failed: unjudged, Unknown: unjudged, Lost: 0, Doubled: 0, Disorder: 0, Misstated: 0,
	Pause: unjudged, Recovery: 30 * time.Second,
}

// A direction is the way of the packets of a victim that are dropped.
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

// cut drops the packets of a node in this direction.
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
