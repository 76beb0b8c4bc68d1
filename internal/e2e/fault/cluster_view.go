package fault

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/load"
	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/internal/e2e/process"
)

// A clusterView observes whether the nodes agree on the members, and where entities are.
type clusterView struct {
	*report
	cluster  *cluster.Cluster
	load     *load.Load
	nodes    []*cluster.Node // up before the fault
	entities int
}

func (v *clusterView) settled() bool {
	homes := v.load.LastSeen()
	for _, n := range v.nodes {
		if homes[n.Name()] < v.Share(len(v.nodes)) {
			return false
		}
	}
	return homes[""] == 0
}

// Share returns how many entities each of the nodes must have for the entities to count as spread:
// half of the mean, because shards have different numbers of entities.
func (v *clusterView) Share(nodes int) int { return v.entities / nodes / 2 }

// agreement returns the view of the running processes, and since when they agree. ok is false
// unless they agree, and there are as many of them as nodes says.
func (v *clusterView) agreement(nodes int) (view string, since time.Time, ok bool) {
	running := 0
	for _, n := range v.cluster.Nodes() {
		if n.Ended() {
			continue
		}
		running++
		e, said := lastAgreed(n)
		if !said || e.View == "" || view != "" && view != e.View {
			return "", time.Time{}, false
		}
		view = e.View
		if e.Time.After(since) {
			since = e.Time
		}
	}
	return view, since, running == nodes && strings.Count(view, "#") == nodes+1
}

func lastAgreed(n *cluster.Node) (e process.Event, ok bool) {
	said := n.Said()
	for i := len(said) - 1; i >= 0; i-- {
		if said[i].Event == node.Agreed {
			return said[i], true
		}
	}
	return e, false
}

// oneView waits until all nodes agree on one view. It reports a miss if that takes longer than
// limit, counted from the time from.
func (v *clusterView) oneView(ctx context.Context, from time.Time, limit time.Duration) error {
	err := until(ctx, "all have one view", func() bool {
		_, _, ok := v.agreement(len(v.nodes))
		return ok
	})
	if err != nil {
		return err
	}
	_, since, _ := v.agreement(len(v.nodes))
	took := max(0, since.Sub(from))
	v.Note("all %d nodes had one view again %v after the end of the fault", len(v.nodes), round(took))
	if took > limit {
		v.Miss("one view after %v, want at most %v", round(took), limit)
	}
	return nil
}

// leastStill is how long no entity may move before the entities count as spread, in addition to the
// time to call each entity once.
const leastStill = 2 * time.Second

// spread waits until each node has its share of the entities and no entity moves: all homes are then
// known.
func (v *clusterView) spread(ctx context.Context) error {
	var seen map[string]string
	var since time.Time
	err := until(ctx, "every node has its share and keeps it", func() bool {
		if !v.settled() || v.load.Unseen() > 0 {
			seen = nil
			return false
		}
		if now := v.load.Seen(); seen == nil || !maps.Equal(seen, now) {
			seen, since = now, time.Now()
		}
		return time.Since(since) > v.load.Tick()+leastStill
	})
	if err != nil {
		return fmt.Errorf("%w (%s)", err, load.Describe(v.load.LastSeen()))
	}
	return nil
}
