package fault

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
)

// rolling is a deployment: every node leaves and comes back under its name, one after another,
// five times over, and no call notices.
var rolling = Fault{
	Name:   "rolling-restart",
	About:  "every node is restarted, one after another, five times over",
	Limits: Limits{Pause: 250 * time.Millisecond, Recovery: unjudged},
	Within: 3 * time.Minute,
	Inject: func(ctx context.Context, r *Run) error {
		restarts := 0
		for range r.options.Rounds {
			for i, n := range r.Nodes {
				again, err := restart(ctx, r, n)
				if err != nil {
					return err
				}
				r.Nodes[i] = again
				restarts++
			}
		}
		r.Note("%d restarts", restarts)
		return nil
	},
}

// restart lets a node leave, starts it again and waits until it has its share.
func restart(ctx context.Context, r *Run, n *cluster.Node) (*cluster.Node, error) {
	if err := r.Cluster.Leave(ctx, n); err != nil {
		return nil, err
	}
	started, err := r.Cluster.Start(ctx, n.Name())
	if err != nil {
		return nil, err
	}
	share := r.Share(len(r.Nodes))
	return started[0], r.Until(ctx, n.Name()+" has its share again", func() bool { return r.Load.LastSeen()[n.Name()] >= share })
}
