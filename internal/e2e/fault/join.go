package fault

import (
	"context"
	"time"
)

// join: a node gets its share of the shards, and no call notices.
var join = Fault{
	Name:   "join",
	About:  "a node joins and takes its share of the entities",
	Limits: Limits{Pause: 250 * time.Millisecond, Recovery: unjudged},
	Inject: func(ctx context.Context, r *Run) error {
		started, err := r.Cluster.Start(ctx, "joiner")
		if err != nil {
			return err
		}
		name, share := started[0].Name(), r.Share(len(r.Nodes)+1)
		return r.Until(ctx, "the new node has its share", func() bool { return r.Load.Homes()[name] >= share })
	},
}
